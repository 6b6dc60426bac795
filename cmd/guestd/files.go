package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
)

// copyBuffer is the buffer of one transfer, in bytes.
const copyBuffer = 128 << 10

// fileRoutes are the file requests.
func (d *daemon) fileRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+guest.PathFile, d.readFile)
	mux.HandleFunc("PUT "+guest.PathFile, d.writeFile)
	mux.HandleFunc("DELETE "+guest.PathFile, d.removeFile)
	mux.HandleFunc("GET "+guest.PathStat, d.statFile)
	mux.HandleFunc("POST "+guest.PathRename, d.renameFile)
	mux.HandleFunc("POST "+guest.PathChmod, d.chmodFile)
	mux.HandleFunc("GET "+guest.PathDir, d.listDir)
	mux.HandleFunc("PUT "+guest.PathDir, d.makeDir)
	mux.HandleFunc("GET "+guest.PathTree, d.readTree)
	mux.HandleFunc("PUT "+guest.PathTree, d.writeTree)
}

// ownerOf reads the owner of a request.
func ownerOf(q url.Values) (uid int, err error) {
	switch q.Get("owner") {
	case "", guest.OwnerUser:
		return userID, nil
	case guest.OwnerRoot:
		return 0, nil
	}
	return 0, fault.Errorf(fault.Invalid, "owner %.40q is not known", q.Get("owner")).WithHint("use \"user\" or \"root\"")
}

// modeOf reads the permission bits of a request.
func modeOf(q url.Values, unset uint32) (uint32, error) {
	if !q.Has("mode") {
		return unset, nil
	}
	n, err := strconv.ParseUint(q.Get("mode"), 8, 32)
	if err != nil || n > 0o777 {
		return 0, fault.Errorf(fault.Invalid, "mode %.40q is not permission bits", q.Get("mode"))
	}
	return uint32(n), nil
}

// parentsOf reads whether missing parents are made.
func parentsOf(q url.Values, uid int) *newDirs {
	if q.Get("parents") == "" {
		return nil
	}
	return &newDirs{mode: 0o755, uid: uid}
}

func infoOf(name string, st *unix.Stat_t) guest.FileInfo {
	info := guest.FileInfo{
		Name: name, Type: guest.TypeOther, Size: st.Size, Mode: fs.FileMode(st.Mode & 0o777), UID: st.Uid,
		ModTime: time.Unix(st.Mtim.Unix()).UTC(),
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		info.Type = guest.TypeFile
	case unix.S_IFDIR:
		info.Type = guest.TypeDir
	case unix.S_IFLNK:
		info.Type = guest.TypeSymlink
	}
	return info
}

// answer replies with v, or nothing, or the fault.
func answer(w http.ResponseWriter, v any, err error) {
	switch {
	case err != nil:
		guest.WriteFault(w, err)
	case v == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		reply(w, v)
	}
}

func (d *daemon) statFile(w http.ResponseWriter, r *http.Request) {
	info, err := statPath(r.URL.Query().Get("path"))
	answer(w, info, err)
}

func statPath(name string) (guest.FileInfo, error) {
	p, err := resolve(name, nil)
	if err != nil {
		return guest.FileInfo{}, err
	}
	defer p.close()
	return entry(p.dir, p.name, p.path)
}

// entry is the info of one name in a directory.
func entry(dir int, name, full string) (guest.FileInfo, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return guest.FileInfo{}, fileFault("stat", full, err)
	}
	info := infoOf(name, &st)
	if info.Type == guest.TypeSymlink {
		target, err := readLink(dir, name)
		if err != nil {
			return guest.FileInfo{}, fileFault("read link", full, err)
		}
		info.LinkTarget = target
	}
	return info, nil
}

func (d *daemon) readFile(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	offset, length := int64(0), int64(math.MaxInt64)
	for key, n := range map[string]*int64{"offset": &offset, "length": &length} {
		if !q.Has(key) {
			continue
		}
		var err error
		if *n, err = strconv.ParseInt(q.Get(key), 10, 64); err != nil || *n < 0 {
			guest.WriteFault(w, fault.Errorf(fault.Invalid, "%s %.40q is not a number of bytes", key, q.Get(key)))
			return
		}
	}
	p, err := resolve(q.Get("path"), nil)
	if err != nil {
		guest.WriteFault(w, err)
		return
	}
	defer p.close()
	fd, _, err := openRegular(p.dir, p.name)
	if err != nil {
		guest.WriteFault(w, fileFault("read", p.path, err))
		return
	}
	f := os.NewFile(uintptr(fd), p.path)
	defer f.Close()
	streamTo(w, func(out io.Writer) error {
		_, err := io.CopyBuffer(justWriter{out}, justReader{io.NewSectionReader(f, offset, length)}, make([]byte, copyBuffer))
		if err != nil {
			return fileFault("read", p.path, err)
		}
		return nil
	})
}

// justWriter and justReader keep io.Copy from finding other ways than the
// buffer it is given.
type (
	justWriter struct{ io.Writer }
	justReader struct{ io.Reader }
)

// streamTo sends what write writes, and how it ended as the trailer.
func streamTo(w http.ResponseWriter, write func(io.Writer) error) {
	w.Header().Set("Trailer", guest.TrailerEnd)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(http.StatusOK)
	w.Header().Set(guest.TrailerEnd, guest.EndTrailer(write(w)))
}

func (d *daemon) writeFile(w http.ResponseWriter, r *http.Request) {
	info, err := writeRequest(r, guest.MaxFile)
	answer(w, info, err)
}

func writeRequest(r *http.Request, limit int64) (guest.FileInfo, error) {
	q := r.URL.Query()
	uid, err := ownerOf(q)
	if err != nil {
		return guest.FileInfo{}, err
	}
	mode, err := modeOf(q, 0o644)
	if err != nil {
		return guest.FileInfo{}, err
	}
	p, err := resolve(q.Get("path"), parentsOf(q, uid))
	if err != nil {
		return guest.FileInfo{}, err
	}
	defer p.close()
	info, err := p.write(r.Body, uid, mode, limit)
	if err != nil {
		return guest.FileInfo{}, fileFault("write", p.path, err)
	}
	return info, nil
}

// write puts a new file at the place: under another name first, so that no
// reader sees a part, and a link that lies there is replaced, not followed.
func (p place) write(r io.Reader, uid int, mode uint32, limit int64) (info guest.FileInfo, err error) {
	if st, err := p.stat(); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return info, unix.EISDIR
	}
	tmp := ".assay-" + rand.Text()
	fd, err := unix.Openat(p.dir, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return info, err
	}
	f := os.NewFile(uintptr(fd), p.path)
	defer func() {
		_ = f.Close()
		if err != nil {
			_ = unix.Unlinkat(p.dir, tmp, 0)
		}
	}()
	sum := sha256.New()
	n, err := io.CopyBuffer(justWriter{io.MultiWriter(f, sum)}, justReader{io.LimitReader(r, limit+1)}, make([]byte, copyBuffer))
	if err != nil {
		return info, err
	}
	if n > limit {
		return info, fault.Errorf(fault.Exhausted, "write %s: more than %d bytes", p.path, limit)
	}
	if err := own(fd, uid, mode); err != nil {
		return info, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return info, err
	}
	// Closed before it gets its name: it may be a program that is run at once.
	if err := f.Close(); err != nil {
		return info, err
	}
	if err := unix.Renameat(p.dir, tmp, p.dir, p.name); err != nil {
		return info, err
	}
	info = infoOf(p.name, &st)
	info.Size, info.SHA256 = n, hex.EncodeToString(sum.Sum(nil))
	return info, nil
}

func (d *daemon) listDir(w http.ResponseWriter, r *http.Request) {
	list, err := listPath(r.URL.Query().Get("path"), guest.MaxList)
	answer(w, list, err)
}

func listPath(name string, limit int) ([]guest.FileInfo, error) {
	dir, err := openList(name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(limit + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fileFault("list", name, err)
	}
	if len(names) > limit {
		return nil, fault.Errorf(fault.Exhausted, "%s has more than %d entries", name, limit).
			WithHint("read it as a tree, or list it with a command")
	}
	slices.Sort(names)
	list := make([]guest.FileInfo, 0, len(names))
	for _, n := range names {
		info, err := entry(int(dir.Fd()), n, name)
		if fault.Is(err, fault.NotFound) {
			continue // gone since
		}
		if err != nil {
			return nil, err
		}
		list = append(list, info)
	}
	return list, nil
}

// openList opens a directory for listing.
func openList(name string) (*os.File, error) {
	p, err := resolve(name, nil)
	if err != nil {
		return nil, err
	}
	defer p.close()
	fd, err := unix.Openat(p.dir, p.name, dirFlags, 0)
	if err != nil {
		return nil, fileFault("open directory", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

func (d *daemon) renameFile(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	answer(w, nil, renamePath(q.Get("path"), q.Get("to")))
}

func renamePath(from, to string) error {
	p, err := resolve(from, nil)
	if err != nil {
		return err
	}
	defer p.close()
	t, err := resolve(to, nil)
	if err != nil {
		return err
	}
	defer t.close()
	if err := unix.Renameat(p.dir, p.name, t.dir, t.name); err != nil {
		return fileFault("rename", fmt.Sprintf("%s to %s", from, to), err)
	}
	return nil
}

func (d *daemon) chmodFile(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	mode, err := modeOf(q, 0)
	if err == nil && !q.Has("mode") {
		err = fault.Errorf(fault.Invalid, "no mode is given")
	}
	if err == nil {
		err = chmodPath(q.Get("path"), mode)
	}
	answer(w, nil, err)
}

func chmodPath(name string, mode uint32) error {
	p, err := resolve(name, nil)
	if err != nil {
		return err
	}
	defer p.close()
	fd, err := unix.Openat(p.dir, p.name, dirFlags, 0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		var st unix.Stat_t
		fd, st, err = openRegular(p.dir, p.name)
		if err == nil && st.Uid == 0 && st.Nlink > 1 {
			// A user may have given root's file this second name.
			_ = unix.Close(fd)
			return fault.Errorf(fault.Denied, "chmod %s: it is root's and has %d names", name, st.Nlink)
		}
	}
	if err != nil {
		return fileFault("chmod", name, err)
	}
	defer unix.Close(fd)
	if err := unix.Fchmod(fd, mode); err != nil {
		return fileFault("chmod", name, err)
	}
	return nil
}

func (d *daemon) makeDir(w http.ResponseWriter, r *http.Request) {
	answer(w, nil, makeRequest(r.URL.Query()))
}

func makeRequest(q url.Values) error {
	uid, err := ownerOf(q)
	if err != nil {
		return err
	}
	mode, err := modeOf(q, 0o755)
	if err != nil {
		return err
	}
	parents := parentsOf(q, uid)
	p, err := resolve(q.Get("path"), parents)
	if err != nil {
		return err
	}
	defer p.close()
	err = newDirs{mode: mode, uid: uid}.make(p.dir, p.name)
	if errors.Is(err, unix.EEXIST) && parents != nil {
		if st, serr := p.stat(); serr == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return nil
		}
	}
	if err != nil {
		return fileFault("make directory", p.path, err)
	}
	return nil
}
