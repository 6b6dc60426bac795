package assignment

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/internal/bytesize"
	"assay/internal/course"
	"assay/internal/course/call"
	"assay/internal/course/handin"
	"assay/internal/fault"
	"assay/internal/judge"
)

// What a folder may hold.
const (
	maxFolderFiles = 10_000
	maxFolderBytes = 256 << 20
)

// Load reads the assignment in a folder. The folder is not needed afterwards.
// Errors are Invalid or NotFound and name the file, and the line where there is
// one.
func Load(dir string) (*course.Assignment, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "assignment %s: %w", dir, err)
	}
	files, err := readFolder(dir)
	if err != nil {
		return nil, err
	}
	return read(dir, filepath.Base(abs), files)
}

// Read reads the assignment called name from the files of its folder, which are
// sorted by name. Errors are those of Load.
func Read(name string, files []course.File) (*course.Assignment, error) {
	kept := slices.DeleteFunc(slices.Clone(files), func(f course.File) bool {
		return slices.ContainsFunc(strings.Split(f.Name, "/"), func(part string) bool {
			return part == ".DS_Store" || slices.Contains(leftovers, part)
		})
	})
	return read(name, name, kept)
}

// leftovers are folders that version control and tools leave behind.
var leftovers = []string{".git", "__pycache__", ".pytest_cache", "__MACOSX"}

// read makes an assignment of files; dir is what errors call it.
func read(dir, name string, files []course.File) (*course.Assignment, error) {
	data, ok := find(files, FileName)
	if !ok {
		return nil, fault.Errorf(fault.NotFound, "%s is no assignment: there is no %s in it", dir, FileName).
			WithHint("make one with \"assay assignment new\"")
	}
	f, err := parseFile(FileName, data)
	if err != nil {
		return nil, explain(dir, err)
	}
	l := loader{file: f, files: files, a: &course.Assignment{Name: name}}
	if err := l.load(); err != nil {
		if y, ok := errors.AsType[yaml.Error](err); ok {
			err = yamlError(FileName, y)
		}
		return nil, explain(dir, err)
	}
	return l.a, nil
}

// explain names the assignment in an error about its file, and where to look
// when the error has no remedy of its own.
func explain(dir string, err error) error {
	hint := cmp.Or(fault.HintOf(err), "docs/assignments.md describes the file, and \"assay assignment new\" makes one that works")
	return fault.Errorf(fault.KindOf(err), "assignment %s: %w", dir, err).WithHint("%s", hint)
}

func find(files []course.File, name string) ([]byte, bool) {
	for _, f := range files {
		if f.Name == name {
			return f.Data, true
		}
	}
	return nil, false
}

// readFolder reads a whole folder, sorted by name. Links and odd files are
// refused by name; what version control and file managers leave is passed over.
func readFolder(dir string) ([]course.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fault.Errorf(fault.NotFound, "there is no folder %s", dir).WithHint("name the folder that holds %s", FileName)
		}
		return nil, fault.Errorf(fault.Invalid, "read assignment: %w", err)
	}
	defer root.Close()
	var files []course.File
	var total int64
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch base := d.Name(); {
		case d.IsDir() && slices.Contains(leftovers, base):
			return fs.SkipDir
		case d.IsDir() || base == ".DS_Store":
			return nil
		case !d.Type().IsRegular():
			return fault.Errorf(fault.Invalid, "%s is a link or no regular file", path.Join(dir, name)).WithHint("put a copy there")
		}
		r, err := root.Open(name)
		if err != nil {
			return err
		}
		defer r.Close()
		info, err := r.Stat()
		if err != nil {
			return err
		}
		data, err := io.ReadAll(io.LimitReader(r, maxFolderBytes-total+1))
		if err != nil {
			return err
		}
		total += int64(len(data))
		if total > maxFolderBytes || len(files) == maxFolderFiles {
			return fault.Errorf(fault.Exhausted, "%s holds more than %d files or %s", dir, maxFolderFiles, bytesize.Size(maxFolderBytes)).
				WithHint("keep submissions and results outside of the assignment's folder")
		}
		files = append(files, course.File{Name: name, Data: data, Executable: info.Mode()&0o111 != 0})
		return nil
	})
	if err != nil {
		if _, ok := errors.AsType[*fault.Error](err); ok {
			return nil, err
		}
		return nil, fault.Errorf(fault.Invalid, "read assignment %s: %w", dir, err)
	}
	slices.SortFunc(files, func(x, y course.File) int { return strings.Compare(x.Name, y.Name) })
	return files, nil
}

// loader turns what is written into an assignment.
type loader struct {
	file  file
	files []course.File
	a     *course.Assignment
	// proofDirs never go to a grader; the first is the solution.
	proofDirs []string
}

func (l *loader) load() error {
	f, a := l.file, l.a
	a.Title, a.Mode, a.Language, a.Template = f.Title, f.Mode, f.Language, f.Template
	a.Limits, a.Seed, a.Due, a.Late, a.Attempts = f.Limits.limits(), f.Seed, f.Due, f.Late, f.Attempts
	if a.Title == "" {
		return fault.Errorf(fault.Invalid, "%s: title is missing", FileName)
	}
	if f.Clock != nil {
		a.Clock = f.Clock.UTC()
	}
	var err error
	if a.Visibility, err = visibility("visibility", f.Visibility, course.Visible); err != nil {
		return err
	}
	if a.StdoutVisibility, err = visibility("stdout", f.Stdout, course.Hidden); err != nil {
		return err
	}
	for _, e := range f.Files {
		if _, err := path.Match(e.Pattern, ""); err != nil || e.Pattern == "" || !fs.ValidPath(e.Pattern) {
			return fault.Errorf(fault.Invalid, "%s: files: %q is not a relative name or pattern", FileName, e.Pattern)
		}
		a.Expected = append(a.Expected, course.ExpectedFile(e))
	}
	if len(a.Expected) == 0 {
		return fault.Errorf(fault.Invalid, "%s: files is missing: which files are handed in?", FileName)
	}
	if err := l.proofs(); err != nil {
		return err
	}
	if err := l.mode(); err != nil {
		return err
	}
	if err := l.tests(); err != nil {
		return err
	}
	l.version()
	return nil
}

func visibility(key string, v, otherwise course.Visibility) (course.Visibility, error) {
	switch v {
	case "":
		return otherwise, nil
	case course.Visible, course.AfterDue, course.AfterPublished, course.Hidden:
		return v, nil
	}
	return "", fault.Errorf(fault.Invalid, "%s: %s: %q is not a visibility", FileName, key, v).
		WithHint("use visible, after_due, after_published or hidden")
}

// mode reads what only one mode has.
func (l *loader) mode() error {
	f, a := l.file, l.a
	if f.Pytest != nil && a.Mode != course.Pytest || f.Harness != nil && a.Mode != course.Harness || f.Call != nil && a.Mode != course.Call {
		return fault.Errorf(fault.Invalid, "%s: the keys call, pytest and harness belong to the modes of their name; mode is %q", FileName, a.Mode)
	}
	switch a.Mode {
	case course.IO, course.Call:
		if a.Language == "" {
			return fault.Errorf(fault.Invalid, "%s: mode %s needs a language, for example python3", FileName, a.Mode)
		}
		languages, err := judge.DefaultLanguages()
		if err != nil {
			return err
		}
		lang, err := languages.ByID(a.Language)
		if err != nil {
			return err
		}
		if a.Template == "" {
			a.Template = lang.Template
		}
		if f.Call != nil {
			if a.Call, err = call.ParseRules(f.Call); err != nil {
				return err
			}
		}
	case course.Pytest:
		r := course.PytestRules{Paths: []string{"tests"}, Points: judge.IntScore(1)}
		if f.Pytest != nil {
			r.Modules, r.ValueClasses = f.Pytest.Modules, f.Pytest.ValueClasses
			if len(f.Pytest.Paths) > 0 {
				r.Paths = f.Pytest.Paths
			}
			if f.Pytest.PointsEach != nil {
				r.Points = f.Pytest.PointsEach.Score
			}
		}
		for _, p := range r.Paths {
			if !l.has(p) {
				return fault.Errorf(fault.NotFound, "%s: pytest.paths: there is no %s in the folder", FileName, p)
			}
		}
		a.Pytest, a.Language = r, "python3"
	case course.Harness:
		h := f.Harness
		if h == nil {
			return fault.Errorf(fault.Invalid, "%s: mode harness needs the key harness", FileName)
		}
		a.Harness = course.HarnessRules(*h)
		if h.Path != "" && !l.has(h.Path) {
			return fault.Errorf(fault.NotFound, "%s: harness.path: there is no %s in the folder", FileName, h.Path)
		}
	default:
		return fault.Errorf(fault.Invalid, "%s: mode %q is not known", FileName, a.Mode).WithHint("use io, call, pytest or harness")
	}
	if a.Template == "" {
		a.Template = "base"
	}
	return nil
}

// has reports whether a file or folder is there.
func (l *loader) has(name string) bool {
	name = path.Clean(name)
	return slices.ContainsFunc(l.files, func(f course.File) bool {
		return f.Name == name || strings.HasPrefix(f.Name, name+"/")
	})
}

// below gives the files of a folder with names relative to it, or one file.
func (l *loader) below(dir string) []course.File {
	dir = path.Clean(dir)
	var list []course.File
	for _, f := range l.files {
		if f.Name == dir {
			f.Name = path.Base(dir)
			return []course.File{f}
		}
		if name, ok := strings.CutPrefix(f.Name, dir+"/"); ok {
			f.Name = name
			list = append(list, f)
		}
	}
	return list
}

// proofs reads solution, starter and the proofs.
func (l *loader) proofs() error {
	f, a := l.file, l.a
	solution := f.Solution
	if solution == "" {
		solution = "solution"
	}
	l.proofDirs = []string{solution}
	a.Solution = l.below(solution)
	if len(a.Solution) == 0 && f.Solution != "" {
		return fault.Errorf(fault.NotFound, "%s: solution: there is no %s in the folder", FileName, f.Solution)
	}
	if missing := handin.Compare(a.Solution, a.Expected).MissingText(); len(a.Solution) > 0 && missing != "" {
		return fault.Errorf(fault.Invalid, "%s: the solution does not have what students must hand in: %s", FileName, missing)
	}
	starter := proof{Files: "starter"}
	if f.Starter != nil {
		starter = *f.Starter
		if starter.Files == "" {
			starter.Files = "starter"
		}
	}
	l.proofDirs = append(l.proofDirs, starter.Files)
	a.Starter = l.below(starter.Files)
	if f.Starter != nil {
		p, err := l.proof(starter)
		if err != nil {
			return err
		}
		p.Name = "starter"
		a.StarterProof = p
	}
	for _, p := range f.Proofs {
		read, err := l.proof(p)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(a.Proofs, func(o course.Proof) bool { return o.Name == read.Name }) {
			return fault.Errorf(fault.Invalid, "%s: proofs has %s twice", FileName, read.Name)
		}
		l.proofDirs = append(l.proofDirs, p.Files)
		a.Proofs = append(a.Proofs, read)
	}
	return nil
}

func (l *loader) proof(p proof) (course.Proof, error) {
	if p.Score == nil {
		return course.Proof{}, fault.Errorf(fault.Invalid, "%s: %s: score is missing: what must it get?", FileName, p.Files)
	}
	files := l.below(p.Files)
	if len(files) == 0 {
		return course.Proof{}, fault.Errorf(fault.NotFound, "%s: there is no %s in the folder", FileName, p.Files)
	}
	if len(files) == 1 && path.Ext(p.Files) != "" && len(l.a.Expected) > 0 {
		// A proof of one file stands for the first file that is handed in.
		if e := l.a.Expected[0].Pattern; !strings.ContainsAny(e, "*?[") {
			files[0].Name = e
		}
	}
	return course.Proof{
		Name: p.Files, Files: files, Score: p.Score.score, Full: p.Score.full, Suspicious: p.Suspicious, Cause: p.Cause,
	}, nil
}

// version digests all that decides a grade, and keeps for graders what they
// need: not the solution, the starter code nor the proofs.
func (l *loader) version() {
	isProof := func(name string) bool {
		return slices.ContainsFunc(l.proofDirs, func(d string) bool { return name == d || strings.HasPrefix(name, d+"/") })
	}
	sum := sha256.New()
	for _, f := range l.files {
		if f.Name == FileName {
			// A later due date, or another title, is the same version.
			f.Data = []byte(l.file.deciding)
		} else if !isProof(f.Name) {
			l.a.Files = append(l.a.Files, f)
		} else if d := l.proofDirs[0]; f.Name != d && !strings.HasPrefix(f.Name, d+"/") {
			continue // Starter and proofs decide nothing; the solution pins tests.
		}
		fmt.Fprintf(sum, "%q %t %d\n", f.Name, f.Executable, len(f.Data))
		sum.Write(f.Data)
	}
	l.a.Version = "sha256:" + hex.EncodeToString(sum.Sum(nil))
}
