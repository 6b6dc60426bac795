package judge

import (
	"embed"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

//go:embed languages/*.yaml
var languageFiles embed.FS

// Language says how sources of one language become a running program. In the
// argument lists these words are replaced: {sources} (one argument a file),
// {out} (path of the first program file while compiling), {program} (its path
// when running), {entry} (path of the entry source), {class} (its name without
// extension), {dir} (the folder of the sources) and {memory_mib} (the problem's
// memory limit).
type Language struct {
	ID   string `yaml:"id"`
	Name string `yaml:"name"`
	// Aliases are other names of the language, in lower case, as packages use
	// them ("c++", "cpp.g++20").
	Aliases []string `yaml:"aliases"`
	// Extensions are of files that are compiled, Headers of files that only lie
	// beside them; both with the dot.
	Extensions []string `yaml:"extensions"`
	// ByName says that the language must be asked for: its extensions, which
	// another one may have, too, never choose it.
	ByName  bool     `yaml:"by_name"`
	Headers []string `yaml:"headers"`
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
		// OutOfMemoryText is what the runtime writes to standard error before it
		// ends the program because its own heap is full; empty is none.
		OutOfMemoryText string `yaml:"out_of_memory_text"`
	} `yaml:"limits"`
	// Version is a command that prints the compiler's or runtime's version.
	Version []string `yaml:"version"`
	// SelfTest is a program that prints Output whatever its input is.
	SelfTest struct {
		Source string `yaml:"source"`
		Output string `yaml:"output"`
	} `yaml:"self_test"`
}

// Compiles reports whether a file of this name is compiled, or run.
func (l Language) Compiles(name string) bool { return slices.Contains(l.Extensions, path.Ext(name)) }

func (l Language) header(name string) bool { return slices.Contains(l.Headers, path.Ext(name)) }

// Places are where the files of a program lie in a machine, for Language.Command.
type Places struct {
	// Dir is the folder of the sources, Build the compiler's, Program that of
	// what is run.
	Dir, Build, Program string
	// Entry is the entry source, Sources are all that are compiled; both are
	// names in Dir.
	Entry   string
	Sources []string
	// Memory is the limit of the run in bytes, the runtime's own included.
	Memory int64
}

// Command replaces the words of Language in an argument list.
func (l Language) Command(args []string, at Places) []string {
	program, out := "", ""
	if len(l.Compile.Program) > 0 {
		program, out = at.Program+"/"+l.Compile.Program[0], at.Build+"/"+l.Compile.Program[0]
	}
	words := strings.NewReplacer(
		"{program}", program, "{out}", out, "{entry}", at.Dir+"/"+at.Entry, "{class}", baseName(at.Entry), "{dir}", at.Dir,
		"{memory_mib}", strconv.FormatInt(max(1, (at.Memory>>20)-l.Limits.MemoryOverheadMiB), 10))
	var list []string
	for _, a := range args {
		if a == "{sources}" {
			for _, s := range at.Sources {
				list = append(list, at.Dir+"/"+s)
			}
			continue
		}
		list = append(list, words.Replace(a))
	}
	return list
}

// OutOfMemory reports whether a program that ended like this says that its
// runtime had no memory left. A program can only claim it instead of another
// failure, never instead of a success.
func (l Language) OutOfMemory(exit sandbox.Exit, stderr string) bool {
	failed := exit.Cause == guest.Exited && exit.Code != 0 || exit.Cause == guest.Signaled
	return failed && l.Limits.OutOfMemoryText != "" && strings.Contains(stderr, l.Limits.OutOfMemoryText)
}

// Languages is a set of languages. It never changes once made.
type Languages struct {
	byID map[string]Language
	// names has the ID of each alias.
	names map[string]string
	ids   []string
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
	set := &Languages{byID: map[string]Language{}, names: map[string]string{}}
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
			if l.ByName {
				break
			}
			if other, taken := owner[ext]; taken {
				return nil, fault.Errorf(fault.Invalid, "language file %s: extension %s belongs to %s already", name, ext, other)
			}
			owner[ext] = l.ID
		}
		for _, alias := range l.Aliases {
			if other, taken := set.names[alias]; taken {
				return nil, fault.Errorf(fault.Invalid, "language file %s: alias %q belongs to %s already", name, alias, other)
			}
			set.names[alias] = l.ID
		}
		set.byID[l.ID] = l
		set.ids = append(set.ids, l.ID)
	}
	if len(set.ids) == 0 {
		return nil, fault.Errorf(fault.Invalid, "no language files")
	}
	for alias, id := range set.names {
		if _, taken := set.byID[alias]; taken {
			return nil, fault.Errorf(fault.Invalid, "language %s: alias %q is the ID of another language", id, alias)
		}
	}
	slices.Sort(set.ids)
	return set, nil
}

// With gives a set that has l in place of the language with its ID.
func (s *Languages) With(l Language) *Languages {
	c := *s
	c.byID = maps.Clone(s.byID)
	c.byID[l.ID] = l
	return &c
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
	case !fileName.MatchString(l.SourceFile) || !l.Compiles(l.SourceFile):
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
	for _, alias := range l.Aliases {
		if alias == "" || alias != strings.ToLower(alias) {
			return fault.Errorf(fault.Invalid, "alias %q is not in lower case", alias)
		}
	}
	for _, p := range l.Compile.Program {
		if !fileName.MatchString(p) {
			return fault.Errorf(fault.Invalid, "program %q is not a file name", p)
		}
	}
	return nil
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
