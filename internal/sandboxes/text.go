package sandboxes

import (
	"context"
	"io"
	"time"
	"unicode/utf8"
)

// Text passes on what a program writes in pieces that end at the end of a
// character, as far as it is UTF-8. It serves one goroutine.
type Text struct {
	emit func([]byte) error
	rest []byte // the beginning of a character
}

// NewText gives a writer of pieces.
func NewText(emit func([]byte) error) *Text { return &Text{emit: emit} }

// Write passes on all but the beginning of a character at the end.
func (t *Text) Write(p []byte) (int, error) {
	all := append(t.rest, p...)
	end := len(all)
	for i := 1; i < utf8.UTFMax && i <= len(all); i++ {
		b := all[len(all)-i]
		if utf8.RuneStart(b) {
			if !utf8.FullRune(all[len(all)-i:]) {
				end = len(all) - i
			}
			break
		}
	}
	t.rest = append([]byte(nil), all[end:]...)
	if end == 0 {
		return len(p), nil
	}
	return len(p), t.emit(all[:end])
}

// Flush passes on what is left.
func (t *Text) Flush() error {
	if len(t.rest) == 0 {
		return nil
	}
	rest := t.rest
	t.rest = nil
	return t.emit(rest)
}

// WaitAnswer waits for a long call whose answer is JSON, and keeps the caller
// listening: JSON may begin with spaces, so it writes one every ten seconds
// and calls flush. begun says that it has: then what goes wrong cannot be told
// by a status any more.
func WaitAnswer[T any](ctx context.Context, w io.Writer, flush func(), call func(context.Context) (T, error)) (answer T, begun bool, err error) {
	type outcome struct {
		v   T
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan outcome, 1)
	go func() {
		v, err := call(ctx)
		done <- outcome{v, err}
	}()
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	for {
		select {
		case o := <-done:
			return o.v, begun, o.err
		case <-alive.C:
			begun = true
			if _, werr := io.WriteString(w, " "); werr != nil {
				cancel() // nobody listens; a call with a key goes on by itself
				o := <-done
				return o.v, begun, o.err
			}
			flush()
		}
	}
}

// aliveEvery is less than the half minute after which clients give up.
const aliveEvery = 10 * time.Second
