package classes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"assay/internal/course"
	"assay/internal/course/assignment"
	"assay/internal/course/handin"
	"assay/internal/fault"
)

// maxHeld is how many assignments stay in memory that nobody uses.
const maxHeld = 16

// folders keeps the assignments that were used lately, prepared for grading.
type folders struct {
	blobs Blobs
	dir   string

	mu   sync.Mutex
	held map[string]*held
}

// held is one prepared assignment, or the making of it.
type held struct {
	assignment *course.Assignment
	ready      chan struct{} // closed when assignment or err is there
	err        error
	last       time.Time // guarded by folders.mu
}

func newFolders(blobs Blobs, dir string) *folders {
	return &folders{blobs: blobs, dir: dir, held: map[string]*held{}}
}

// prepared gives the assignment of a package, ready to be graded with. It is
// only read from then on.
func (f *folders) prepared(ctx context.Context, g Grader, name, digest string) (*course.Assignment, error) {
	key := digest + " " + name
	for {
		h, mine := f.hold(key)
		if mine {
			h.assignment, h.err = f.prepare(ctx, g, name, digest)
			if h.err != nil {
				f.drop(key, h)
			}
			close(h.ready)
			return h.assignment, h.err
		}
		select {
		case <-h.ready:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if h.err == nil || ctx.Err() != nil {
			return h.assignment, h.err
		}
		// The other one's context may have ended; this one's has not. What failed
		// was dropped, so each round has one that makes it anew and leaves.
	}
}

// hold gives what is held under a key; mine says that the caller has to make it.
func (f *folders) hold(key string) (h *held, mine bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h = f.held[key]
	if mine = h == nil; mine {
		h = &held{ready: make(chan struct{})}
		f.held[key] = h
	}
	h.last = time.Now()
	f.forget()
	return h, mine
}

// drop lets go of what could not be made, unless it was forgotten and another is
// in its place.
func (f *folders) drop(key string, h *held) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held[key] == h {
		delete(f.held, key)
	}
}

// forget lets go of the one that was used longest ago. The caller holds mu.
func (f *folders) forget() {
	for len(f.held) > maxHeld {
		oldest := ""
		for key, h := range f.held {
			if oldest == "" || h.last.Before(f.held[oldest].last) {
				oldest = key
			}
		}
		delete(f.held, oldest)
	}
}

func (f *folders) prepare(ctx context.Context, g Grader, name, digest string) (*course.Assignment, error) {
	a, err := f.load(ctx, name, digest)
	if err != nil {
		return nil, err
	}
	return a, g.Prepare(ctx, a)
}

// load reads the assignment of a package.
func (f *folders) load(ctx context.Context, name, digest string) (*course.Assignment, error) {
	r, err := f.blobs.Open(ctx, digest)
	if err != nil {
		if fault.Is(err, fault.NotFound) {
			// We have lost it: nothing is wrong with the assignment.
			return nil, fault.Errorf(fault.Internal, "package of assignment %s: %w", name, err)
		}
		return nil, fmt.Errorf("package of assignment %s: %w", name, err)
	}
	defer r.Close()
	tmp, size, err := spool(f.dir, r, maxPackage)
	if err != nil {
		return nil, fmt.Errorf("package of assignment %s: %w", name, err)
	}
	defer tmp.Close()
	return readPackage(name, tmp, size)
}

// readPackage reads an assignment from a zip or tar of its folder, within the
// bounds of what is handed in.
func readPackage(name string, r io.ReaderAt, size int64) (*course.Assignment, error) {
	in, err := handin.ReadFile(name+".zip", r, size, handin.Options{Expected: []course.ExpectedFile{{Pattern: assignment.FileName}}})
	if err != nil {
		return nil, err
	}
	return assignment.Read(name, in.Files)
}

// spool puts what r gives, at most max bytes, into a file without a name, which
// is gone when it is closed.
func spool(dir string, r io.Reader, max int64) (_ *os.File, size int64, err error) {
	f, err := os.CreateTemp(dir, "upload-*")
	if err != nil {
		return nil, 0, fmt.Errorf("keep upload: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if err := os.Remove(f.Name()); err != nil {
		return nil, 0, fmt.Errorf("keep upload: %w", err)
	}
	size, err = io.Copy(f, io.LimitReader(r, max+1))
	switch {
	case err != nil:
		return nil, 0, err
	case size > max:
		return nil, 0, fault.Errorf(fault.Invalid, "the upload has more than %d bytes", max).WithHint("leave out what is not asked for")
	case size == 0:
		return nil, 0, fault.Errorf(fault.Invalid, "the upload is empty")
	}
	return f, size, nil
}

// clip cuts a long text for a row.
func clip(text string, max int) string {
	if len(text) <= max {
		return text
	}
	return strings.ToValidUTF8(text[:max], "") + "…"
}
