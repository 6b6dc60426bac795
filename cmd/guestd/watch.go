package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
)

// watchMask is what the kernel is asked to tell about a directory.
const watchMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK

// maxPending bounds the paths that change within one window.
const maxPending = 4096

// fileWatch is one recursive watch, from start until it is closed.
type fileWatch struct {
	spec guest.WatchSpec
	root int      // the watched directory, O_PATH
	ino  *os.File // inotify, does not block

	// Of the goroutine in run alone:
	dirs    map[int32]string // watched directories, by the kernel's number
	numbers map[string]int32
	pending map[string]*change
	order   []string // of pending
	lost    string   // why changes of this window were lost
	partial bool     // said that not all directories are watched

	// mu guards what follows.
	mu       sync.Mutex
	changed  sync.Cond
	kept     []guest.Event // the last events
	next     int64         // number of the next event
	closed   bool
	readers  int
	detached time.Time // when the last reader left
}

// change is what has happened to a path in this window.
type change struct {
	created bool
	count   int
}

// startWatch opens the directory and watches it.
func startWatch(spec guest.WatchSpec) (*fileWatch, error) {
	if spec.ID == "" {
		return nil, fault.Errorf(fault.Invalid, "watch has no ID")
	}
	if err := spec.Check(); err != nil {
		return nil, err
	}
	dir, err := cleanPath(spec.Dir)
	if err != nil {
		return nil, err
	}
	w := &fileWatch{
		spec: spec, next: 1, detached: time.Now(),
		dirs: map[int32]string{}, numbers: map[string]int32{}, pending: map[string]*change{},
	}
	w.changed.L = &w.mu
	if w.root, err = openDir(dir, nil); err != nil {
		return nil, fileFault("watch", spec.Dir, err)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		_ = unix.Close(w.root)
		return nil, fault.Errorf(fault.Exhausted, "watch %s: %w", spec.Dir, err)
	}
	w.ino = os.NewFile(uintptr(fd), "inotify")
	if err := w.add(".", false); err != nil {
		_ = unix.Close(w.root)
		_ = w.ino.Close()
		return nil, fileFault("watch", spec.Dir, err)
	}
	go w.run()
	return w, nil
}

// add watches a directory and all below it. With report, what is found in it
// counts as created: it may have come before the kernel watched.
func (w *fileWatch) add(rel string, report bool) error {
	fd, err := w.open(rel)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), rel)
	defer dir.Close()
	if len(w.dirs) >= guest.MaxWatchedDirs {
		if !w.partial {
			w.partial = true
			w.lose(fmt.Sprintf("more than %d directories: those from %s on are not watched", guest.MaxWatchedDirs, rel))
		}
		return nil
	}
	// By the descriptor: the name may lead somewhere else by now.
	number, err := 0, error(nil)
	cerr := w.inotify(func(ino int) {
		number, err = unix.InotifyAddWatch(ino, fmt.Sprintf("/proc/self/fd/%d", fd), watchMask)
	})
	if err = errors.Join(cerr, err); err != nil {
		return err
	}
	if old, ok := w.dirs[int32(number)]; ok {
		delete(w.numbers, old)
	}
	w.dirs[int32(number)], w.numbers[rel] = rel, int32(number)
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			w.found(fd, path.Join(rel, name), name, report)
		}
		if len(names) == 0 {
			_ = err // the end, or a directory that is gone
			return nil
		}
	}
}

// inotify runs f on the descriptor; File.Fd would make reading block.
func (w *fileWatch) inotify(f func(ino int)) error {
	conn, err := w.ino.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Control(func(fd uintptr) { f(int(fd)) })
}

// found takes note of one entry of a directory that is being added.
func (w *fileWatch) found(dir int, rel, name string, report bool) {
	if w.spec.Excludes(rel) {
		return
	}
	if report {
		w.note(rel, true)
	}
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return
	}
	w.enter(rel, report)
}

// enter adds a directory below the root; one that is gone already is none.
func (w *fileWatch) enter(rel string, report bool) {
	if w.spec.Prunes(rel) {
		return
	}
	err := w.add(rel, report)
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
		w.lose(fmt.Sprintf("%s cannot be watched: %v", rel, err))
	}
}

// open opens a directory below the root, through no link.
func (w *fileWatch) open(rel string) (int, error) {
	fd, err := unix.Openat(w.root, ".", dirFlags, 0)
	for _, part := range parts(rel) {
		if err != nil {
			return -1, err
		}
		if part == "." {
			continue
		}
		var next int
		next, err = unix.Openat(fd, part, dirFlags, 0)
		_ = unix.Close(fd)
		fd = next
	}
	return fd, err
}

// note counts a change of a path.
func (w *fileWatch) note(rel string, created bool) {
	c := w.pending[rel]
	if c == nil {
		if len(w.pending) >= maxPending {
			w.lose(fmt.Sprintf("more than %d paths changed within %s", maxPending, guest.WatchWindow))
			return
		}
		c = &change{}
		w.pending[rel] = c
		w.order = append(w.order, rel)
	}
	c.count++
	c.created = c.created || created
}

func (w *fileWatch) lose(reason string) {
	if w.lost == "" {
		w.lost = reason
	}
}

// run reads the kernel's events and gathers those of one window.
func (w *fileWatch) run() {
	defer w.end()
	buf := make([]byte, 64<<10)
	var flush time.Time // zero: nothing is pending
	for {
		_ = w.ino.SetReadDeadline(flush)
		n, err := w.ino.Read(buf)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return // closed
		}
		w.parse(buf[:max(n, 0)])
		now := time.Now()
		switch idle := len(w.pending) == 0 && w.lost == ""; {
		case idle:
			flush = time.Time{}
		case flush.IsZero():
			flush = now.Add(guest.WatchWindow)
		case !now.Before(flush):
			w.flush(now)
			flush = time.Time{}
		}
	}
}

func (w *fileWatch) end() {
	_ = unix.Close(w.root)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.changed.Broadcast()
}

// parse takes a buffer of the kernel's events.
func (w *fileWatch) parse(b []byte) {
	for len(b) >= unix.SizeofInotifyEvent {
		number := int32(binary.NativeEndian.Uint32(b))
		mask := binary.NativeEndian.Uint32(b[4:])
		size := int(binary.NativeEndian.Uint32(b[12:]))
		if size > len(b)-unix.SizeofInotifyEvent {
			return
		}
		name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:][:size], []byte{0})
		b = b[unix.SizeofInotifyEvent+size:]
		w.event(number, mask, string(name))
	}
}

// tempPrefix begins the names under which guestd writes new files.
const tempPrefix = ".assay-"

func (w *fileWatch) event(number int32, mask uint32, name string) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		w.lose("the kernel's queue was full")
		return
	}
	dir, ok := w.dirs[number]
	if !ok {
		return
	}
	if mask&unix.IN_IGNORED != 0 {
		w.drop(number)
		return
	}
	if name == "" { // of the directory itself: its parent tells too
		if dir == "." && mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_ATTRIB) != 0 {
			w.note(".", false)
		}
		return
	}
	rel := path.Join(dir, name)
	if strings.HasPrefix(name, tempPrefix) || w.spec.Excludes(rel) {
		return
	}
	w.note(rel, mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0)
	if mask&unix.IN_ISDIR == 0 {
		return
	}
	switch {
	case mask&unix.IN_MOVED_FROM != 0:
		w.leave(rel)
	case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		w.enter(rel, true)
	}
}

// leave stops watching a directory that was moved away, and all below it:
// their paths are others now.
func (w *fileWatch) leave(rel string) {
	for p, number := range w.numbers {
		if p == rel || strings.HasPrefix(p, rel+"/") {
			_ = w.inotify(func(ino int) { _, _ = unix.InotifyRmWatch(ino, uint32(number)) }) // gone is as good
			w.drop(number)
		}
	}
}

func (w *fileWatch) drop(number int32) {
	if rel, ok := w.dirs[number]; ok {
		delete(w.dirs, number)
		if w.numbers[rel] == number {
			delete(w.numbers, rel)
		}
	}
}

// flush makes events of the window's changes.
func (w *fileWatch) flush(now time.Time) {
	events := make([]guest.Event, 0, len(w.order)+1)
	for _, rel := range w.order {
		c := w.pending[rel]
		e := guest.Event{Op: guest.EventModified, Path: rel, Count: c.count, Time: now.UTC()}
		if c.created {
			e.Op = guest.EventCreated
		}
		kind, err := w.typeOf(rel)
		if err != nil {
			e.Op = guest.EventRemoved
		}
		e.Type = kind
		events = append(events, e)
	}
	if w.lost != "" {
		events = append(events, guest.Event{Op: guest.EventOverflow, Path: ".", Time: now.UTC(), Reason: w.lost})
	}
	clear(w.pending)
	w.order, w.lost = nil, ""

	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range events {
		e.Seq = w.next
		w.next++
		w.kept = append(w.kept, e)
	}
	if extra := len(w.kept) - guest.WatchKept; extra > 0 {
		w.kept = append([]guest.Event(nil), w.kept[extra:]...)
	}
	w.changed.Broadcast()
}

// typeOf says what is at a path now.
func (w *fileWatch) typeOf(rel string) (guest.FileType, error) {
	fd, err := w.open(path.Dir(rel))
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstatat(fd, path.Base(rel), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return "", err
	}
	return infoOf("", &st).Type, nil
}

// after waits for the event behind a number. When it is no longer kept, an
// overflow with the number before the first kept one takes its place.
func (w *fileWatch) after(ctx context.Context, seq int64) (guest.Event, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ctx.Err() == nil && !w.closed {
		first := w.next - int64(len(w.kept))
		switch {
		case seq >= w.next: // a number of another life
			seq = w.next - 1
		case seq+1 < first:
			return guest.Event{
				Seq: first - 1, Op: guest.EventOverflow, Path: ".", Time: time.Now().UTC(),
				Reason: fmt.Sprintf("the reader was more than %d events behind", guest.WatchKept),
			}, true
		case seq+1 < w.next:
			return w.kept[seq+1-first], true
		}
		w.changed.Wait()
	}
	return guest.Event{}, false
}
