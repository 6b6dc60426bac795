package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"assay/internal/fault"
)

// Caps bound what is unpacked, over all layers of an image together.
type Caps struct {
	Bytes   int64 // content of regular files
	Entries int64 // files, directories and links
}

// DefaultCaps fit the largest toolchain images and stop decompression bombs.
var DefaultCaps = Caps{Bytes: 32 << 30, Entries: 2_000_000}

const (
	maxPathBytes = 4096
	maxLinks     = 40 // symbolic links followed for one path, as the kernel has it
	whiteout     = ".wh."
	opaque       = ".wh..wh..opq"
)

// unpacker writes tars into one directory. Their content is hostile: names are
// resolved here, inside the directory, links included, and os.Root guards each
// call once more. Devices, pipes and sockets are left out, and so are setuid
// bits and extended attributes: a machine needs none of them.
type unpacker struct {
	root *os.Root
	caps Caps
	// owns says that files can be given away: we are root.
	owns     bool
	progress func(bytes int64)

	bytes, entries int64
	layer          map[string]bool // paths this layer made; nil for a plain tar
	lastDir        string          // the last parent resolved, and its real path
	lastReal       string
}

func newUnpacker(dir string, caps Caps, progress func(int64)) (*unpacker, error) {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &unpacker{root: r, caps: caps, owns: FullRoot(), progress: progress}, nil
}

func (u *unpacker) close() { u.root.Close() }

// applyLayer unpacks one OCI layer over what is there; whiteouts remove what
// lower layers made.
func (u *unpacker) applyLayer(ctx context.Context, r io.Reader) error {
	u.layer = map[string]bool{}
	defer func() { u.layer = nil }()
	return u.apply(ctx, r)
}

// apply unpacks one tar.
func (u *unpacker) apply(ctx context.Context, r io.Reader) error {
	u.lastDir = ""
	tr := tar.NewReader(r)
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fault.Errorf(fault.Invalid, "read tar: %w", err)
		}
		if u.entries++; u.entries > u.caps.Entries {
			return fault.Errorf(fault.Invalid, "the root filesystem has more than %d entries", u.caps.Entries)
		}
		if err := u.entry(h, tr); err != nil {
			return fmt.Errorf("unpack %q: %w", clip(h.Name), err)
		}
	}
}

func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	name, err := cleanName(h.Name)
	if err != nil {
		return err
	}
	if name == "." {
		return nil
	}
	dir, base := path.Split(name)
	parent, err := u.parent(path.Clean(dir), true)
	if err != nil {
		return err
	}
	if u.layer != nil && strings.HasPrefix(base, whiteout) {
		return u.white(parent, base)
	}
	real := path.Join(parent, base)
	switch h.Typeflag {
	case tar.TypeDir:
		err = u.dir(real, h)
	case tar.TypeReg, tar.TypeGNUSparse:
		err = u.file(real, h, content)
	case tar.TypeSymlink:
		err = u.symlink(real, h)
	case tar.TypeLink:
		err = u.link(real, h)
	default:
		return nil
	}
	if err == nil && u.layer != nil {
		for p := real; p != "." && !u.layer[p]; p = path.Dir(p) {
			u.layer[p] = true
		}
	}
	return err
}

// cleanName gives an entry's path relative to the root, or refuses it.
func cleanName(name string) (string, error) {
	if len(name) > maxPathBytes || strings.ContainsRune(name, 0) {
		return "", fault.Errorf(fault.Invalid, "the path is malformed")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fault.Errorf(fault.Invalid, "the path has \"..\" in it")
		}
	}
	if name = strings.TrimPrefix(path.Clean("/"+name), "/"); name == "" {
		return ".", nil
	}
	return name, nil
}

// parent gives the real path of a directory of the tree, following links as
// the machine would: an absolute link starts at the tree's root, ".." stops
// there. Missing directories are made if create is set.
func (u *unpacker) parent(dir string, create bool) (string, error) {
	if dir == u.lastDir {
		return u.lastReal, nil
	}
	todo := strings.Split(dir, "/")
	real, links := ".", 0
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			real = path.Dir(real)
			continue
		}
		next := path.Join(real, part)
		info, err := u.root.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist) && create:
			if err := u.root.Mkdir(next, 0o755); err != nil {
				return "", err
			}
			real = next
		case err != nil:
			return "", err
		case info.IsDir():
			real = next
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := u.root.Readlink(next)
			if err != nil {
				return "", err
			}
			if links++; links > maxLinks || len(target) > maxPathBytes {
				return "", fault.Errorf(fault.Invalid, "too many symbolic links")
			}
			if path.IsAbs(target) {
				real = "."
			}
			todo = append(strings.Split(target, "/"), todo...)
		default:
			return "", fault.Errorf(fault.Invalid, "%q is not a directory", clip(next))
		}
	}
	u.lastDir, u.lastReal = dir, real
	return real, nil
}

// clear removes what is in the way of a new entry.
func (u *unpacker) clear(real string) error {
	if _, err := u.root.Lstat(real); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	u.lastDir = ""
	return u.root.RemoveAll(real)
}

func (u *unpacker) dir(real string, h *tar.Header) error {
	info, err := u.root.Lstat(real)
	if err != nil || !info.IsDir() {
		if err := u.clear(real); err != nil {
			return err
		}
		if err := u.root.Mkdir(real, 0o700); err != nil {
			return err
		}
	}
	mode := permOf(h)
	if !u.owns {
		mode |= 0o700 // else we could not fill or read it
	}
	return u.dress(real, h, mode)
}

func (u *unpacker) file(real string, h *tar.Header, content io.Reader) error {
	if err := u.clear(real); err != nil {
		return err
	}
	f, err := u.root.OpenFile(real, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(content, u.caps.Bytes-u.bytes+1))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if u.bytes += n; u.bytes > u.caps.Bytes {
		return fault.Errorf(fault.Invalid, "the root filesystem has more than %s of files", people(u.caps.Bytes))
	}
	if u.progress != nil {
		u.progress(u.bytes)
	}
	mode := permOf(h)
	if !u.owns {
		mode |= 0o600
	}
	if err := u.dress(real, h, mode); err != nil {
		return err
	}
	return u.root.Chtimes(real, h.ModTime, h.ModTime)
}

func (u *unpacker) symlink(real string, h *tar.Header) error {
	if h.Linkname == "" || len(h.Linkname) > maxPathBytes {
		return fault.Errorf(fault.Invalid, "the link's target is malformed")
	}
	if err := u.clear(real); err != nil {
		return err
	}
	u.lastDir = ""
	if err := u.root.Symlink(h.Linkname, real); err != nil {
		return err
	}
	if !u.owns {
		return nil
	}
	return u.root.Lchown(real, idOf(h.Uid), idOf(h.Gid))
}

func (u *unpacker) link(real string, h *tar.Header) error {
	name, err := cleanName(h.Linkname)
	if err != nil {
		return err
	}
	dir, base := path.Split(name)
	parent, err := u.parent(path.Clean(dir), false)
	if err != nil {
		return fault.Errorf(fault.Invalid, "link to %q: %w", clip(h.Linkname), err)
	}
	target := path.Join(parent, base)
	info, err := u.root.Lstat(target)
	if err != nil || info.IsDir() {
		return fault.Errorf(fault.Invalid, "link to %q, which is not a file of the tree", clip(h.Linkname))
	}
	if target == real {
		return nil
	}
	if err := u.clear(real); err != nil {
		return err
	}
	return u.root.Link(target, real)
}

// dress sets owner and mode; the owner first, since chown clears mode bits.
func (u *unpacker) dress(real string, h *tar.Header, mode fs.FileMode) error {
	if u.owns {
		if err := u.root.Lchown(real, idOf(h.Uid), idOf(h.Gid)); err != nil {
			return err
		}
	}
	return u.root.Chmod(real, mode)
}

// white removes what a whiteout names: one entry of a lower layer, or all of
// them. What this layer itself made stays, whatever the order in the tar.
func (u *unpacker) white(parent, base string) error {
	if base != opaque {
		name := strings.TrimPrefix(base, whiteout)
		if name == "" || name == "." || name == ".." {
			return fault.Errorf(fault.Invalid, "the whiteout is malformed")
		}
		real := path.Join(parent, name)
		if u.layer[real] {
			return nil
		}
		return u.clear(real)
	}
	return u.emptyDir(parent)
}

func (u *unpacker) emptyDir(dir string) error {
	entries, err := fs.ReadDir(u.root.FS(), dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		real := path.Join(dir, e.Name())
		switch {
		case !u.layer[real]:
			err = u.clear(real)
		case e.IsDir():
			err = u.emptyDir(real)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func permOf(h *tar.Header) fs.FileMode {
	mode := fs.FileMode(h.Mode & 0o777)
	if h.Mode&0o1000 != 0 && h.Typeflag == tar.TypeDir {
		mode |= fs.ModeSticky
	}
	return mode
}

// idOf gives an owner that a machine can have; others become root.
func idOf(id int) int {
	if id < 0 || id > 65535 {
		return 0
	}
	return id
}

// clip keeps a hostile name from filling a message.
func clip(name string) string {
	if len(name) > 200 {
		return name[:200] + "…"
	}
	return name
}

// gunzip gives r's content, decompressed if it is gzip.
func gunzip(r io.Reader) (io.Reader, error) {
	br := bufio.NewReaderSize(r, 1<<16)
	magic, err := br.Peek(2)
	if err != nil || !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return br, nil
	}
	zr, err := gzip.NewReader(br)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "read gzip: %w", err)
	}
	return zr, nil
}
