package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// freeBytes gives what a user may still write to dir's filesystem, and the
// filesystem's size.
func freeBytes(dir string) (free, size int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Bavail) * st.Bsize, int64(st.Blocks) * st.Bsize, nil
}

// needSpace refuses work that cannot fit before it is begun.
func (s *Store) needSpace(what string, need int64) error {
	free, _, err := freeBytes(s.root)
	if err != nil || free >= need {
		// Not knowing is no reason to refuse: the write itself will tell.
		return nil
	}
	return s.full(what, need, free)
}

func (s *Store) full(what string, need, free int64) error {
	text := ""
	if need > 0 {
		text = "about " + people(need) + " are needed, "
	}
	return fault.Errorf(fault.Exhausted, "%s: the disk is full: %s%s are free in %s", what, text, people(free), s.root).
		WithHint("free some space, remove templates with \"assay template rm\", or give another data directory")
}

// diskFault turns "no space" and "quota" into fault.Exhausted; other errors
// pass. need may be 0.
func (s *Store) diskFault(err error, need int64) error {
	if err == nil || !(errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) {
		return err
	}
	free, _, serr := freeBytes(s.root)
	if serr != nil {
		free = 0
	}
	return s.full(err.Error(), need, free)
}

// kindOfFS is the kind of a filesystem's refusal.
func kindOfFS(err error) fault.Kind {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fault.Exhausted
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		return fault.Denied
	case errors.Is(err, fs.ErrNotExist):
		return fault.NotFound
	}
	return fault.Internal
}

// lowWater watches the free space while a tool runs that tells of a full disk
// only in words.
type lowWater struct {
	lowest atomic.Int64
	size   int64
	stop   context.CancelFunc
	done   sync.WaitGroup
	dir    string
}

const lowWaterPoll = 100 * time.Millisecond

func watchSpace(ctx context.Context, dir string) *lowWater {
	free, size, err := freeBytes(dir)
	if err != nil {
		free = 1 << 62
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &lowWater{size: size, stop: cancel, dir: dir}
	w.lowest.Store(free)
	w.done.Go(func() {
		tick := time.NewTicker(lowWaterPoll)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				w.look()
			}
		}
	})
	return w
}

func (w *lowWater) look() {
	if free, _, err := freeBytes(w.dir); err == nil && free < w.lowest.Load() {
		w.lowest.Store(free)
	}
}

// end stops the watch and says whether the disk was as good as full.
func (w *lowWater) end() bool {
	w.look()
	w.stop()
	w.done.Wait()
	return w.lowest.Load() < max(1<<20, w.size/200)
}

// people gives a number of bytes as people read it: "435 MiB".
func people(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n/(1<<10))
	case n < 10<<30:
		return fmt.Sprintf("%d MiB", n/(1<<20))
	}
	return fmt.Sprintf("%d GiB", n/(1<<30))
}
