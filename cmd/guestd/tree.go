package main

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
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
