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
	"sync"
	"time"

	"assay/internal/fault"
)

// IO is where an exec's streams go. A nil Stdin is empty input; a nil Stdout
// or Stderr is thrown away. A slow writer slows the program down and nothing
// else.
type IO struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Started and Ended, if set, are called once each when guestd says that the
	// program has been started, and that it has ended: for who counts what the
	// machine uses in between. They must return at once. When the session breaks
	// in between they may be late, or Ended not be called.
	Started, Ended func()
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
	att := Attach{Spec: spec, Tell: streams.Stdin != nil || streams.Started != nil || streams.Ended != nil}
	streams = streams.orDiscard()
	input := newInput(streams.Stdin)
	att.NoInput = streams.Stdin == nil
	for try := 0; ; try++ {
		res, err := c.attach(ctx, &att, input, streams)
		if ctx.Err() != nil {
			c.abandon(ctx, spec.Key)
			return res, err
		}
		// The request may have been lost before guestd saw it; then the next one
		// starts the command, else it attaches: the key decides.
		if err == nil || !errors.Is(err, ErrSessionEnded) || try == reattach {
			return res, err
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
	s.Started, s.Ended = onceOrNothing(s.Started), onceOrNothing(s.Ended)
	return s
}

func onceOrNothing(f func()) func() {
	if f == nil {
		return func() {}
	}
	return sync.OnceFunc(f)
}

// attach runs one stream of an exec and keeps in att what has been received.
func (c *Client) attach(ctx context.Context, att *Attach, input *input, streams IO) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first, err := json.Marshal(att)
	if err != nil {
		return Result{}, fault.Errorf(fault.Invalid, "encode exec: %w", err)
	}
	body := &execBody{
		ctx: ctx, pending: appendFrame(nil, FrameSpec, first), ended: att.NoInput, input: input, from: make(chan int64, 1), closed: make(chan struct{}),
	}
	resp, err := c.roundTrip(ctx, http.MethodPost, PathExec, nil, body)
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
		case FrameEnded:
			streams.Ended()
		case FrameStarted:
			streams.Started()
			var st Started
			if err := json.Unmarshal(p, &st); err != nil {
				return Result{}, fault.Errorf(fault.Internal, "decode exec start: %w", err)
			}
			select {
			case body.from <- st.Stdin:
			default: // guestd sends one; a second would be its fault, not ours
			}
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

// input is a command's stdin across sessions: it remembers what may have been
// lost on the way. A goroutine of its own reads the caller's reader, which
// cannot be interrupted; so a session that ends need not wait for it.
type input struct {
	mu      sync.Mutex
	r       io.Reader
	chunk   []byte
	sent    []byte // the last bytes taken from r
	total   int64  // bytes taken from r
	ended   bool
	reading chan struct{} // closed when the Read under way is done; nil without one
}

// inputKept is more than a session can have under way to guestd, in bytes.
const inputKept = 1 << 20

func newInput(r io.Reader) *input {
	if r == nil {
		return &input{ended: true}
	}
	return &input{r: r}
}

// read gives bytes from an offset on: what was taken before, or new ones. It
// gives io.EOF at the end, and io.ErrClosedPipe when closed is. A reader that
// fails ends the program's input: what was read so far is what it gets.
func (in *input) read(p []byte, offset int64, closed <-chan struct{}) (int, error) {
	for {
		in.mu.Lock()
		if back := in.total - offset; back > 0 {
			defer in.mu.Unlock()
			if back > int64(len(in.sent)) {
				return 0, fault.Errorf(fault.Unavailable, "input at offset %d is no longer kept", offset)
			}
			return copy(p, in.sent[int64(len(in.sent))-back:]), nil
		}
		if in.ended {
			in.mu.Unlock()
			return 0, io.EOF
		}
		if in.reading == nil {
			in.reading = make(chan struct{})
			go in.fetch()
		}
		reading := in.reading
		in.mu.Unlock()
		select {
		case <-reading:
		case <-closed:
			return 0, io.ErrClosedPipe
		}
	}
}

// fetch takes the next bytes from r.
func (in *input) fetch() {
	if in.chunk == nil {
		in.chunk = make([]byte, 64<<10)
	}
	n, err := in.r.Read(in.chunk)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.total += int64(n)
	in.sent = append(in.sent, in.chunk[:n]...)
	if extra := len(in.sent) - inputKept; extra > inputKept/4 {
		in.sent = in.sent[:copy(in.sent, in.sent[extra:])]
	}
	in.ended = err != nil
	close(in.reading)
	in.reading = nil
}

// execBody is the request body of an exec: the first frame, then stdin in
// frames from where guestd says, and the end of stdin. It takes stdin only as
// fast as the stream does.
type execBody struct {
	ctx     context.Context // the exec's: ends the wait below
	pending []byte
	input   *input
	from    chan int64
	closed  chan struct{}
	close   sync.Once
	started bool
	offset  int64
	ended   bool
	chunk   []byte
}

func (b *execBody) Read(p []byte) (int, error) {
	for len(b.pending) == 0 {
		if b.ended {
			return 0, io.EOF
		}
		if !b.started {
			select {
			case b.offset = <-b.from:
				b.started = true
				b.chunk = make([]byte, 64<<10)
			case <-b.ctx.Done():
				return 0, context.Cause(b.ctx)
			case <-b.closed:
				return 0, io.ErrClosedPipe
			}
		}
		n, err := b.input.read(b.chunk, b.offset, b.closed)
		if errors.Is(err, io.EOF) {
			b.pending, b.ended = appendFrame(b.pending[:0], FrameEOF, nil), true
			break
		}
		if err != nil {
			return 0, err
		}
		b.offset += int64(n)
		b.pending = appendFrame(b.pending[:0], FrameStdin, b.chunk[:n])
	}
	n := copy(p, b.pending)
	b.pending = b.pending[n:]
	if b.ended && len(b.pending) == 0 {
		return n, io.EOF // with the last bytes: one frame less
	}
	return n, nil
}

// Close ends the wait for guestd's answer and for input: when the session
// breaks, HTTP/2 gives up the request only once its body has been read or closed.
func (b *execBody) Close() error {
	b.close.Do(func() { close(b.closed) })
	return nil
}
