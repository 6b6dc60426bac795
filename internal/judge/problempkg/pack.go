package problempkg

import (
	"archive/zip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"assay/internal/fault"
)

// Zip writes the package in a folder as a zip: one folder at the top, names
// sorted, links replaced by what they lead to, no times, and nothing that the
// format treats as absent. The same package gives the same bytes. A package that
// cannot be read is refused as Load would; warnings are what Load warns of.
func Zip(dir string, w io.Writer) (warnings []string, err error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.Errorf(fault.NotFound, "problem package %s does not exist", dir).
			WithHint("give the folder that holds problem.yaml or problem.xml")
	case err != nil || !info.IsDir():
		return nil, fault.Errorf(fault.Invalid, "problem package %s is not a folder", dir).
			WithHint("give the folder that holds problem.yaml or problem.xml")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "problem package %s: %w", dir, err)
	}
	raw, closer, err := openFolder(dir)
	if err != nil {
		return nil, inPackage(dir, err)
	}
	defer func() { err = errors.Join(err, closer.Close()) }()
	p, err := Options{TimeLimit: time.Second}.read(raw, filepath.Base(abs))
	if err != nil {
		return nil, inPackage(dir, err)
	}
	t, err := raw.resolve()
	if err != nil {
		return nil, inPackage(dir, err)
	}
	z := zip.NewWriter(w)
	top := topName(filepath.Base(abs))
	for _, name := range t.names {
		if err := zipFile(z, path.Join(top, name), t.files[name]); err != nil {
			return nil, fault.Errorf(fault.KindOf(err), "problem package %s: write %s: %w", dir, name, err)
		}
	}
	if err := z.Close(); err != nil {
		return nil, fault.Errorf(fault.Internal, "problem package %s: write the zip: %w", dir, err)
	}
	return p.Warnings, nil
}

// zipFile writes one file. Scripts that other systems call are executable.
func zipFile(z *zip.Writer, name string, f *file) error {
	h := &zip.FileHeader{Name: name, Method: zip.Deflate}
	mode := fs.FileMode(0o644)
	if base := path.Base(name); base == "build" || base == "run" {
		mode = 0o755
	}
	h.SetMode(mode)
	out, err := z.CreateHeader(h)
	if err != nil {
		return err
	}
	r, err := f.open()
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(r, f.size+1))
	if closeErr := r.Close(); err == nil {
		err = closeErr
	}
	if err == nil && n != f.size {
		err = fault.Errorf(fault.Conflict, "%s changed while it was read", name).WithHint("leave the package alone meanwhile")
	}
	return err
}

// topName makes a name that the format allows: lower-case letters and digits.
func topName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(name))
	if name == "" {
		return "problem"
	}
	return name
}
