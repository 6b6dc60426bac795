package cli

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
)

// treeIn copies what is in a directory of this host into one of a sandbox,
// which is made if it is not there.
func (c *copying) treeIn(ctx context.Context, from, id, target string) error {
	root, err := os.OpenRoot(from)
	if err != nil {
		return hostFault("copy", err)
	}
	defer root.Close()
	if c.total, err = treeBytes(root); err != nil {
		return hostFault("copy "+from, err)
	}
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := c.pack(root, w)
		packed <- err
		_ = w.CloseWithError(err)
	}()
	_, err = c.client.WriteTree(ctx, id, target, r, c.owner)
	_ = r.Close()
	if packErr := <-packed; packErr != nil && !errors.Is(packErr, io.ErrClosedPipe) && ctx.Err() == nil {
		return hostFault("copy "+from, packErr)
	}
	return err
}

// treeBytes is how much there is to copy.
func treeBytes(root *os.Root) (sum int64, err error) {
	err = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}

// pack writes a directory as tar.
func (c *copying) pack(root *os.Root, w io.Writer) error {
	out := tar.NewWriter(w)
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		h := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Format: tar.FormatPAX}
		switch {
		case d.IsDir():
			h.Typeflag, h.Name = tar.TypeDir, name+"/"
			return out.WriteHeader(h)
		case d.Type() == fs.ModeSymlink:
			target, err := root.Readlink(name)
			if err != nil {
				return err
			}
			if !staysInside(name, target) {
				c.skip(name, "it is a link that leads, or could lead, out of the tree")
				return nil
			}
			h.Typeflag, h.Linkname = tar.TypeSymlink, target
			return out.WriteHeader(h)
		case d.Type().IsRegular():
			c.files++
			return c.packFile(root, name, h, out)
		}
		c.skip(name, "it is neither file, directory nor link")
		return nil
	})
	return errors.Join(err, out.Close())
}

func (c *copying) packFile(root *os.Root, name string, h *tar.Header, out *tar.Writer) error {
	// What was a file a moment ago may be a link or a FIFO now.
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fault.Errorf(fault.Conflict, "%q changed while it was read", name)
	}
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(out, c.counted(io.LimitReader(f, h.Size)))
	if err == nil && n < h.Size {
		err = fault.Errorf(fault.Conflict, "%q became shorter while it was read", name)
	}
	return err
}

// staysInside reports whether a link at name (relative to the tree) surely
// leads to a place in the tree. ".." may only stand at the target's beginning:
// further on it would go up from where another link leads.
func staysInside(name, target string) bool {
	if target == "" || path.IsAbs(target) || strings.ContainsRune(target, 0) {
		return false
	}
	up, down := 0, false
	for part := range strings.SplitSeq(target, "/") {
		switch {
		case part == "" || part == ".":
		case part == ".." && down:
			return false
		case part == "..":
			up++
		default:
			down = true
		}
	}
	return up <= strings.Count(path.Clean(name), "/")
}

// treeOut copies what is in a directory of a sandbox into one of this host,
// which is made if it is not there. The archive is hostile input: all is
// written through an os.Root, so nothing lands outside whatever links the
// archive or the directory has, and the bounds of a tree are counted here too.
func (c *copying) treeOut(ctx context.Context, id, source, to string) error {
	body, err := c.client.ReadTree(ctx, id, source)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := os.Mkdir(to, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return hostFault("copy", err)
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return hostFault("copy", err)
	}
	defer root.Close()
	in := tar.NewReader(body)
	var bytes int64
	for entries := 0; ; entries++ {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, body) // what follows says whether all came
			return err
		}
		if err != nil {
			return archiveFault(err)
		}
		bytes += h.Size
		if entries == guest.MaxTreeEntries || bytes > guest.MaxTreeBytes || h.Size < 0 {
			return fault.Errorf(fault.Exhausted, "the tree has more than %d entries or %d bytes", guest.MaxTreeEntries, int64(guest.MaxTreeBytes)).
				WithHint("copy its parts one by one")
		}
		if err := c.unpack(root, h, in); err != nil {
			return err
		}
	}
}

// archiveFault keeps a fault that came with the stream; all else is a broken
// archive.
func archiveFault(err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok || errors.Is(err, context.Canceled) {
		return err
	}
	return fault.Errorf(fault.Unavailable, "read the tree from the sandbox: %w", err)
}

// unpack writes one entry.
func (c *copying) unpack(root *os.Root, h *tar.Header, content io.Reader) error {
	name := path.Clean(h.Name)
	if name == "." {
		return nil
	}
	if !filepath.IsLocal(name) || strings.Count(name, "/") >= guest.MaxTreeDepth {
		c.skip(h.Name, "its name leads out of the tree or is too deep")
		return nil
	}
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o777); err != nil {
			return hostFault("copy", err)
		}
	}
	mode := fs.FileMode(h.Mode) & fs.ModePerm // no set-user-ID, no sticky bit
	var err error
	switch h.Typeflag {
	case tar.TypeDir:
		// The owner must be able to write what comes below it.
		if err = root.Mkdir(name, mode|0o700); errors.Is(err, fs.ErrExist) {
			var info fs.FileInfo
			if info, err = root.Lstat(name); err == nil && !info.IsDir() {
				err = fault.Errorf(fault.Conflict, "%q is there and is no directory", name)
			}
		}
	case tar.TypeReg:
		c.files++
		if err = putFile(root, name, mode, c.counted(content)); err == nil {
			err = root.Chtimes(name, h.ModTime, h.ModTime)
		}
	case tar.TypeSymlink:
		if !staysInside(name, h.Linkname) {
			c.skip(name, fmt.Sprintf("it is a link to %q, which leads, or could lead, out of the tree", h.Linkname))
			return nil
		}
		if err = root.Symlink(h.Linkname, name); errors.Is(err, fs.ErrExist) {
			if err = removeLeaf(root, name); err == nil {
				err = root.Symlink(h.Linkname, name)
			}
		}
	default:
		c.skip(name, "it is neither file, directory nor link")
		return nil
	}
	if _, ok := errors.AsType[*fault.Error](err); ok || err == nil {
		return err
	}
	return hostFault("copy", err)
}

// removeLeaf removes what lies at name, unless it is a directory.
func removeLeaf(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fault.Errorf(fault.Conflict, "%q is there and is a directory", name)
	}
	return root.Remove(name)
}

// putFile writes a file in place of what is there, which is neither followed
// nor left half-written.
func putFile(root *os.Root, name string, mode fs.FileMode, content io.Reader) (err error) {
	tmp := path.Join(path.Dir(name), ".assay-"+strings.ToLower(rand.Text()[:12]))
	f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode&fs.ModePerm|0o200)
	if err != nil {
		return hostFault("copy", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, root.Remove(tmp))
		}
	}()
	_, err = io.Copy(onHost{f}, content)
	if err == nil && mode&0o200 == 0 {
		err = f.Chmod(mode & fs.ModePerm)
	}
	if cerr := f.Close(); err == nil && cerr != nil {
		err = hostFault("copy", cerr)
	}
	if err != nil {
		return err
	}
	if info, statErr := root.Lstat(name); statErr == nil && info.IsDir() {
		return fault.Errorf(fault.Conflict, "%q is there and is a directory", name)
	}
	if err := root.Rename(tmp, name); err != nil {
		return hostFault("copy", err)
	}
	return nil
}

// onHost gives write errors of the host their kind, and leaves those of the
// source alone.
type onHost struct{ f *os.File }

func (w onHost) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	if err != nil {
		err = hostFault("copy", err)
	}
	return n, err
}
