package main

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
)

// treeBounds are the caps of one tree.
type treeBounds struct {
	entries, depth int
	bytes          int64
}

var treeCaps = treeBounds{guest.MaxTreeEntries, guest.MaxTreeDepth, guest.MaxTreeBytes}

// treeCount counts against the caps.
type treeCount struct {
	caps treeBounds
	info guest.TreeInfo
}

func (c *treeCount) entry(name string) error {
	c.info.Entries++
	if c.info.Entries > c.caps.entries {
		return fault.Errorf(fault.Exhausted, "tree has more than %d entries", c.caps.entries)
	}
	if strings.Count(name, "/") >= c.caps.depth {
		return fault.Errorf(fault.Exhausted, "directories lie deeper in one another than %d", c.caps.depth)
	}
	return nil
}

func (c *treeCount) file(size int64) error {
	if size < 0 || size > c.caps.bytes-c.info.Bytes {
		return fault.Errorf(fault.Exhausted, "files of the tree have more than %d bytes", c.caps.bytes)
	}
	c.info.Files++
	c.info.Bytes += size
	return nil
}

func (d *daemon) readTree(w http.ResponseWriter, r *http.Request) {
	dir, err := openList(r.URL.Query().Get("path"))
	if err != nil {
		guest.WriteFault(w, err)
		return
	}
	defer dir.Close()
	streamTo(w, func(out io.Writer) error { return packTree(r.Context(), dir, out, treeCaps) })
}

// packTree writes what is below dir as a tar archive.
func packTree(ctx context.Context, dir *os.File, out io.Writer, caps treeBounds) error {
	buffered := bufio.NewWriterSize(out, copyBuffer)
	p := &packer{ctx: ctx, tar: tar.NewWriter(buffered), count: treeCount{caps: caps}, buf: make([]byte, copyBuffer)}
	if err := p.pack(dir, ""); err != nil {
		return err
	}
	if err := p.tar.Close(); err != nil {
		return err
	}
	return buffered.Flush()
}

type packer struct {
	ctx   context.Context // the request's: a packer lives for one
	tar   *tar.Writer
	count treeCount
	buf   []byte
}

// pack writes the entries of an opened directory. Each is opened by its name
// in it: a link swapped in is found to be a link.
func (p *packer) pack(dir *os.File, prefix string) error {
	names, err := dir.Readdirnames(p.count.caps.entries - p.count.info.Entries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return fileFault("list", "/"+prefix, err)
	}
	slices.Sort(names)
	for _, name := range names {
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx)
		}
		if err := p.entry(int(dir.Fd()), name, prefix+name); err != nil && !errors.Is(err, unix.ENOENT) {
			return fileFault("read", prefix+name, err) // gone since is as never there
		}
	}
	return nil
}

func (p *packer) entry(dir int, name, full string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return p.file(dir, name, full)
	case unix.S_IFLNK:
		target, err := readLink(dir, name)
		if err != nil {
			return err
		}
		return p.header(tar.TypeSymlink, full, target, &st)
	case unix.S_IFDIR:
		fd, err := unix.Openat(dir, name, dirFlags, 0)
		if err != nil {
			return err
		}
		sub := os.NewFile(uintptr(fd), full)
		defer sub.Close()
		if err := p.header(tar.TypeDir, full+"/", "", &st); err != nil {
			return err
		}
		return p.pack(sub, full+"/")
	}
	return nil
}

func (p *packer) header(kind byte, name, link string, st *unix.Stat_t) error {
	if err := p.count.entry(strings.TrimSuffix(name, "/")); err != nil {
		return err
	}
	h := &tar.Header{
		Typeflag: kind, Name: name, Linkname: link, Mode: int64(st.Mode & 0o777),
		ModTime: time.Unix(st.Mtim.Unix()).Truncate(time.Second), Format: tar.FormatPAX,
	}
	if kind == tar.TypeReg {
		h.Size = st.Size
	}
	return p.tar.WriteHeader(h)
}

func (p *packer) file(dir int, name, full string) error {
	fd, st, err := openRegular(dir, name)
	if errors.Is(err, errNotRegular) {
		return nil // no longer a file
	}
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), full)
	defer f.Close()
	if err := p.count.file(st.Size); err != nil {
		return err
	}
	if err := p.header(tar.TypeReg, full, "", &st); err != nil {
		return err
	}
	n, err := io.CopyBuffer(justWriter{p.tar}, justReader{io.LimitReader(f, st.Size)}, p.buf)
	if err == nil && n < st.Size {
		err = fault.Errorf(fault.Conflict, "%s became shorter while it was read", full)
	}
	return err
}

func (d *daemon) writeTree(w http.ResponseWriter, r *http.Request) {
	info, err := treeRequest(r)
	answer(w, info, err)
}

func treeRequest(r *http.Request) (guest.TreeInfo, error) {
	q := r.URL.Query()
	uid, err := ownerOf(q)
	if err != nil {
		return guest.TreeInfo{}, err
	}
	name, err := cleanPath(q.Get("path"))
	if err != nil {
		return guest.TreeInfo{}, err
	}
	fd, err := openDir(name, &newDirs{mode: 0o755, uid: uid})
	if err != nil {
		return guest.TreeInfo{}, fileFault("open directory", name, err)
	}
	defer unix.Close(fd)
	return unpackTree(r.Body, fd, uid, treeCaps)
}

// unpackTree unpacks a tar archive below an opened directory.
func unpackTree(r io.Reader, dir, uid int, caps treeBounds) (guest.TreeInfo, error) {
	u := &unpacker{dir: dir, uid: uid, count: treeCount{caps: caps}, buf: make([]byte, copyBuffer)}
	in := tar.NewReader(bufio.NewReaderSize(r, copyBuffer))
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			// What follows the archive's end marker is padding: taken, so that the
			// sender is not cut off.
			_, err := io.CopyBuffer(io.Discard, justReader{io.LimitReader(r, maxPadding)}, u.buf)
			return u.count.info, err
		}
		if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrFieldTooLong) {
			return u.count.info, fault.Errorf(fault.Invalid, "read tar archive: %w", err)
		}
		if err != nil {
			return u.count.info, fault.Errorf(fault.Unavailable, "read tar archive: %w", err)
		}
		if err := u.entry(h, in); err != nil {
			return u.count.info, fileFault("unpack", h.Name, err)
		}
	}
}

// maxPadding is how much may follow an archive's end marker, in bytes.
const maxPadding = 1 << 20

type unpacker struct {
	dir   int
	uid   int
	count treeCount
	buf   []byte
}

// treeName is an entry's name as a path in the tree, "." for its root.
func treeName(name string) (string, error) {
	if name == "" || len(name) >= maxPath || strings.ContainsRune(name, 0) || path.IsAbs(name) {
		return "", fault.Errorf(fault.Invalid, "tar entry %.80q does not name a file in the tree", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fault.Errorf(fault.Invalid, "tar entry %.80q leaves the tree", name)
		}
	}
	return path.Clean(name), nil
}

// entry unpacks one entry.
func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := treeName(h.Name)
	if err != nil {
		return err
	}
	if err := u.count.entry(name); err != nil {
		return err
	}
	mode := uint32(fs.FileMode(h.Mode).Perm())
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return fault.Errorf(fault.Invalid, "tar entry %.80q does not name a file in the tree", h.Name)
		}
		return nil // the root keeps its own mode and owner
	}
	dir, base, err := u.parent(name)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	switch h.Typeflag {
	case tar.TypeDir:
		err := newDirs{mode: mode, uid: u.uid}.make(dir, base)
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
		fd, err := unix.Openat(dir, base, dirFlags, 0)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	case tar.TypeReg:
		if err := u.count.file(h.Size); err != nil {
			return err
		}
		return u.file(dir, base, mode, h.ModTime, content)
	case tar.TypeSymlink:
		if err := insideLink(name, h.Linkname); err != nil {
			return err
		}
		return replacing(dir, base, func() error { return unix.Symlinkat(h.Linkname, dir, base) })
	case tar.TypeLink:
		return u.hardLink(h.Linkname, dir, base)
	default:
		return fault.Errorf(fault.Invalid, "tar entry %.80q is a device, a FIFO or of an unknown kind", h.Name)
	}
}

// parent opens the directory an entry belongs in, and makes it if an archive
// leaves it out. A link on the way is refused: names below it would lie
// somewhere else than they say.
func (u *unpacker) parent(name string) (int, string, error) {
	dir, base := path.Split(name)
	fd, err := unix.Openat(u.dir, ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, "", err
	}
	for _, part := range parts(dir) {
		const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
		next, err := unix.Openat(fd, part, flags, 0)
		if errors.Is(err, unix.ENOENT) {
			if err = (newDirs{mode: 0o755, uid: u.uid}).make(fd, part); err == nil {
				next, err = unix.Openat(fd, part, flags, 0)
			}
		}
		_ = unix.Close(fd)
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			return -1, "", fault.Errorf(fault.Invalid, "tar entry %.80q lies behind something that is not a directory", name)
		}
		if err != nil {
			return -1, "", err
		}
		fd = next
	}
	return fd, base, nil
}

// file writes one regular file, new: one in the way is unlinked, since it may
// be a link, or running.
func (u *unpacker) file(dir int, base string, mode uint32, mtime time.Time, content io.Reader) error {
	fd := -1
	err := replacing(dir, base, func() (err error) {
		fd, err = unix.Openat(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	defer f.Close()
	if _, err := io.CopyBuffer(justWriter{f}, justReader{content}, u.buf); err != nil {
		return err
	}
	if err := own(fd, u.uid, mode); err != nil {
		return err
	}
	if mtime.Unix() > 0 {
		tv := []unix.Timeval{unix.NsecToTimeval(mtime.UnixNano()), unix.NsecToTimeval(mtime.UnixNano())}
		_ = unix.Futimes(fd, tv) // a time nobody relies on
	}
	return f.Close()
}

// replacing runs make, and once more after removing what was in its way; a
// directory in the way stays.
func replacing(dir int, base string, make func() error) error {
	err := make()
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	if err := unix.Unlinkat(dir, base, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return make()
}

// hardLink gives a regular file of the tree a second name.
func (u *unpacker) hardLink(old string, dir int, base string) error {
	name, err := treeName(old)
	if err != nil || name == "." {
		return fault.Errorf(fault.Invalid, "hard link to %.80q leaves the tree", old)
	}
	from, oldBase, err := u.parent(name)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	var st unix.Stat_t
	if err := unix.Fstatat(from, oldBase, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fault.Errorf(fault.Invalid, "hard link to %.80q, which is not a file", old)
	}
	return replacing(dir, base, func() error { return unix.Linkat(from, oldBase, dir, base, 0) })
}

// insideLink refuses a symbolic link that leads out of the tree. ".." may only
// stand at its beginning: further on it would go up from where another link
// leads.
func insideLink(name, target string) error {
	bad := target == "" || len(target) >= maxPath || path.IsAbs(target) || strings.ContainsRune(target, 0)
	up, down := 0, false
	for _, part := range parts(target) {
		switch {
		case part == ".":
		case part == ".." && down:
			bad = true
		case part == "..":
			up++
		default:
			down = true
		}
	}
	if bad || up > strings.Count(name, "/") {
		return fault.Errorf(fault.Invalid, "symbolic link %.80q to %.80q leads, or could lead, out of the tree", name, target)
	}
	return nil
}
