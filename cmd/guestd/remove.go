package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// removeTries is how often a directory is emptied again that a running program
// goes on filling.
const removeTries = 8

// maxRemoveDepth bounds the descriptors that removing a tree holds.
const maxRemoveDepth = 8192

func (d *daemon) removeFile(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	answer(w, nil, removePath(r.Context(), q.Get("path"), q.Get("recursive") != ""))
}

func removePath(ctx context.Context, name string, recursive bool) error {
	p, err := resolve(name, nil)
	if err != nil {
		return err
	}
	defer p.close()
	if p.name == "." {
		return fault.Errorf(fault.Invalid, "the root directory cannot be removed")
	}
	st, err := p.stat()
	switch {
	case err != nil:
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		err = unix.Unlinkat(p.dir, p.name, 0)
	case recursive:
		err = removeTree(ctx, p.dir, p.name, 0)
	default:
		err = unix.Unlinkat(p.dir, p.name, unix.AT_REMOVEDIR)
	}
	if err != nil {
		return fileFault("remove", name, err)
	}
	return nil
}

// removeTree removes a name and all below it. Only names in opened directories
// are removed, so a link put in the way is removed itself.
func removeTree(ctx context.Context, dir int, name string, depth int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if depth > maxRemoveDepth {
		return fault.Errorf(fault.Exhausted, "directories lie deeper in one another than %d", maxRemoveDepth)
	}
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	for try := 0; ; try++ {
		if err := emptyDir(ctx, dir, name, depth); err != nil {
			return err
		}
		err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) || try == removeTries {
			return err
		}
	}
}

func emptyDir(ctx context.Context, dir int, name string, depth int) error {
	fd, err := unix.Openat(dir, name, dirFlags, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	for {
		names, err := f.Readdirnames(1024)
		for _, n := range names {
			if err := removeTree(ctx, fd, n, depth+1); err != nil {
				return err
			}
		}
		if len(names) == 0 {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}
