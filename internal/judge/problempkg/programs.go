package problempkg

import (
	"path"
	"slices"
	"strings"

	"assay/internal/fault"
	"assay/internal/judge"
)

// Caps on what the jury's programs and the included code may hold, in bytes.
const (
	maxProgramFile = 8 << 20
	maxPrograms    = 48 << 20
)

// programs reads every program of a folder: each folder in it is one, and each
// source that lies there, together with the headers beside it.
func (r *reader) programs(dir string, protocol judge.Protocol) ([]judge.Program, error) {
	folders := map[string][]string{}
	var loose, order []string
	for _, name := range r.t.below(dir) {
		rest := strings.TrimPrefix(name, dir+"/")
		first, _, inFolder := strings.Cut(rest, "/")
		if !inFolder {
			loose = append(loose, name)
			continue
		}
		if folders[first] == nil {
			order = append(order, first)
		}
		folders[first] = append(folders[first], name)
	}
	var list []judge.Program
	add := func(name, root string, files []string) error {
		p := judge.Program{Name: name, Protocol: protocol}
		for _, f := range files {
			data, err := r.source(f, maxProgramFile)
			if err != nil {
				return err
			}
			if r.programBytes += int64(len(data)); r.programBytes > maxPrograms {
				return fault.Errorf(fault.Invalid, "%s: the jury's programs have more than %d bytes together", f, int64(maxPrograms))
			}
			p.Files = append(p.Files, judge.SourceFile{Name: strings.TrimPrefix(f, root+"/"), Data: data})
		}
		list = append(list, p)
		return nil
	}
	for _, p := range r.loosePrograms(dir, loose) {
		if err := add(p.name, dir, p.files); err != nil {
			return nil, err
		}
	}
	for _, first := range order {
		if len(list) == 0 || !r.onlyHeaders(folders[first]) {
			if err := add(path.Join(dir, first), path.Join(dir, first), folders[first]); err != nil {
				return nil, err
			}
		}
	}
	slices.SortStableFunc(list, func(a, b judge.Program) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

type looseProgram struct {
	name  string
	files []string
}

// loosePrograms makes programs of files that lie in no folder of their own: one
// of all when there is a script to build or run, else one for each source, with
// the files that are none.
func (r *reader) loosePrograms(dir string, loose []string) []looseProgram {
	var sources, others []string
	for _, name := range loose {
		switch ext := path.Ext(name); {
		case path.Base(name) == "build" || path.Base(name) == "run":
			return []looseProgram{{dir, loose}}
		case ext == ".ctd" || ext == ".viva":
			r.t.warn("%s is not run: only programs are", name)
		case r.isSource(name):
			sources = append(sources, name)
		default:
			others = append(others, name)
		}
	}
	if slices.ContainsFunc(sources, func(n string) bool {
		return strings.HasPrefix(path.Base(n), "__main__.") || strings.HasPrefix(path.Base(n), "__init__.")
	}) {
		return []looseProgram{{dir, append(sources, others...)}}
	}
	var list []looseProgram
	for _, s := range sources {
		list = append(list, looseProgram{s, append([]string{s}, others...)})
	}
	if len(sources) == 0 {
		for _, name := range others {
			r.t.warn("%s is ignored: it is no source of a known language", name)
		}
	}
	return list
}

// oneProgram reads a folder that is one program itself (2025-09). A single
// folder inside of it, as other packages have, is taken for it.
func (r *reader) oneProgram(dir string, protocol judge.Protocol) (*judge.Program, error) {
	names := r.t.below(dir)
	if len(names) == 0 {
		return nil, nil
	}
	root := dir
	for {
		first, _, inFolder := strings.Cut(strings.TrimPrefix(names[0], root+"/"), "/")
		inner := path.Join(root, first)
		if !inFolder || slices.ContainsFunc(names, func(n string) bool { return !strings.HasPrefix(n, inner+"/") }) {
			break
		}
		root = inner
	}
	p := &judge.Program{Name: dir, Protocol: protocol}
	for _, name := range names {
		data, err := r.source(name, maxProgramFile)
		if err != nil {
			return nil, err
		}
		if r.programBytes += int64(len(data)); r.programBytes > maxPrograms {
			return nil, fault.Errorf(fault.Invalid, "%s: the jury's programs have more than %d bytes together", name, int64(maxPrograms))
		}
		p.Files = append(p.Files, judge.SourceFile{Name: strings.TrimPrefix(name, root+"/"), Data: data})
	}
	return p, nil
}

// source reads a file in which constants are filled in.
func (r *reader) source(name string, limit int) ([]byte, error) {
	data, err := r.t.text(name, int64(limit))
	if err != nil {
		return nil, err
	}
	return r.meta.constants.fill(name, data, limit)
}

// isSource reports whether the extension belongs to a language.
func (r *reader) isSource(name string) bool {
	_, err := r.langs.Detect([]judge.SourceFile{{Name: path.Base(name)}})
	return err == nil
}

func (r *reader) onlyHeaders(names []string) bool {
	return !slices.ContainsFunc(names, func(n string) bool {
		base := path.Base(n)
		return base == "build" || base == "run" || r.isSource(n)
	})
}

// include reads the code that is added to submissions, by language ID.
func (r *reader) include() (map[string][]judge.SourceFile, error) {
	var all map[string][]judge.SourceFile
	for _, name := range r.t.below("include") {
		code, rest, inFolder := strings.Cut(strings.TrimPrefix(name, "include/"), "/")
		if !inFolder {
			r.t.warn("%s is ignored: it lies in no folder of a language", name)
			continue
		}
		if strings.Contains(rest, "/") {
			return nil, fault.Errorf(fault.Unsupported, "%s: code added to submissions cannot lie in folders", name).
				WithHint("put the file into include/%s itself", code)
		}
		id := code
		if code != "default" {
			l, err := r.langs.ByID(code)
			if err != nil {
				r.t.warn("%s is ignored: language %q is not known here", name, clip(code))
				continue
			}
			id = l.ID
		}
		data, err := r.source(name, maxProgramFile)
		if err != nil {
			return nil, err
		}
		if r.programBytes += int64(len(data)); r.programBytes > maxPrograms {
			return nil, fault.Errorf(fault.Invalid, "%s: included code and programs have more than %d bytes together", name, int64(maxPrograms))
		}
		if all == nil {
			all = map[string][]judge.SourceFile{}
		}
		all[id] = append(all[id], judge.SourceFile{Name: rest, Data: data})
	}
	return all, nil
}

// validators finds checkers, interactor, static and input validators.
func (r *reader) validators() error {
	p := &r.pkg.Problem
	custom, err := r.outputValidators()
	if err != nil {
		return err
	}
	if len(r.side.special) > 0 {
		if custom, err = r.special(custom); err != nil {
			return err
		}
	}
	switch {
	case r.meta.interactive && len(custom) == 0:
		return fault.Errorf(fault.Invalid, "the problem is interactive, but the package has no output validator").
			WithHint("put it into output_validator/ (legacy: output_validators/NAME/)")
	case r.meta.interactive && len(custom) > 1:
		return fault.Errorf(fault.Unsupported, "an interactive problem with %d output validators is not supported", len(custom)).
			WithHint("join them into one")
	case r.meta.interactive:
		p.Interactor = &custom[0]
	default:
		p.Checkers = custom
	}
	if r.meta.multiPass && len(custom) == 0 {
		return fault.Errorf(fault.Invalid, "the problem is multi-pass, but the package has no output validator to write the next input").
			WithHint("put it into output_validator/ (legacy: output_validators/NAME/)")
	}
	if p.StaticValidator, err = r.oneProgram("static_validator", judge.Kattis); err != nil {
		return err
	}
	for _, dir := range []string{"input_validators", "input_format_validators"} {
		list, err := r.programs(dir, judge.Kattis)
		if err != nil {
			return err
		}
		p.InputValidators = append(p.InputValidators, list...)
	}
	return nil
}

// special finds the programs that domjudge-problem.ini names, where problem.yaml
// asks for none.
func (r *reader) special(custom []judge.Program) ([]judge.Program, error) {
	const ini = iniName
	for _, l := range r.side.special {
		if len(custom) > 0 {
			r.t.warn("%s:%d: %s is ignored: problem.yaml and the package's output validator say it already", ini, l.line, l.key)
			continue
		}
		var found *judge.Program
		for _, dir := range []string{"output_validators/" + l.value, l.value} {
			if !entryName.MatchString(l.value) {
				break
			}
			p, err := r.oneProgram(dir, judge.Kattis)
			if err != nil {
				return nil, err
			}
			if p != nil {
				found = p
				break
			}
		}
		if found == nil {
			return nil, fault.Errorf(fault.Unsupported, "%s:%d: %s names %q, which is not in the package", ini, l.line, l.key, clip(l.value)).
				WithHint("put its sources into output_validators/%s/ and write validation: custom into problem.yaml", clip(l.value))
		}
		custom = []judge.Program{*found}
		r.meta.interactive = r.meta.interactive || l.key == "special_run"
		r.meta.validatorFlags = strings.TrimSpace(r.meta.validatorFlags + " " + strings.Join(r.side.compareArgs, " "))
	}
	return custom, nil
}

// outputValidators are the jury's own: of 2025-09 the one in output_validator,
// of legacy those in output_validators if the metadata asks for them. Each
// format's folder is taken in the other, too: real packages mix them.
func (r *reader) outputValidators() ([]judge.Program, error) {
	one, err := r.oneProgram("output_validator", judge.Kattis)
	if err != nil {
		return nil, err
	}
	many, err := r.programs("output_validators", judge.Kattis)
	if err != nil {
		return nil, err
	}
	if !r.meta.rules && !r.meta.custom {
		if (one != nil || len(many) > 0) && len(r.side.special) == 0 {
			r.t.warn("the package has output validators, but problem.yaml does not say validation: custom: they are not used")
		}
		return nil, nil
	}
	switch {
	case r.meta.rules && one != nil || one != nil && len(many) == 0:
		if len(many) > 0 {
			r.t.warn("output_validators/ is ignored: the format has output_validator/")
		}
		return []judge.Program{*one}, nil
	case r.meta.rules && len(many) > 1:
		return nil, fault.Errorf(fault.Invalid, "output_validators/ holds %d validators, the format has exactly one", len(many)).
			WithHint("put it into output_validator/")
	case r.meta.rules && len(many) == 1:
		r.t.warn("output_validators/ is taken for output_validator/, as the format calls it")
	case len(many) == 0 && !r.meta.rules:
		return nil, fault.Errorf(fault.Invalid, "problem.yaml says validation: custom, but output_validators/ holds no program").
			WithHint("put it into output_validators/NAME/")
	}
	return many, nil
}
