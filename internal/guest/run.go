package guest

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"assay/internal/fault"
)

// IO is where an exec's streams go. A nil Stdin is empty input; a nil Stdout
// or Stderr is thrown away. A slow writer slows the program down and nothing
// else.
type IO struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// killTimeout bounds the wait for guestd to confirm a kill.
const killTimeout = 5 * time.Second

// reattach is how often Run attaches again to a command whose session broke.
const reattach = 8

// Run runs one command and waits for its end. How the command ended is in the
// Result; an error means that it could not be run or its end is unknown. If
// the session breaks, Run attaches to the same command again: it never runs
// twice. When ctx ends, the command is killed and ctx's cause is returned.
func (c *Client) Run(ctx context.Context, spec ExecSpec, streams IO) (Result, error) {
	if err := spec.Check(); err != nil {
		return Result{}, err
	}
	if spec.Key == "" {
		spec.Key = rand.Text()
	}
	att := Attach{Spec: spec}
	streams = streams.orDiscard()
	for try := 0; ; try++ {
		res, err := c.attach(ctx, &att, streams)
		if err == nil || ctx.Err() != nil || !errors.Is(err, ErrSessionEnded) || try == reattach {
			if ctx.Err() != nil {
				c.abandon(ctx, spec.Key)
			}
			return res, err
		}
		// The request may have been lost before guestd saw it; then this starts
		// the command, else it attaches: the key decides.
		if streams.Stdin != nil && att.Only {
			c.abandon(ctx, spec.Key)
			return Result{}, fault.Errorf(fault.Unavailable, "exec %s: session broke while input was streamed: %w", spec.Key, err)
		}
	}
}

// abandon kills a command nobody waits for any more; the machine's deadline
// is behind it if this fails.
func (c *Client) abandon(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	_ = c.Kill(ctx, key)
}

// Kill ends a running command and its tree; its Result says Killed. Killing a
// command that has ended is fine; an unknown key is fault.NotFound.
func (c *Client) Kill(ctx context.Context, key string) error {
	return c.call(ctx, http.MethodPost, PathKill, url.Values{"key": {key}}, nil, nil)
}

func (s IO) orDiscard() IO {
	if s.Stdout == nil {
		s.Stdout = io.Discard
	}
	if s.Stderr == nil {
		s.Stderr = io.Discard
	}
	return s
}

// attach runs one stream of an exec and keeps in att what has been received.
func (c *Client) attach(ctx context.Context, att *Attach, streams IO) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first, err := json.Marshal(att)
	if err != nil {
		return Result{}, fault.Errorf(fault.Invalid, "encode exec: %w", err)
	}
	resp, err := c.roundTrip(ctx, http.MethodPost, PathExec, nil, newExecBody(first, streams.Stdin))
	if err != nil {
		return Result{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return Result{}, decodeReply(resp, nil)
	}
	frames := NewFrameReader(bufio.NewReaderSize(resp.Body, 64<<10))
	for {
		t, p, err := frames.Next()
		if err != nil {
			return Result{}, c.broken(ctx, http.MethodPost, PathExec, err)
		}
		switch t {
		case FrameStarted:
			att.Only = true
		case FrameStdout:
			att.StdoutFrom += int64(len(p))
			if _, err := streams.Stdout.Write(p); err != nil {
				return Result{}, errors.Join(err, c.Kill(context.WithoutCancel(ctx), att.Spec.Key))
			}
		case FrameStderr:
			att.StderrFrom += int64(len(p))
			if _, err := streams.Stderr.Write(p); err != nil {
				return Result{}, errors.Join(err, c.Kill(context.WithoutCancel(ctx), att.Spec.Key))
			}
		case FrameResult:
			var res Result
			if err := json.Unmarshal(p, &res); err != nil {
				return Result{}, fault.Errorf(fault.Internal, "decode exec result: %w", err)
			}
			return res, nil
		case FrameFault:
			var w WireFault
			if err := json.Unmarshal(p, &w); err != nil {
				return Result{}, fault.Errorf(fault.Internal, "decode guestd's fault: %w", err)
			}
			return Result{}, w.Fault()
		}
	}
}

// execBody is the request body of an exec: the first frame, stdin in frames,
// and the end of stdin. It reads stdin only as fast as the stream takes it.
type execBody struct {
	pending []byte
	stdin   io.Reader
	chunk   []byte
	ended   bool
}

func newExecBody(first []byte, stdin io.Reader) *execBody {
	b := &execBody{stdin: stdin}
	b.pending = appendFrame(nil, FrameSpec, first)
	if stdin == nil {
		b.pending = appendFrame(b.pending, FrameEOF, nil)
		b.ended = true
	}
	return b
}

func (b *execBody) Read(p []byte) (int, error) {
	for len(b.pending) == 0 {
		if b.ended {
			return 0, io.EOF
		}
		if b.chunk == nil {
			b.chunk = make([]byte, 64<<10)
		}
		n, err := b.stdin.Read(b.chunk)
		if n > 0 {
			b.pending = appendFrame(b.pending[:0], FrameStdin, b.chunk[:n])
		}
		if err != nil {
			// A reader that fails ends the program's input; what it has read so
			// far is what it gets.
			b.pending = appendFrame(b.pending, FrameEOF, nil)
			b.ended = true
		}
	}
	n := copy(p, b.pending)
	b.pending = b.pending[n:]
	return n, nil
}
