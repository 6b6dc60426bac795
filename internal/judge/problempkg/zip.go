package problempkg

import (
	"archive/zip"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"assay/internal/fault"
)

// A zip that grows more than ratioCap times, once it is above ratioFloor bytes,
// is taken for a bomb. Real test data of one repeated letter stays below.
const (
	ratioCap   = 200
	ratioFloor = 256 << 20
	maxTarget  = 4096
	// maxDirectory bounds what is read of a zip to list it: the parser keeps all
	// of it in memory, names and comments.
	maxDirectory = 16 << 20
)

func openZipFile(name string, size int64) (rawTree, io.Closer, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, fault.Errorf(fault.Invalid, "open: %w", err)
	}
	raw, err := readZip(f, size)
	if err != nil {
		_ = f.Close() // the error above says more
		return nil, nil, err
	}
	return raw, f, nil
}

// readZip lists a zip. One folder at the top that holds everything is taken
// off.
func readZip(r io.ReaderAt, size int64) (rawTree, error) {
	listing := &budgetReader{r: r, left: maxDirectory}
	z, err := zip.NewReader(listing, size)
	listing.done = true
	if errors.Is(err, zip.ErrInsecurePath) {
		// Every name is checked below, with a message that says which.
		err = nil
	}
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "not a zip file that can be read: %w", err).
			WithHint("give a folder, or a .zip or .kpp file of one")
	}
	if len(z.File) > maxEntries {
		return nil, fault.Errorf(fault.Invalid, "the zip has %d entries, at most %d are taken", len(z.File), maxEntries)
	}
	raw := rawTree{}
	var total uint64
	for _, f := range z.File {
		if f.UncompressedSize64 > maxFile {
			return nil, fault.Errorf(fault.Invalid, "%q has %d bytes, at most %d are taken", clip(f.Name), f.UncompressedSize64, int64(maxFile))
		}
		total += f.UncompressedSize64
		if total > maxTotal || total > ratioFloor && total/ratioCap > uint64(size) {
			return nil, fault.Errorf(fault.Invalid, "the zip of %d bytes unpacks to more than %d bytes", size, total-1).
				WithHint("this looks like a zip bomb; give the folder instead if it is not")
		}
		if f.Flags&1 != 0 {
			return nil, fault.Errorf(fault.Invalid, "%q is encrypted", clip(f.Name)).WithHint("pack the folder without a password")
		}
		if strings.Contains(f.Name, `\`) {
			// Some tools write it for a slash; others would unpack it elsewhere.
			return nil, fault.Errorf(fault.Invalid, "entry %q has a backslash in its name", clip(f.Name)).
				WithHint("pack the folder again with plain relative names")
		}
		if err := addZipEntry(raw, f); err != nil {
			return nil, err
		}
	}
	return raw.withoutTop(), nil
}

// budgetReader gives no more than left bytes in all, until it is done.
type budgetReader struct {
	r    io.ReaderAt
	left int64
	done bool
}

func (b *budgetReader) ReadAt(p []byte, off int64) (int, error) {
	if !b.done {
		if b.left -= int64(len(p)); b.left < 0 {
			return 0, fault.Errorf(fault.Invalid, "its list of entries has more than %d bytes", maxDirectory)
		}
	}
	return b.r.ReadAt(p, off)
}

func addZipEntry(raw rawTree, f *zip.File) error {
	switch mode := f.Mode(); {
	case strings.HasSuffix(f.Name, "/"):
		return raw.add(strings.TrimSuffix(f.Name, "/"), rawEntry{kind: isDir})
	case mode&fs.ModeSymlink != 0:
		if f.UncompressedSize64 > maxTarget {
			return fault.Errorf(fault.Invalid, "the link %q is too long", clip(f.Name))
		}
		r, err := openZipped(f)
		if err != nil {
			return fault.Errorf(fault.Invalid, "read %q: %w", clip(f.Name), err)
		}
		target, err := io.ReadAll(r)
		if closeErr := r.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return fault.Errorf(fault.Invalid, "read %q: %w", clip(f.Name), err)
		}
		return raw.add(f.Name, rawEntry{kind: isLink, target: string(target)})
	case mode.IsRegular():
		return raw.add(f.Name, rawEntry{kind: isFile, size: int64(f.UncompressedSize64), open: func() (io.ReadCloser, error) { return openZipped(f) }})
	}
	return fault.Errorf(fault.Invalid, "%q is neither a file nor a folder", clip(f.Name))
}

// openZipped opens an entry that can give no more than it announced.
func openZipped(f *zip.File) (io.ReadCloser, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	return &announced{r: r, left: int64(f.UncompressedSize64), name: f.Name}, nil
}

type announced struct {
	r    io.ReadCloser
	left int64
	name string
}

func (a *announced) Read(b []byte) (int, error) {
	n, err := a.r.Read(b)
	if a.left -= int64(n); a.left < 0 {
		return 0, fault.Errorf(fault.Invalid, "%q unpacks to more than it announced", clip(a.name))
	}
	return n, err
}

func (a *announced) Close() error { return a.r.Close() }

// withoutTop takes off the one top folder of a zip, if the file that makes it a
// package is not at the top itself.
func (r rawTree) withoutTop() rawTree {
	for _, name := range []string{"problem.yaml", "problem.xml", iniName} {
		if _, ok := r[name]; ok {
			return r
		}
	}
	top := ""
	for name, e := range r {
		if strings.Contains(name, "/") || absent(name, name) {
			continue
		}
		if e.kind != isDir || top != "" {
			return r
		}
		top = name
	}
	if top == "" {
		return r
	}
	inner := rawTree{}
	for name, e := range r {
		if rest, ok := strings.CutPrefix(name, top+"/"); ok {
			inner[rest] = e
		}
	}
	return inner
}
