package judging

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"assay/internal/fault"
	"assay/internal/judge/problempkg"
)

// maxHeld is how many packages stay open that nobody uses: reading one anew
// takes as long as a small run.
const maxHeld = 16

// readWait bounds how long it takes to bring a package to the disk.
const readWait = 5 * time.Minute

// packages keeps the packages that were used lately on this host's disk, open.
type packages struct {
	blobs Blobs
	dir   string

	mu   sync.Mutex
	held map[string]*held
}

// held is one package, or the reading of it.
type held struct {
	*problempkg.Package
	owner  *packages
	digest string
	ready  chan struct{} // closed when Package or err is there
	err    error
	// users and last are guarded by packages.mu.
	users int
	last  time.Time
}

// open gives the package of a blob; the caller releases it.
func (p *packages) open(ctx context.Context, digest string) (*held, error) {
	p.mu.Lock()
	h := p.held[digest]
	if h == nil {
		h = &held{owner: p, digest: digest, ready: make(chan struct{})}
		p.held[digest] = h
		h.users++
		p.mu.Unlock()
		// Others may wait for it, too: that this caller goes away must not fail them.
		reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWait)
		h.Package, h.err = p.read(reading, digest)
		cancel()
		close(h.ready)
	} else {
		h.users++
		p.mu.Unlock()
		select {
		case <-h.ready:
		case <-ctx.Done():
			h.release()
			return nil, context.Cause(ctx)
		}
	}
	if h.err != nil {
		p.mu.Lock()
		if p.held[digest] == h {
			delete(p.held, digest)
		}
		p.mu.Unlock()
		return nil, h.err
	}
	return h, nil
}

func (p *packages) path(digest string) string {
	return filepath.Join(p.dir, strings.ReplaceAll(digest, ":", "-")+".zip")
}

// read brings a blob to the disk, under its name only when it is whole, and
// reads the package in it.
func (p *packages) read(ctx context.Context, digest string) (_ *problempkg.Package, err error) {
	path := p.path(digest)
	if _, err := os.Stat(path); err != nil {
		if err := p.fetch(ctx, digest, path); err != nil {
			return nil, fmt.Errorf("problem package: %w", err)
		}
	}
	pkg, err := problempkg.Options{Name: digest}.Load(path)
	if err != nil {
		return nil, errors.Join(onDisk(err), removeQuietly(path))
	}
	return pkg, nil
}

// removeQuietly removes a file that is of no use; that it is gone is fine.
func removeQuietly(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (p *packages) fetch(ctx context.Context, digest, path string) error {
	r, err := p.blobs.Open(ctx, digest)
	if err != nil {
		return err
	}
	defer r.Close()
	part, err := p.write(ctx, r, maxPackage)
	if err != nil {
		return err
	}
	return onDisk(errors.Join(os.Rename(part, path), removeQuietly(part)))
}

// partPattern names files that are being written; partsStay is the age from
// which on nobody writes them any more.
const (
	partPattern = ".part-*.zip"
	partsStay   = time.Hour
)

// write puts what r gives, at most max bytes, into a file that nobody uses yet;
// the caller renames or removes it.
func (p *packages) write(ctx context.Context, r io.Reader, max int64) (path string, err error) {
	f, err := os.CreateTemp(p.dir, partPattern)
	if err != nil {
		return "", onDisk(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeQuietly(f.Name()))
		}
	}()
	in := &source{ctx: ctx, r: io.LimitReader(r, max+1)}
	n, err := io.Copy(f, in)
	switch {
	case in.err != nil:
		err = in.err
	case n > max:
		err = fault.Errorf(fault.Invalid, "the package has more than %d bytes", max)
	}
	return f.Name(), errors.Join(onDisk(err), onDisk(f.Close()))
}

// source reads until the context ends, and remembers why reading failed: that is
// not the disk's fault.
type source struct {
	ctx context.Context
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		s.err = context.Cause(s.ctx)
		return 0, s.err
	}
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// onDisk gives an error of this host's disk its kind.
func onDisk(err error) error {
	var errno syscall.Errno
	switch {
	case !errors.As(err, &errno) || fault.KindOf(err) != fault.Internal:
		return err
	case errno == syscall.ENOSPC || errno == syscall.EDQUOT:
		return fault.Errorf(fault.Exhausted, "keep a package in use: the disk is full: %w", err).WithHint("make room on the disk of the data directory")
	}
	return fault.Errorf(fault.Unavailable, "keep a package in use: %w", err)
}

// tidy removes what was left half-written, and packages of earlier processes
// that are more than this one would keep: those that were read in first.
func (p *packages) tidy() error {
	whole, err := filepath.Glob(p.path("sha256:*"))
	if err != nil {
		return err
	}
	used := map[string]time.Time{}
	for _, path := range whole {
		if info, err := os.Stat(path); err == nil {
			used[path] = info.ModTime()
		}
	}
	slices.SortFunc(whole, func(a, b string) int { return used[b].Compare(used[a]) })
	for _, path := range whole[min(len(whole), maxHeld):] {
		if err := removeQuietly(path); err != nil {
			return err
		}
	}
	parts, err := filepath.Glob(filepath.Join(p.dir, partPattern))
	if err != nil {
		return err
	}
	for _, part := range parts {
		if info, err := os.Stat(part); err == nil && time.Since(info.ModTime()) > partsStay {
			if err := removeQuietly(part); err != nil {
				return err
			}
		}
	}
	return nil
}

// release gives a package back; the one that was used longest ago is closed
// when there are too many.
func (h *held) release() {
	p := h.owner
	p.mu.Lock()
	defer p.mu.Unlock()
	h.users--
	h.last = time.Now()
	for len(p.held) > maxHeld {
		var oldest *held
		for _, o := range p.held {
			if o.users == 0 && (oldest == nil || o.last.Before(oldest.last)) {
				oldest = o
			}
		}
		if oldest == nil {
			return
		}
		delete(p.held, oldest.digest)
		// A zip that cannot be closed was only read, and its file is there to save
		// time: what is left of it is overwritten when it is read again.
		_ = oldest.Package.Close()
		_ = os.Remove(p.path(oldest.digest))
	}
}

func (p *packages) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, h := range p.held {
		if h.Package != nil {
			errs = append(errs, h.Package.Close())
		}
	}
	clear(p.held)
	return errors.Join(errs...)
}
