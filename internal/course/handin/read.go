package handin

import (
	"bytes"
	"errors"
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

// Caps on one submission. Archives are measured unpacked.
const (
	MaxEntries  = 10_000    // files and folders
	MaxBytes    = 100 << 20 // all files together
	MaxFile     = 50 << 20
	MaxRatio    = 200 // unpacked to packed, once above ratioFloor
	MaxDepth    = 32
	MaxName     = 1024 // bytes of a path
	maxNamePart = 255

	// ratioFloor keeps a small file of one repeated letter from counting as a
	// bomb.
	ratioFloor = 4 << 20
	// maxListed bounds the entries of an archive with those that are dropped,
	// maxStream the bytes of a compressed tar that are passed over to list it.
	maxListed = 100_000
	maxStream = 2 << 30
)

// Options say what the assignment wants.
type Options struct {
	// Expected are the files to be handed in; none is any.
	Expected []course.ExpectedFile
	// DropExtra leaves out files that Expected does not name. Without it they
	// are kept, and a note says so.
	DropExtra bool
}

// Read reads one submission from a file, a folder or an archive. Its ID is the
// name without an archive's ending. Missing files are no error: see Compare.
//
// Kinds of error: NotFound, and Invalid, with a hint for the student, for what
// cannot be taken.
func Read(name string, o Options) (course.Submission, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return course.Submission{}, fault.Errorf(fault.NotFound, "submission %s does not exist", name)
	case err != nil:
		return course.Submission{}, fault.Errorf(fault.Invalid, "submission: %w", err)
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return course.Submission{}, fault.Errorf(fault.Invalid, "submission: %w", err)
	}
	base := filepath.Base(abs)
	g := newGathering(o)
	switch {
	case info.IsDir():
		err = g.folder(name)
	case info.Mode().IsRegular():
		err = g.openFile(name, base)
	default:
		err = fault.Errorf(fault.Invalid, "it is neither a file nor a folder but %s", describe(info.Mode())).WithHint("hand in a file, a folder, or a zip of one")
	}
	return g.finish(idOf(base, info.IsDir()), err)
}

// ReadFile reads one submission from a file that was handed in under a name: an
// archive, or the only file. r is read within size bytes and not kept.
func ReadFile(name string, r io.ReaderAt, size int64, o Options) (course.Submission, error) {
	g := newGathering(o)
	return g.finish(idOf(name, false), g.file(name, r, size, false))
}

// ReadFiles takes files that were handed in one by one, with the same caps as an
// archive. One file alone may be an archive.
func ReadFiles(id string, files []course.File, o Options) (course.Submission, error) {
	g := newGathering(o)
	if len(files) == 1 {
		return g.finish(id, g.file(files[0].Name, bytes.NewReader(files[0].Data), int64(len(files[0].Data)), files[0].Executable))
	}
	for _, f := range files {
		g.packed += int64(len(f.Data))
	}
	for _, f := range files {
		err := g.add(entry{
			name: f.Name, size: int64(len(f.Data)), executable: f.Executable,
			read: func(buf []byte) error { return readFull(bytes.NewReader(f.Data), buf) },
		})
		if err != nil {
			return g.finish(id, err)
		}
	}
	return g.finish(id, nil)
}

// idOf is the name without the ending of a file or an archive, fit to be shown.
func idOf(base string, folder bool) string {
	base = course.Clean(base)
	if folder {
		return base
	}
	for _, end := range []string{".tar.gz", ".tar.bz2", filepath.Ext(base)} {
		if at := len(base) - len(end); at > 0 && strings.EqualFold(base[at:], end) {
			return base[:at]
		}
	}
	return base
}

// openFile reads a file of this host; base is the name it is handed in under.
func (g *gathering) openFile(name, base string) error {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return unreadable(base, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return unreadable(base, err)
	}
	return g.file(base, f, info.Size(), info.Mode()&0o111 != 0)
}

// file reads one file that was handed in alone: an archive, or the file itself.
func (g *gathering) file(base string, r io.ReaderAt, size int64, executable bool) error {
	g.packed += size
	kind := sniff(r, size)
	if kind.archive() && g.wants(base) {
		kind = plain // the assignment asks for a jar, a docx or a zip as such
	}
	switch kind {
	case zipped:
		entries, err := listZip(r, size)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := g.add(e); err != nil {
				return err
			}
		}
		return nil
	case tarred:
		return g.tar(io.NewSectionReader(r, 0, size))
	case gzipped, bzipped:
		return g.compressed(kind, base, io.NewSectionReader(r, 0, size))
	case foreign:
		return fault.Errorf(fault.Invalid, "%s is an archive of a kind that is not read (7z, rar, xz or zstd)", quote(base)).WithHint("pack the files as .zip or .tar.gz")
	}
	return g.add(entry{name: base, size: size, executable: executable, read: func(buf []byte) error {
		return readFull(io.NewSectionReader(r, 0, size), buf)
	}})
}

// folder reads a folder and all beneath it.
func (g *gathering) folder(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return unreadable(filepath.Base(dir), err)
	}
	defer root.Close()
	if done, err := g.lone(root); done || err != nil {
		return err
	}
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return unreadable(name, err)
		case name == ".":
			return nil
		case d.IsDir():
			if err := g.add(entry{name: name, folder: true}); err != nil {
				return err
			}
			if junk(name) != "" {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular():
			e := entry{name: name, refused: describe(d.Type())}
			if d.Type()&fs.ModeSymlink != 0 {
				if target, err := root.Readlink(name); err == nil {
					e.refused += " to " + quote(target)
				}
			}
			return g.add(e)
		}
		info, err := d.Info()
		if err != nil {
			return unreadable(name, err)
		}
		g.packed += info.Size()
		return g.add(entry{
			name: name, size: info.Size(), executable: info.Mode()&0o111 != 0,
			read: func(buf []byte) error { return readIn(root, name, buf) },
		})
	})
}

// lone reads a folder that holds nothing but one archive as that archive.
func (g *gathering) lone(root *os.Root) (bool, error) {
	list, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return false, unreadable(".", err)
	}
	list = slices.DeleteFunc(list, func(d fs.DirEntry) bool { return junk(d.Name()) != "" })
	if len(list) != 1 || !list[0].Type().IsRegular() || g.wants(list[0].Name()) {
		return false, nil
	}
	name := list[0].Name()
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, unreadable(name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, unreadable(name, err)
	}
	if !info.Mode().IsRegular() || !sniff(f, info.Size()).archive() {
		return false, nil
	}
	g.notes = append(g.notes, "unpacked "+quote(name))
	return true, g.file(name, f, info.Size(), false)
}

// readIn fills buf with a file of the folder. Somebody may swap files while the
// folder is read: a link that took the file's place leads nowhere outside, and
// a pipe is not waited for.
func readIn(root *os.Root, name string, buf []byte) error {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return unreadable(name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return unreadable(name, err)
	case !info.Mode().IsRegular() || info.Size() != int64(len(buf)):
		return fault.Errorf(fault.Conflict, "%s changed while it was read", quote(name)).WithHint("try again when nobody writes into the folder")
	}
	return readFull(f, buf)
}

// unreadable names the file that the host does not give.
func unreadable(name string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fault.Errorf(fault.Invalid, "%s cannot be read: %w", quote(name), err).WithHint("give yourself the right to read it")
}

// describe says what a file is that is neither file nor folder.
func describe(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}
