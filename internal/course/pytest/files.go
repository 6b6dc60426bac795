package pytest

import (
	"archive/tar"
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"assay/internal/course"
	"assay/internal/course/tagged"
)

//go:embed border.py
var borderPy []byte

//go:embed remote.py
var remotePy []byte

//go:embed agent.py
var agentPy []byte

//go:embed standin.py
var standinPy []byte

//go:embed clock.py
var clockPy []byte

//go:embed shared.py
var sharedPy []byte

//go:embed grade.py
var gradePy []byte

// Where things lie in the machines.
const (
	boxDir      = "/box"
	libDir      = boxDir + "/lib"
	studentDir  = boxDir + "/student"
	testsDir    = boxDir + "/tests"
	solutionDir = boxDir + "/solution"
	settings    = libDir + "/settings.json"
	config      = libDir + "/config.ini"
)

// studentSettings are read by agent.py.
type studentSettings struct {
	Library    string   `json:"library"`
	Root       string   `json:"root"`
	Path       []string `json:"path"`
	Entry      string   `json:"entry"`
	ClockMoved float64  `json:"clock_moved"`
}

// graderSettings are read by grade.py.
type graderSettings struct {
	Library      string   `json:"library"`
	Tests        string   `json:"tests"`
	Root         string   `json:"root"`
	Solution     string   `json:"solution"`
	Config       string   `json:"config"`
	Paths        []string `json:"paths"`
	Modules      []string `json:"modules"`
	First        bool     `json:"first"`
	ValueClasses []string `json:"value_classes"`
	CPU          float64  `json:"cpu_seconds"`
	ClockMoved   float64  `json:"clock_moved"`
}

// archive is a tree to be unpacked in a machine.
type archive struct {
	buf  bytes.Buffer
	tar  *tar.Writer
	dirs map[string]bool
	mode int64
}

func newArchive(dirMode int64) *archive {
	a := &archive{dirs: map[string]bool{".": true}, mode: dirMode}
	a.tar = tar.NewWriter(&a.buf)
	return a
}

// add adds a file and its folders. A buffer takes all.
func (a *archive) add(name string, data []byte, mode int64) error {
	if err := a.addDirs(path.Dir(name)); err != nil {
		return err
	}
	if err := a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data))}); err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	_, err := a.tar.Write(data)
	return err
}

func (a *archive) addDirs(dir string) error {
	if a.dirs[dir] || dir == "/" {
		return nil
	}
	if err := a.addDirs(path.Dir(dir)); err != nil {
		return err
	}
	a.dirs[dir] = true
	return a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: a.mode})
}

func (a *archive) addFiles(under string, files []course.File) error {
	for _, f := range files {
		mode := int64(0o666)
		if f.Executable {
			mode = 0o777
		}
		if err := a.add(path.Join(under, f.Name), f.Data, mode); err != nil {
			return err
		}
	}
	return nil
}

func (a *archive) reader() (io.Reader, error) {
	err := a.tar.Close()
	return &a.buf, err
}

// libraryTree is what both machines begin with: our own Python files, and the
// folders. It is the same bytes each time.
func libraryTree() ([]byte, error) {
	tree := newArchive(0o777)
	for _, f := range []struct {
		name string
		data []byte
	}{
		{"__init__.py", nil},
		{"tagged.py", tagged.Python},
		{"border.py", borderPy},
		{"remote.py", remotePy},
		{"agent.py", agentPy},
		{"standin.py", standinPy},
		{"shared.py", sharedPy},
		{"clock.py", clockPy},
		{"grade.py", gradePy},
	} {
		if err := tree.add(path.Join(path.Base(libDir), "_assay", f.name), f.data, 0o444); err != nil {
			return nil, err
		}
	}
	if err := tree.add(path.Join(path.Base(libDir), path.Base(config)), []byte("[pytest]\n"), 0o444); err != nil {
		return nil, err
	}
	for _, d := range []string{studentDir, testsDir} {
		if err := tree.addDirs(path.Base(d)); err != nil {
			return nil, err
		}
	}
	if err := tree.tar.Close(); err != nil {
		return nil, err
	}
	return tree.buf.Bytes(), nil
}

// settings adds the settings of a process.
func (a *archive) settings(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write the settings: %w", err)
	}
	return a.add(path.Join(path.Base(libDir), path.Base(settings)), data, 0o444)
}

// studentTree is what the student's machine gets: the submission and our agent,
// nothing of the assignment.
func studentTree(s course.Submission, moved time.Duration) (io.Reader, error) {
	tree := newArchive(0o777)
	entry := ""
	for _, f := range s.Files {
		if path.Ext(f.Name) == ".py" {
			entry = f.Name
			break
		}
	}
	_, folders := modules(s.Files)
	set := studentSettings{Library: libDir, Root: studentDir, Path: folders, Entry: entry, ClockMoved: moved.Seconds()}
	if err := tree.settings(set); err != nil {
		return nil, err
	}
	if err := tree.addFiles(path.Base(studentDir), s.Files); err != nil {
		return nil, err
	}
	return tree.reader()
}

// graderTree is what the grader's machine gets: the assignment's files and the
// sources of the solution, which are read but never run; nothing of the student.
func graderTree(a *course.Assignment, s course.Submission, limits course.Limits, moved time.Duration) (io.Reader, error) {
	tree := newArchive(0o777)
	set := graderSettings{
		Library: libDir, Tests: testsDir, Root: studentDir, Solution: solutionDir, Config: config, ValueClasses: a.Pytest.ValueClasses,
		CPU: limits.Time.Seconds(), ClockMoved: moved.Seconds(),
	}
	if set.ValueClasses == nil {
		set.ValueClasses = []string{}
	}
	set.Modules, set.First = importable(a, s)
	for _, p := range a.Pytest.Paths {
		set.Paths = append(set.Paths, path.Join(testsDir, p))
	}
	if len(set.Paths) == 0 {
		set.Paths = []string{testsDir}
	}
	if err := tree.settings(set); err != nil {
		return nil, err
	}
	if err := tree.addFiles(path.Base(testsDir), a.Files); err != nil {
		return nil, err
	}
	if err := tree.addFiles(path.Base(solutionDir), a.Solution); err != nil {
		return nil, err
	}
	return tree.reader()
}

// importable gives the modules that the tests may import from the student, and
// whether they go before all others of their name. What the assignment knows
// (its rule, its solution, its starter) goes first; what only a student named
// never hides a module of Python or of the tests.
func importable(a *course.Assignment, s course.Submission) (names []string, first bool) {
	if len(a.Pytest.Modules) > 0 {
		return a.Pytest.Modules, true
	}
	if names, _ = modules(slices.Concat(a.Solution, a.Starter)); len(names) > 0 {
		return names, true
	}
	names, _ = modules(s.Files)
	return names, false
}

// modules gives the names under which Python files can be imported: from the top
// folder, and from each one's own that is no package; and those folders in the
// machine.
func modules(files []course.File) (names, folders []string) {
	names, folders = []string{}, []string{}
	packages := map[string]bool{}
	for _, f := range files {
		if dir, base := path.Split(f.Name); base == "__init__.py" {
			packages[dir] = true
		}
	}
	add := func(to *[]string, s string) {
		if !slices.Contains(*to, s) {
			*to = append(*to, s)
		}
	}
	for _, f := range files {
		stem, isPython := strings.CutSuffix(f.Name, ".py")
		if !isPython {
			continue
		}
		dir, base := path.Split(stem)
		if base == "__init__" {
			add(&names, strings.ReplaceAll(strings.TrimSuffix(dir, "/"), "/", "."))
			continue
		}
		add(&names, strings.ReplaceAll(stem, "/", "."))
		if dir != "" && !packages[dir] {
			add(&names, base)
			add(&folders, path.Join(studentDir, dir))
		}
	}
	return slices.DeleteFunc(names, func(n string) bool { return n == "" }), folders
}

// environment is the whole environment of both processes. Order in sets and
// dictionaries by hash is the same in each grading.
func environment(a *course.Assignment) []string {
	return []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "USER=user", "LANG=C.UTF-8", "TERM=dumb", "PYTHONPATH=" + libDir,
		"PYTHONDONTWRITEBYTECODE=1", fmt.Sprintf("PYTHONHASHSEED=%d", uint64(a.Seed)%math.MaxUint32), fmt.Sprintf("ASSAY_SEED=%d", a.Seed),
		"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1",
	}
}
