package guest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"assay/internal/fault"
)

// The paths of the watch requests. The answer to PathWatch is a FrameStarted
// and then a FrameEvent each, until the watch or the session ends.
const (
	PathWatch      = "/v1/watch"
	PathWatchClose = "/v1/watch/close"
)

// Bounds of watches.
const (
	// MaxWatches is how many a machine keeps; the one that has been without a
	// reader for longest gives way to a new one.
	MaxWatches = 64
	// MaxWatchedDirs is how many directories one watch follows. Beyond it an
	// overflow event says that the rest is not seen.
	MaxWatchedDirs = 8192
	// WatchKept is how many events are kept for a reader that is behind.
	WatchKept = 4096
	// WatchWindow is how long changes of one path are gathered into one event.
	WatchWindow = 50 * time.Millisecond
)

// maxExcludes bounds the patterns of one watch.
const maxExcludes = 256

// WatchSpec says what to watch.
type WatchSpec struct {
	// ID names the watch in its machine. Empty: Watch makes one.
	ID string `json:"id"`
	// Dir is the directory that is watched, with all below it; links in it are
	// not followed.
	Dir string `json:"dir"`
	// Exclude are patterns on the path relative to Dir, as in path.Match, and
	// "**" for any number of parts. What matches is not reported, and nothing
	// below it; "node_modules/**" reports the directory itself and nothing in
	// it.
	Exclude []string `json:"exclude,omitempty"`
}

// Check refuses patterns that mean nothing.
func (s WatchSpec) Check() error {
	if len(s.Exclude) > maxExcludes {
		return fault.Errorf(fault.Invalid, "watch has more than %d exclude patterns", maxExcludes)
	}
	for _, p := range s.Exclude {
		if _, err := path.Match(p, ""); err != nil || p == "" || path.IsAbs(p) {
			return fault.Errorf(fault.Invalid, "exclude pattern %.80q is malformed or not relative", p)
		}
	}
	return nil
}

// Excludes reports whether a path relative to Dir is not reported.
func (s WatchSpec) Excludes(rel string) bool {
	for _, p := range s.Exclude {
		pattern := strings.Split(p, "/")
		parts := strings.Split(rel, "/")
		for n := 1; n <= len(parts); n++ { // the path, or a directory it is in
			if matchParts(pattern, parts[:n]) {
				return true
			}
		}
	}
	return false
}

// Prunes reports whether nothing below a directory is reported.
func (s WatchSpec) Prunes(rel string) bool {
	if s.Excludes(rel) {
		return true
	}
	for _, p := range s.Exclude {
		if inner, ok := strings.CutSuffix(p, "/**"); ok && matchParts(strings.Split(inner, "/"), strings.Split(rel, "/")) {
			return true
		}
	}
	return false
}

// matchParts matches a whole path; a last "**" stands for at least one part,
// any other for none or more.
func matchParts(pattern, parts []string) bool {
	for len(pattern) > 0 {
		if pattern[0] == "**" {
			if len(pattern) == 1 {
				return len(parts) > 0
			}
			for skip := range len(parts) + 1 {
				if matchParts(pattern[1:], parts[skip:]) {
					return true
				}
			}
			return false
		}
		if len(parts) == 0 {
			return false
		}
		if ok, err := path.Match(pattern[0], parts[0]); err != nil || !ok {
			return false
		}
		pattern, parts = pattern[1:], parts[1:]
	}
	return len(parts) == 0
}

// EventOp says what happened to a path.
type EventOp string

// What can happen. A path that was renamed is removed, and created under its
// new name.
const (
	EventCreated  EventOp = "created"
	EventModified EventOp = "modified" // content, mode or owner
	EventRemoved  EventOp = "removed"
	// EventOverflow says that events were lost: look at the files anew.
	EventOverflow EventOp = "overflow"
)

// Event is what happened to one path within a WatchWindow. When several things
// did, Op is their sum: what was created and modified is created; what is not
// there at the window's end is removed.
type Event struct {
	// Seq numbers the events of a watch without a gap, from 1.
	Seq int64   `json:"seq"`
	Op  EventOp `json:"op"`
	// Path is relative to the watched directory; "." is that directory, and
	// what an overflow is about.
	Path string   `json:"path"`
	Type FileType `json:"type,omitempty"`
	// Count is how many changes are in it; an overflow may not know (0).
	Count int       `json:"count"`
	Time  time.Time `json:"time"`
	// Reason says why events were lost, in an overflow.
	Reason string `json:"reason,omitempty"`
}

// WatchAttach is the body of a watch's request.
type WatchAttach struct {
	Spec WatchSpec `json:"spec"`
	// Only says that the watch must exist already.
	Only bool `json:"only,omitempty"`
	// After is the number of the last event the reader has.
	After int64 `json:"after"`
}

// Watch is a reader of a file watch in the guest. A broken session is mended:
// no event is lost that guestd still keeps, and when some are, an overflow
// event says so. Methods may be called at the same time.
type Watch struct {
	c      *Client
	id     string
	events chan Event
	cancel context.CancelCauseFunc
	done   chan struct{}
	err    error // set before done is closed

	mu   sync.Mutex
	last int64 // number of the event that Next gave last
}

var errWatchClosed = errors.New("watch is closed")

// Watch watches a directory tree, from before it returns on. ctx bounds the
// opening only.
func (c *Client) Watch(ctx context.Context, spec WatchSpec) (*Watch, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	if spec.ID == "" {
		spec.ID = rand.Text()
	}
	return c.watch(ctx, WatchAttach{Spec: spec})
}

// AttachWatch goes on with a watch behind the event number after, also in a
// machine that was restored or forked. An unknown ID is fault.NotFound.
func (c *Client) AttachWatch(ctx context.Context, id string, after int64) (*Watch, error) {
	return c.watch(ctx, WatchAttach{Spec: WatchSpec{ID: id}, Only: true, After: after})
}

func (c *Client) watch(ctx context.Context, att WatchAttach) (*Watch, error) {
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	opening := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	w := &Watch{c: c, id: att.Spec.ID, events: make(chan Event), cancel: cancel, done: make(chan struct{}), last: att.After}
	started := make(chan struct{})
	tell := sync.OnceFunc(func() { close(started) })
	go func() {
		defer close(w.done)
		w.err = mend(life, func() (bool, error) {
			before := att.After
			err := w.attach(life, &att, tell)
			return att.After != before, err
		})
		cancel(errWatchClosed)
	}()
	select {
	case <-started:
	case <-w.done:
	}
	if !opening() {
		w.Detach()
		return nil, context.Cause(ctx)
	}
	select {
	case <-started:
		return w, nil
	default:
		return nil, w.err
	}
}

// ID names the watch for AttachWatch.
func (w *Watch) ID() string { return w.id }

// Last is the number of the event that Next gave last.
func (w *Watch) Last() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// Next waits for the next event.
func (w *Watch) Next(ctx context.Context) (Event, error) {
	select {
	case e := <-w.events:
		w.mu.Lock()
		w.last = e.Seq
		w.mu.Unlock()
		return e, nil
	case <-w.done:
		return Event{}, w.err
	case <-ctx.Done():
		return Event{}, context.Cause(ctx)
	}
}

// Detach stops reading; the watch goes on in the guest for AttachWatch.
func (w *Watch) Detach() {
	w.cancel(errWatchClosed)
	<-w.done
}

// Close ends the watch in the guest too.
func (w *Watch) Close(ctx context.Context) error {
	w.Detach()
	err := w.c.call(ctx, http.MethodPost, PathWatchClose, url.Values{"id": {w.id}}, nil, nil)
	if fault.Is(err, fault.NotFound) {
		return nil // it gave way to another, or was closed by another reader
	}
	return err
}

func (w *Watch) attach(ctx context.Context, att *WatchAttach, started func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b, err := json.Marshal(att)
	if err != nil {
		return fault.Errorf(fault.Invalid, "encode watch: %w", err)
	}
	resp, err := w.c.roundTrip(ctx, http.MethodPost, PathWatch, nil, bytes.NewReader(b))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return decodeReply(resp, nil)
	}
	frames := NewFrameReader(bufio.NewReaderSize(resp.Body, 16<<10))
	for {
		t, p, err := frames.Next()
		if err != nil {
			return w.c.broken(ctx, http.MethodPost, PathWatch, err)
		}
		switch t {
		case FrameStarted:
			att.Only = true
			started()
		case FrameEvent:
			var e Event
			if err := json.Unmarshal(p, &e); err != nil {
				return fault.Errorf(fault.Internal, "decode watch event: %w", err)
			}
			select {
			case w.events <- e:
				att.After = e.Seq
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		case FrameFault:
			var f WireFault
			if err := json.Unmarshal(p, &f); err != nil {
				return fault.Errorf(fault.Internal, "decode guestd's fault: %w", err)
			}
			return f.Fault()
		}
	}
}
