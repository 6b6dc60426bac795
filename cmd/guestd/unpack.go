package main

import (
	"archive/tar"
	"bufio"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
)

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
