package problempkg

import (
	"io"
	"io/fs"
	"os"

	"assay/internal/fault"
)

// openFolder lists a folder. Files are opened beneath the folder only, even if
// somebody swaps one for a link later.
func openFolder(dir string) (rawTree, io.Closer, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, fault.Errorf(fault.Invalid, "open folder: %w", err)
	}
	raw := rawTree{}
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fault.Errorf(fault.Invalid, "read folder: %w", err)
		case name == ".":
			return nil
		case d.IsDir():
			if d.Name() == ".git" {
				return fs.SkipDir
			}
			return raw.add(name, rawEntry{kind: isDir})
		case d.Type() == fs.ModeSymlink:
			target, err := root.Readlink(name)
			if err != nil {
				return fault.Errorf(fault.Invalid, "read link: %w", err)
			}
			return raw.add(name, rawEntry{kind: isLink, target: target})
		case !d.Type().IsRegular():
			return fault.Errorf(fault.Invalid, "%s is neither a file nor a folder (%s)", name, d.Type()).
				WithHint("remove it from the package")
		}
		info, err := d.Info()
		if err != nil {
			return fault.Errorf(fault.Invalid, "read folder: %w", err)
		}
		return raw.add(name, rawEntry{kind: isFile, size: info.Size(), open: func() (io.ReadCloser, error) { return openRegular(root, name) }})
	})
	if err != nil {
		_ = root.Close() // the error above says more
		return nil, nil, err
	}
	return raw, root, nil
}

func openRegular(root *os.Root, name string) (io.ReadCloser, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fault.Errorf(fault.Conflict, "%s is no regular file any more", name)
	}
	if err != nil {
		_ = f.Close() // the error above says more
		return nil, err
	}
	return f, nil
}
