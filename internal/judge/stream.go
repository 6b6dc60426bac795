package judge

import (
	"context"
	"io"
	"strings"
	"sync"
)

// head keeps the first bytes written to it and counts the rest. It may be
// written to from two goroutines, as stdout and stderr of one command.
type head struct {
	mu      sync.Mutex
	max     int
	data    []byte
	dropped int64
}

func (h *head) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	keep := min(len(b), h.max-len(h.data))
	h.data = append(h.data, b[:keep]...)
	h.dropped += int64(len(b) - keep)
	return len(b), nil
}

// text gives what was kept as valid UTF-8, and whether something was dropped.
func (h *head) text() (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.ToValidUTF8(string(h.data), "\uFFFD"), h.dropped > 0
}

// cappedWriter passes at most max bytes on and swallows the rest: what comes
// from a machine is never trusted to keep its cap.
type cappedWriter struct {
	w    io.Writer
	left int64
	over bool
}

func (c *cappedWriter) Write(b []byte) (int, error) {
	n := len(b)
	if int64(n) > c.left {
		c.over = true
		b = b[:c.left]
	}
	c.left -= int64(len(b))
	if len(b) > 0 {
		if _, err := c.w.Write(b); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// checking is a checker at work on output that is still being written.
type checking struct {
	in   *io.PipeWriter
	done chan struct{}
	res  Check
	err  error
}

// startCheck lets the checker read what is written to in. The writer is never
// blocked by a checker that has made up its mind. finish must be called.
func startCheck(ctx context.Context, checker Checker, c Case) *checking {
	r, w := io.Pipe()
	k := &checking{in: w, done: make(chan struct{})}
	go func() {
		defer close(k.done)
		k.res, k.err = checker.Check(ctx, CheckRequest{Case: c, Output: r})
		// A pipe reads to its end or until finish closes the other side.
		_, _ = io.Copy(io.Discard, r)
	}()
	return k
}

// finish says that the output is complete and waits for the checker's word.
func (k *checking) finish() Check {
	// Close of a pipe's writing side gives no error.
	_ = k.in.Close()
	<-k.done
	if k.err != nil {
		return Check{Outcome: CheckFailed, Message: k.err.Error()}
	}
	return k.res
}
