package judge

import (
	"embed"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/internal/fault"
)

//go:embed languages/*.yaml
var languageFiles embed.FS

// Language says how sources of one language become a running program. In the
// argument lists these words are replaced: {sources} (one argument a file),
// {out} (path of the first program file while compiling), {program} (its path
// when running), {entry} (path of the entry source), {class} (its name without
// extension) and {memory_mib} (the problem's memory limit).
type Language struct {
	ID   string `yaml:"id"`
	Name string `yaml:"name"`
	// Extensions are of files that are compiled, Headers of files that only lie
	// beside them; both with the dot.
	Extensions []string `yaml:"extensions"`
	Headers    []string `yaml:"headers"`
	// SourceFile is the name a single source gets, and the entry point of many.
	SourceFile string `yaml:"source_file"`
	// NeedsEntry says that one of several sources must be the entry point.
	NeedsEntry bool   `yaml:"needs_entry"`
	Template   string `yaml:"template"`
	Compile    struct {
		Argv []string `yaml:"argv"`
		Env  []string `yaml:"env"`
		// Program are the files that the compiler leaves in the build directory
		// and that are kept; none means that the sources themselves are run.
		Program   []string `yaml:"program"`
		Processes int      `yaml:"processes"`
	} `yaml:"compile"`
	Run struct {
		Argv []string `yaml:"argv"`
		Env  []string `yaml:"env"`
	} `yaml:"run"`
	Limits struct {
		// TimeFactor multiplies the problem's time limit; zero is 1.
		TimeFactor float64 `yaml:"time_factor"`
		// MemoryOverheadMiB is what the runtime itself may hold on top.
		MemoryOverheadMiB int64 `yaml:"memory_overhead_mib"`
		// Processes is the cap of processes and threads; zero is 64.
		Processes int `yaml:"processes"`
		// OutOfMemoryExit is the exit code with which the runtime says that its
		// own heap is full; zero is none.
		OutOfMemoryExit int `yaml:"out_of_memory_exit"`
	} `yaml:"limits"`
	Version  []string `yaml:"version"`
	SelfTest struct {
		Source string `yaml:"source"`
		Output string `yaml:"output"`
	} `yaml:"self_test"`
}

func (l Language) compiles(name string) bool { return slices.Contains(l.Extensions, path.Ext(name)) }

func (l Language) header(name string) bool { return slices.Contains(l.Headers, path.Ext(name)) }

// Languages is a set of languages. It never changes once made.
type Languages struct {
	byID map[string]Language
	ids  []string
}

// DefaultLanguages are the languages that come with Assay.
func DefaultLanguages() (*Languages, error) {
	sub, err := fs.Sub(languageFiles, "languages")
	if err != nil {
		return nil, err
	}
	return LoadLanguages(sub)
}

// LoadLanguages reads every *.yaml of a folder. Errors are of kind Invalid and
// name the file and line.
func LoadLanguages(dir fs.FS) (*Languages, error) {
	names, err := fs.Glob(dir, "*.yaml")
	if err != nil {
		return nil, err
	}
	set := &Languages{byID: map[string]Language{}}
	owner := map[string]string{}
	for _, name := range names {
		data, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		var l Language
		if err := yaml.UnmarshalWithOptions(data, &l, yaml.Strict()); err != nil {
			return nil, fault.Errorf(fault.Invalid, "language file %s: %w", name, err)
		}
		if err := l.check(); err != nil {
			return nil, fault.Errorf(fault.Invalid, "language file %s: %w", name, err)
		}
		if _, twice := set.byID[l.ID]; twice {
			return nil, fault.Errorf(fault.Invalid, "language file %s: language %q is there twice", name, l.ID)
		}
		for _, ext := range l.Extensions {
			if other, taken := owner[ext]; taken {
				return nil, fault.Errorf(fault.Invalid, "language file %s: extension %s belongs to %s already", name, ext, other)
			}
			owner[ext] = l.ID
		}
		set.byID[l.ID] = l
		set.ids = append(set.ids, l.ID)
	}
	if len(set.ids) == 0 {
		return nil, fault.Errorf(fault.Invalid, "no language files")
	}
	slices.Sort(set.ids)
	return set, nil
}

var languageID = regexp.MustCompile(`^[a-z][a-z0-9]*$`)

func (l Language) check() error {
	switch {
	case !languageID.MatchString(l.ID):
		return fault.Errorf(fault.Invalid, "id %q: use lower-case letters and digits", l.ID)
	case l.Name == "" || l.Template == "":
		return fault.Errorf(fault.Invalid, "name and template must be given")
	case len(l.Extensions) == 0:
		return fault.Errorf(fault.Invalid, "no extensions")
	case !fileName.MatchString(l.SourceFile) || !l.compiles(l.SourceFile):
		return fault.Errorf(fault.Invalid, "source_file %q must be a file name with one of the extensions", l.SourceFile)
	case len(l.Run.Argv) == 0:
		return fault.Errorf(fault.Invalid, "run.argv is empty")
	case len(l.Compile.Argv) == 0:
		return fault.Errorf(fault.Invalid, "compile.argv is empty")
	case l.Limits.TimeFactor < 0 || l.Limits.MemoryOverheadMiB < 0 || l.Limits.Processes < 0 || l.Compile.Processes < 0:
		return fault.Errorf(fault.Invalid, "a limit is negative")
	}
	for _, ext := range append(slices.Clone(l.Extensions), l.Headers...) {
		if len(ext) < 2 || ext[0] != '.' {
			return fault.Errorf(fault.Invalid, "extension %q does not begin with a dot", ext)
		}
	}
	for _, p := range l.Compile.Program {
		if !fileName.MatchString(p) {
			return fault.Errorf(fault.Invalid, "program %q is not a file name", p)
		}
	}
	return nil
}

// IDs are all language IDs, sorted.
func (s *Languages) IDs() []string { return slices.Clone(s.ids) }

// ByID gives a language; an unknown ID is Invalid and the error names the known.
func (s *Languages) ByID(id string) (Language, error) {
	l, ok := s.byID[id]
	if !ok {
		return Language{}, fault.Errorf(fault.Invalid, "language %q is not known", id).
			WithHint("use one of: %s", strings.Join(s.ids, ", "))
	}
	return l, nil
}

// Detect finds the language of a submission by its file extensions. Files of no
// known language, or of two, are Invalid.
func (s *Languages) Detect(files []SourceFile) (Language, error) {
	var found Language
	var by string
	for _, f := range files {
		l, ok := s.forFile(f.Name)
		if !ok {
			continue
		}
		if found.ID != "" && found.ID != l.ID {
			return Language{}, fault.Errorf(fault.Invalid, "%q is %s, but %q is %s", by, found.Name, f.Name, l.Name).
				WithHint("send files of one language, or name the language")
		}
		found, by = l, f.Name
	}
	if found.ID == "" {
		names := make([]string, 0, len(files))
		for _, f := range files {
			names = append(names, strconv.Quote(f.Name))
		}
		return Language{}, fault.Errorf(fault.Invalid, "no known language has the extension of %s", strings.Join(names, ", ")).
			WithHint("known extensions: %s", s.extensionsText())
	}
	for _, f := range files {
		if !found.compiles(f.Name) && !found.header(f.Name) {
			return Language{}, fault.Errorf(fault.Invalid, "%q is not a file of %s", f.Name, found.Name).
				WithHint("send only sources: %s", strings.Join(append(slices.Clone(found.Extensions), found.Headers...), ", "))
		}
	}
	return found, nil
}

func (s *Languages) forFile(name string) (Language, bool) {
	for _, id := range s.ids {
		if l := s.byID[id]; l.compiles(name) {
			return l, true
		}
	}
	return Language{}, false
}

func (s *Languages) extensionsText() string {
	var parts []string
	for _, id := range s.ids {
		parts = append(parts, strings.Join(s.byID[id].Extensions, " ")+" ("+id+")")
	}
	return strings.Join(parts, ", ")
}

// SelfTestCase gives the language's own small program as something to judge:
// Judge.Run must accept it. check compares its output.
func (l Language) SelfTestCase(check Checker) (Problem, Submission) {
	p := Problem{
		ShortName: "selftest", Name: "self-test of " + l.Name, Checker: check,
		Limits: ProblemLimits{CPU: selfTestTime},
		Cases:  []Case{{Name: "hello", Sample: true, Input: BytesBlob("hello.in", nil), Answer: BytesBlob("hello.ans", []byte(l.SelfTest.Output))}},
	}
	p.Version = "sha256:" + p.Cases[0].Answer.SHA256()
	s := Submission{Name: "selftest/" + l.SourceFile, Language: l.ID, Files: []SourceFile{{Name: l.SourceFile, Data: []byte(l.SelfTest.Source)}}}
	return p, s
}
