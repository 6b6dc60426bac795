package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"assay/internal/fault"
)

// treeInfo is what tree.json says of a finished tree.
type treeInfo struct {
	Digest  string `json:"digest"`
	Bytes   int64  `json:"bytes"` // on disk, whole blocks
	Entries int64  `json:"entries"`
	// Packages are the installed Debian packages, "name=version".
	Packages []string `json:"packages,omitempty"`
	// Owned says that files have their true owners. It is false for trees
	// that an ordinary user built: then all belongs to root, and what the
	// account must write to is open to everyone.
	Owned bool `json:"owned"`
}

// debianTrash is what a machine never reads, or what the host left: package
// lists, caches, logs, documents, translations, and the host's apt sources.
// What ends in "/" is emptied and kept.
var debianTrash = []string{
	"etc/apt/sources.list", "etc/apt/sources.list.d/", "etc/apt/apt.conf.d/", "etc/apt/auth.conf",
	"etc/apt/auth.conf.d/", "etc/apt/apt.conf", "etc/apt/preferences.d/",
	"var/lib/apt/lists/", "var/cache/", "var/log/", "var/lib/dpkg/status-old", "var/lib/dpkg/available-old",
	"usr/share/doc/", "usr/share/man/", "usr/share/info/", "usr/share/locale/", "usr/share/lintian/",
	"usr/share/bug/",
}

// tarTrash is the part of it that is safe to remove from anybody's tree.
var tarTrash = []string{"var/lib/apt/lists/", "var/cache/apt/", ".dockerenv"}

// finisher makes a raw tree ready to be an image: one account, fixed files,
// nothing of the host, no setuid programs, no devices.
type finisher struct {
	root *os.Root
	owns bool
	user string
	info treeInfo
}

func finish(dir, user string, debian bool) (treeInfo, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return treeInfo{}, err
	}
	defer root.Close()
	f := &finisher{root: root, owns: FullRoot(), user: user}
	f.info.Owned = f.owns
	trash := tarTrash
	if debian {
		trash = debianTrash
	}
	steps := []func() error{
		func() error { return f.clean(trash) },
		f.mountPoints, f.account, f.fixedFiles, f.packages,
		func() error { return f.walk(".") },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return treeInfo{}, hostile(err)
		}
	}
	return f.info, nil
}

// hostile makes a fault of a tree that cannot be finished: the usual reason is
// a link that leads out of it, which os.Root refuses.
func hostile(err error) error {
	if kindOfFS(err) == fault.Exhausted || fault.KindOf(err) != fault.Internal {
		return err
	}
	return fault.Errorf(fault.Invalid, "finish the root filesystem: %w", err)
}

func (f *finisher) clean(trash []string) error {
	for _, name := range trash {
		dir, isDir := strings.CutSuffix(name, "/")
		info, err := f.root.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if !isDir || !info.IsDir() {
			if err := f.root.RemoveAll(dir); err != nil {
				return err
			}
			continue
		}
		if err := f.empty(dir); err != nil {
			return err
		}
	}
	return nil
}

func (f *finisher) empty(dir string) error {
	entries, err := fs.ReadDir(f.root.FS(), dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := f.root.RemoveAll(path.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// mountPoints makes the directories that the machine mounts over or that
// everybody expects; what is in the first four goes.
func (f *finisher) mountPoints() error {
	for _, d := range []string{"proc", "sys", "dev", "run"} {
		if err := f.root.RemoveAll(d); err != nil {
			return err
		}
	}
	for _, d := range []struct {
		name string
		mode fs.FileMode
	}{
		{"proc", 0o755},
		{"sys", 0o755},
		{"dev", 0o755},
		{"dev/pts", 0o755},
		{"dev/shm", 0o777 | fs.ModeSticky},
		{"run", 0o755},
		{"run/lock", 0o777 | fs.ModeSticky},
		{"tmp", 0o777 | fs.ModeSticky},
		{"var", 0o755},
		{"var/tmp", 0o777 | fs.ModeSticky},
		{"etc", 0o755},
		{"root", 0o700},
		{"home", 0o755},
		{".assay", 0o755},
	} {
		if err := f.dir(d.name, 0, d.mode); err != nil {
			return err
		}
	}
	for _, d := range []string{"tmp", "var/tmp", ".assay"} {
		if err := f.empty(d); err != nil {
			return err
		}
	}
	return nil
}

// dir makes a real directory with this owner and mode; a link in its place is
// removed.
func (f *finisher) dir(name string, owner int, mode fs.FileMode) error {
	if info, err := f.root.Lstat(name); err != nil || !info.IsDir() {
		if err := f.root.RemoveAll(name); err != nil {
			return err
		}
		if err := f.root.Mkdir(name, 0o755); err != nil {
			return err
		}
	}
	if f.owns {
		if err := f.root.Lchown(name, owner, owner); err != nil {
			return err
		}
	} else if owner != 0 {
		mode |= 0o777
	}
	return f.root.Chmod(name, mode)
}

// account makes the one ordinary account and its directories.
func (f *finisher) account() error {
	shell := "/bin/sh"
	for _, p := range []string{"usr/bin/bash", "bin/bash"} {
		if _, err := f.root.Stat(p); err == nil {
			shell = "/bin/bash"
			break
		}
	}
	home := "/home/" + f.user
	for _, file := range []struct {
		name string
		id   int // field with the number, or -1
		root string
		line string
		mode fs.FileMode
	}{
		{"etc/passwd", 2, "root:x:0:0:root:/root:" + shell, fmt.Sprintf("%s:x:%d:%d::%s:%s", f.user, UserID, UserID, home, shell), 0o644},
		{"etc/group", 2, "root:x:0:", fmt.Sprintf("%s:x:%d:", f.user, UserID), 0o644},
		{"etc/shadow", -1, "root:*:19000:0:99999:7:::", f.user + ":*:19000:0:99999:7:::", 0o640},
	} {
		old, err := f.read(file.name)
		if err != nil {
			return err
		}
		var lines []string
		hasRoot := false
		for line := range strings.Lines(string(old)) {
			fields := strings.Split(strings.TrimSpace(line), ":")
			if len(fields) < 3 || fields[0] == f.user || (file.id >= 0 && fields[file.id] == fmt.Sprint(UserID)) {
				continue
			}
			hasRoot = hasRoot || fields[0] == "root"
			lines = append(lines, strings.TrimSpace(line))
		}
		if !hasRoot {
			lines = append([]string{file.root}, lines...)
		}
		lines = append(lines, file.line)
		if err := f.write(file.name, strings.Join(lines, "\n")+"\n", file.mode); err != nil {
			return err
		}
		// The copy that account tools keep names accounts we have removed.
		if err := f.root.RemoveAll(file.name + "-"); err != nil {
			return err
		}
	}
	if err := f.dir("home/"+f.user, UserID, 0o755); err != nil {
		return err
	}
	// /box is where the judge puts programs and inputs: not the user's.
	return f.dir("box", 0, 0o755)
}

// resolvers names an address that answers no queries. Where a sandbox has no
// network it cannot be reached, and where it has one the yard refuses what is
// sent there: a program that looks up a name learns so at once, and the log of
// the sandbox shows that it tried. Without a line here the C library would ask
// the machine itself, which says nothing, for ten seconds.
const resolvers = `# Nothing here resolves names: the proxy of a sandbox with a network does.
nameserver 10.192.0.1
options timeout:1 attempts:1
`

// fixedFiles makes the files in which a host would show through.
func (f *finisher) fixedFiles() error {
	for _, file := range []struct{ name, text string }{
		{"etc/hostname", "assay\n"},
		{"etc/hosts", "127.0.0.1\tlocalhost assay\n::1\tlocalhost\n"},
		{"etc/machine-id", ""},
		{"etc/resolv.conf", resolvers},
	} {
		if err := f.write(file.name, file.text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// read gives a small regular file, or nothing if there is none.
func (f *finisher) read(name string) ([]byte, error) {
	info, err := f.root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > 64<<20 {
		return nil, fmt.Errorf("%s is not a small file", name)
	}
	return f.root.ReadFile(name)
}

// write replaces whatever has this name by a file of root.
func (f *finisher) write(name, text string, mode fs.FileMode) error {
	if err := f.root.RemoveAll(name); err != nil {
		return err
	}
	if err := f.root.WriteFile(name, []byte(text), 0o600); err != nil {
		return err
	}
	if !f.owns {
		mode |= 0o600
	}
	return f.root.Chmod(name, mode)
}

// packages notes what is installed.
func (f *finisher) packages() error {
	status, err := f.read("var/lib/dpkg/status")
	if err != nil {
		return err
	}
	name := ""
	for line := range strings.Lines(string(status)) {
		line = strings.TrimSuffix(line, "\n")
		if v, ok := strings.CutPrefix(line, "Package: "); ok {
			name = v
		}
		if v, ok := strings.CutPrefix(line, "Version: "); ok && name != "" {
			f.info.Packages = append(f.info.Packages, name+"="+v)
		}
	}
	slices.Sort(f.info.Packages)
	return nil
}

// walk goes over all of the tree: it takes setuid bits away, removes what is
// no file, directory or link, mends compiled Python, and counts.
func (f *finisher) walk(dir string) error {
	entries, err := fs.ReadDir(f.root.FS(), dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		info, err := e.Info()
		if err != nil {
			return err
		}
		f.info.Entries++
		switch mode := info.Mode(); {
		case mode.IsDir():
			if mode&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
				if err := f.root.Chmod(name, mode.Perm()|mode&fs.ModeSticky); err != nil {
					return err
				}
			}
			f.info.Bytes += blockBytes
			if err := f.walk(name); err != nil {
				return err
			}
		case mode.IsRegular():
			if mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 {
				if err := f.root.Chmod(name, mode.Perm()); err != nil {
					return err
				}
			}
			f.info.Bytes += (info.Size() + blockBytes - 1) / blockBytes * blockBytes
			if strings.HasSuffix(name, ".pyc") && path.Base(dir) == "__pycache__" {
				if err := f.freezePyc(name); err != nil {
					return err
				}
			}
		case mode&fs.ModeSymlink != 0:
		default:
			if err := f.root.RemoveAll(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// freezePyc marks a compiled Python file as valid whatever the time stamp of
// its source. All files of an image have one time, so Python would otherwise
// take each for stale and compile it again at every start. The layout is PEP
// 552's: magic, flags, then time and size, or a hash that flag 1 says nobody
// checks.
func (f *finisher) freezePyc(name string) error {
	file, err := f.root.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	var head [16]byte
	if n, err := file.ReadAt(head[:], 0); n < len(head) || err != nil {
		return nil
	}
	if binary.LittleEndian.Uint32(head[4:]) != 0 {
		return nil
	}
	module, _, _ := strings.Cut(path.Base(name), ".")
	source, err := f.root.Stat(path.Join(path.Dir(path.Dir(name)), module+".py"))
	if err != nil || uint32(source.ModTime().Unix()) != binary.LittleEndian.Uint32(head[8:]) ||
		uint32(source.Size()) != binary.LittleEndian.Uint32(head[12:]) {
		return nil // stale already
	}
	_, err = file.WriteAt([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 4)
	return err
}

// blockBytes is EROFS's block: content takes whole blocks in the image.
const blockBytes = 4096
