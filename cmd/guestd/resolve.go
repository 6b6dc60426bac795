package main

import (
	"errors"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// guestd is root, and the directories it works in may belong to a hostile user
// who swaps a directory for a link while we look. So every path is opened part
// by part, and a link is followed only where no user could have put it.

const (
	maxPath  = 4096
	maxLinks = 40
)

// place is a name in an opened directory: what a path leads to, whatever
// happens to the path afterwards.
type place struct {
	dir  int    // O_PATH descriptor of the parent
	name string // one part, "." for the root directory
	path string // as it was given, for errors
}

func (p place) close() { _ = unix.Close(p.dir) }

// newDirs says how missing directories are made on the way; nil: they are not.
type newDirs struct {
	mode uint32
	uid  int
}

// resolve gives the place of an absolute path. The last part need not exist.
func resolve(name string, parents *newDirs) (place, error) {
	clean, err := cleanPath(name)
	if err != nil {
		return place{}, err
	}
	dir, base := path.Split(clean)
	if base == "" {
		base = "."
	}
	fd, err := openDir(dir, parents)
	if err != nil {
		return place{}, fileFault("open", name, err)
	}
	return place{dir: fd, name: base, path: name}, nil
}

func cleanPath(name string) (string, error) {
	if !path.IsAbs(name) || len(name) >= maxPath || strings.ContainsRune(name, 0) {
		return "", fault.Errorf(fault.Invalid, "path %.80q is not an absolute path below %d bytes", name, maxPath)
	}
	return path.Clean(name), nil
}

// errForeignLink is a link that a user could have put there.
var errForeignLink = errors.New("a symbolic link lies in the way that does not belong to the system")

// openDir opens a directory (O_PATH) part by part.
func openDir(dir string, parents *newDirs) (int, error) {
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open("/", flags|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	rest := parts(dir)
	links := 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		next, err := unix.Openat(fd, name, flags, 0)
		if errors.Is(err, unix.ENOENT) && parents != nil {
			if err = parents.make(fd, name); err == nil {
				next, err = unix.Openat(fd, name, flags, 0)
			}
		}
		var st unix.Stat_t
		if err == nil {
			if err = unix.Fstat(next, &st); err != nil {
				_ = unix.Close(next)
			}
		}
		if err != nil {
			_ = unix.Close(fd)
			return -1, err
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			_ = unix.Close(fd)
			fd = next
		case unix.S_IFLNK:
			_ = unix.Close(next)
			target := ""
			if links++; links > maxLinks {
				err = unix.ELOOP
			} else {
				target, err = systemLink(fd, name, &st)
			}
			if err == nil && path.IsAbs(target) {
				_ = unix.Close(fd)
				fd, err = unix.Open("/", flags|unix.O_DIRECTORY, 0)
			}
			if err != nil {
				_ = unix.Close(fd)
				return -1, err
			}
			rest = append(parts(target), rest...)
		default:
			_ = unix.Close(next)
			_ = unix.Close(fd)
			return -1, unix.ENOTDIR
		}
	}
	return fd, nil
}

func parts(p string) []string {
	return strings.FieldsFunc(p, func(r rune) bool { return r == '/' })
}

// systemLink reads a link that root owns in a directory that only root may
// write to; a root's link elsewhere may be a hard link that a user made.
func systemLink(dir int, name string, link *unix.Stat_t) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return "", err
	}
	if link.Uid != 0 || st.Uid != 0 || st.Mode&0o022 != 0 {
		return "", errForeignLink
	}
	return readLink(dir, name)
}

func readLink(dir int, name string) (string, error) {
	buf := make([]byte, maxPath)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// make makes one directory with owner and mode.
func (n newDirs) make(dir int, name string) error {
	if err := unix.Mkdirat(dir, name, 0o700); err != nil {
		return err
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return own(fd, n.uid, n.mode)
}

// own gives an open file its owner and permission bits.
func own(fd, uid int, mode uint32) error {
	if err := unix.Fchown(fd, uid, uid); err != nil {
		return err
	}
	return unix.Fchmod(fd, mode)
}

// stat is lstat of the place.
func (p place) stat() (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstatat(p.dir, p.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// openRegular opens a regular file at the place for reading. Nothing else is
// opened, not for a moment: a FIFO could block us, a device could act.
func openRegular(dir int, name string) (int, unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, st, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, st, errNotRegular
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, st, err
	}
	var fsys unix.Statfs_t
	if err = unix.Fstat(fd, &st); err == nil {
		err = unix.Fstatfs(fd, &fsys)
	}
	if err == nil && (st.Mode&unix.S_IFMT != unix.S_IFREG || kernelFS[int64(fsys.Type)]) {
		err = errNotRegular // swapped since, or a kernel's file that can block
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

var errNotRegular = errors.New("not a regular file")

// kernelFS are filesystems whose files look regular and are not: reading can
// block or act.
var kernelFS = map[int64]bool{
	unix.PROC_SUPER_MAGIC: true, unix.SYSFS_MAGIC: true, unix.CGROUP2_SUPER_MAGIC: true,
	unix.DEBUGFS_MAGIC: true, unix.TRACEFS_MAGIC: true,
}

var errnoKinds = map[syscall.Errno]fault.Kind{
	unix.ENOENT: fault.NotFound, unix.ENOTDIR: fault.NotFound,
	unix.EEXIST: fault.Conflict, unix.ENOTEMPTY: fault.Conflict, unix.EISDIR: fault.Conflict, unix.EBUSY: fault.Conflict,
	unix.ENOSPC: fault.Exhausted, unix.EDQUOT: fault.Exhausted, unix.EMFILE: fault.Exhausted, unix.ENFILE: fault.Exhausted,
	unix.ENOMEM: fault.Exhausted, unix.EFBIG: fault.Exhausted, unix.EMLINK: fault.Exhausted,
	unix.EACCES: fault.Denied, unix.EPERM: fault.Denied, unix.EROFS: fault.Denied,
	unix.EINVAL: fault.Invalid, unix.ENAMETOOLONG: fault.Invalid, unix.ELOOP: fault.Invalid, unix.EXDEV: fault.Invalid,
	unix.ENXIO: fault.Invalid,
}

// fileFault makes a fault of what went wrong with a path; a fault stays.
func fileFault(verb, name string, err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	kind := fault.Internal
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		if k, ok := errnoKinds[errno]; ok {
			kind = k
		}
	}
	f := fault.Errorf(kind, "%s %s: %w", verb, name, err)
	switch {
	case errors.Is(err, errForeignLink):
		f.Kind = fault.Denied
		return f.WithHint("name the directory the link leads to")
	case errors.Is(err, errNotRegular):
		f.Kind = fault.Invalid
	}
	return f
}
