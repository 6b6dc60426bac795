package grading

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"assay/internal/course"
	"assay/internal/fault"
)

// Folder keeps the results of a class's run in a folder, so that a run which was
// killed goes on, and an appeal is a re-run:
//
//	grades/<id>.json       the grade, for staff
//	submissions/<id>.zip   the files that were graded
//
// It implements Results. One process uses a folder at a time.
type Folder struct {
	dir  string
	lock *os.File
}

var _ Results = (*Folder)(nil)

// OpenFolder opens the results in a folder, which is made where it is not there.
// It removes what a killed run left half written. Close it.
func OpenFolder(dir string) (*Folder, error) {
	for _, d := range []string{"grades", "submissions"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, fault.Errorf(fault.Invalid, "results folder: %w", err).WithHint("give a folder that can be written with --out")
		}
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the results folder: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fault.Errorf(fault.Conflict, "the results folder %s is used by another run", dir).
			WithHint("wait for it, or give another folder with --out")
	}
	f := &Folder{dir: dir, lock: lock}
	for _, d := range []string{".", "grades", "submissions"} {
		left, err := filepath.Glob(filepath.Join(dir, d, ".half-*"))
		if err != nil {
			continue
		}
		for _, name := range left {
			if err := os.Remove(name); err != nil {
				return nil, errors.Join(fmt.Errorf("remove what a killed run left: %w", err), f.Close())
			}
		}
	}
	return f, nil
}

// Close lets others use the folder.
func (f *Folder) Close() error { return f.lock.Close() }

// Dir is the folder's path.
func (f *Folder) Dir() string { return f.dir }

// maxGrade bounds the file of one grade.
const maxGrade = 256 << 20

// Get implements Results.
func (f *Folder) Get(id string) (*course.Grade, error) {
	return readGrade(filepath.Join(f.dir, "grades", FileName(id)+".json"))
}

func readGrade(name string) (*course.Grade, error) {
	r, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var g course.Grade
	if err := json.NewDecoder(io.LimitReader(r, maxGrade)).Decode(&g); err != nil {
		return nil, fault.Errorf(fault.Conflict, "%s is no grade: %w", r.Name(), err).WithHint("remove it; it is made again")
	}
	return &g, nil
}

// Put implements Results.
func (f *Folder) Put(g course.Grade, s course.Submission) error {
	var zipped bytes.Buffer
	if err := zipFiles(&zipped, s.Files); err != nil {
		return err
	}
	name := FileName(g.Submission)
	if err := f.Write(filepath.Join("submissions", name+".zip"), zipped.Bytes()); err != nil {
		return err
	}
	data, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return err
	}
	return f.Write(filepath.Join("grades", name+".json"), append(data, '\n'))
}

// Write replaces a file of the folder as a whole: a reader, and a run after a
// crash, sees the old or the new one.
func (f *Folder) Write(name string, data []byte) (err error) {
	full := filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	half, err := os.CreateTemp(filepath.Dir(full), ".half-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", full, err), os.Remove(half.Name()))
		}
	}()
	_, err = half.Write(data)
	if err == nil {
		err = half.Chmod(0o644)
	}
	if closeErr := half.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(half.Name(), full)
}

// All gives every grade of the folder, by submission.
func (f *Folder) All() ([]course.Grade, error) {
	names, err := filepath.Glob(filepath.Join(f.dir, "grades", "*.json"))
	if err != nil {
		return nil, err
	}
	var list []course.Grade
	for _, n := range names {
		g, err := readGrade(n)
		if err != nil {
			return nil, err
		}
		if g != nil {
			list = append(list, *g)
		}
	}
	slices.SortFunc(list, func(x, y course.Grade) int { return strings.Compare(x.Submission, y.Submission) })
	return list, nil
}

// Submission gives the files that were graded.
func (f *Folder) Submission(g course.Grade) (course.Submission, error) {
	name := filepath.Join(f.dir, "submissions", FileName(g.Submission)+".zip")
	z, err := zip.OpenReader(name)
	if err != nil {
		return course.Submission{}, fault.Errorf(fault.NotFound, "the files of %s are not kept: %w", g.Submission, err).
			WithHint("hand the original files to \"assay grade\" again")
	}
	defer z.Close() //nolint:errcheck // It was only read.
	s := course.Submission{ID: g.Submission, Notes: g.Notes}
	if g.Received != nil {
		s.Received = *g.Received
	}
	for _, e := range z.File {
		r, err := e.Open()
		if err != nil {
			return s, fmt.Errorf("read %s: %w", name, err)
		}
		data, err := io.ReadAll(io.LimitReader(r, maxGrade))
		if closeErr := r.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return s, fmt.Errorf("read %s: %w", name, err)
		}
		s.Files = append(s.Files, course.File{Name: e.Name, Data: data, Executable: e.Mode()&0o111 != 0})
	}
	if s.Digest() != g.Digest {
		return s, fault.Errorf(fault.Conflict, "%s does not hold the files that %s was graded by", name, g.Submission).
			WithHint("hand the original files to \"assay grade\" again")
	}
	return s, nil
}

func zipFiles(w io.Writer, files []course.File) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.Name, Method: zip.Deflate}
		mode := fs.FileMode(0o644)
		if f.Executable {
			mode = 0o755
		}
		h.SetMode(mode)
		e, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := e.Write(f.Data); err != nil {
			return err
		}
	}
	return z.Close()
}

// maxFileName leaves room for an extension.
const maxFileName = 200

// FileName makes a file name of an ID: letters, digits and "._-@+" stay, all
// else is %XX, as in addresses. The end of a very long one is a digest.
func FileName(id string) string {
	var b strings.Builder
	for i := range len(id) {
		c := id[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == '@', c == '+', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	name := b.String()
	if len(name) > maxFileName {
		sum := sha256.Sum256([]byte(id))
		name = name[:maxFileName-33] + "-" + hex.EncodeToString(sum[:16])
	}
	return name
}
