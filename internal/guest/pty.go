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
	"strconv"
	"sync"
	"sync/atomic"

	"assay/internal/fault"
)

// The paths of the terminal requests. The stream of PathTerminal begins with
// a FrameSpec that holds a TerminalAttach; then the host sends FrameStdin, and
// guestd FrameTerminal (again after each gap), FrameStdout, and FrameResult or
// FrameFault last.
const (
	PathTerminal       = "/v1/terminal"
	PathTerminalResize = "/v1/terminal/resize"
	PathTerminalKill   = "/v1/terminal/kill"
)

// FrameTerminal carries a TerminalStarted.
const FrameTerminal FrameType = 12

// Scrollback is how much of a terminal's output is kept for readers that come
// later, in bytes.
const Scrollback = 256 << 10

// MaxTerminals is how many terminals a machine keeps, ended ones included; an
// ended one gives way to a new one.
const MaxTerminals = 64

// maxTerminalSide bounds rows and columns.
const maxTerminalSide = 4096

// TerminalSize is a terminal's size in characters; zero is 24 by 80.
type TerminalSize struct {
	Rows int `json:"rows"`
	Cols int `json:"cols"`
}

// Check refuses a size no terminal has.
func (s TerminalSize) Check() error {
	if s.Rows < 0 || s.Cols < 0 || s.Rows > maxTerminalSide || s.Cols > maxTerminalSide {
		return fault.Errorf(fault.Invalid, "terminal size %d by %d is not between 1 and %d", s.Rows, s.Cols, maxTerminalSide)
	}
	return nil
}

// TerminalSpec is one terminal and the command in it.
type TerminalSpec struct {
	// ID names the terminal in its machine; the same ID never starts a second
	// command. Empty: OpenTerminal makes one.
	ID string `json:"id"`
	// Argv is the command; empty is a login shell.
	Argv []string `json:"argv,omitempty"`
	// Dir, Env and User are as in ExecSpec; the default environment has a TERM
	// with colours.
	Dir  string       `json:"dir,omitempty"`
	Env  []string     `json:"env,omitempty"`
	User string       `json:"user,omitempty"`
	Size TerminalSize `json:"size"`
	// Limits bound the command as they do an exec; Output is ignored, what the
	// terminal keeps is bounded by Scrollback.
	Limits Limits `json:"limits"`
}

// Exec is the command of the terminal as an exec, without streams.
func (s TerminalSpec) Exec() ExecSpec {
	l := s.Limits
	l.Output = 0
	return ExecSpec{Key: s.ID, Argv: s.Argv, Dir: s.Dir, Env: s.Env, User: s.User, Limits: l}
}

// TerminalAttach is the first frame of a terminal's stream.
type TerminalAttach struct {
	Spec TerminalSpec `json:"spec"`
	// Only says that the terminal must exist already.
	Only bool `json:"only,omitempty"`
	// From is the offset of the output the reader wants next; what is no longer
	// kept is skipped.
	From int64 `json:"from"`
	// Writer names who sends the input, across sessions.
	Writer string `json:"writer"`
}

// TerminalStarted says where output and input go on.
type TerminalStarted struct {
	PID int `json:"pid"`
	// From is the offset of the next byte of output.
	From int64 `json:"from"`
	// Stdin is how much of this writer's input the terminal has taken.
	Stdin int64 `json:"stdin"`
}

// Terminal is one attachment to a terminal in the guest: a reader of its
// output and a writer of its input. A broken session is mended without loss as
// far as the scrollback reaches. All methods may be called at the same time.
type Terminal struct {
	c       *Client
	id      string
	out     *io.PipeReader
	in      *typed
	cancel  context.CancelCauseFunc
	skipped atomic.Int64

	done   chan struct{} // closed when result or err is set
	result Result
	err    error
}

// errDetached ends an attachment that its owner closed.
var errDetached = errors.New("terminal is detached")

// OpenTerminal starts a command in a new terminal and attaches to it, or
// attaches to the one with this ID. ctx bounds the opening only: the terminal
// lives until its command ends or the machine does, attached or not.
func (c *Client) OpenTerminal(ctx context.Context, spec TerminalSpec) (*Terminal, error) {
	if err := errors.Join(spec.Size.Check(), spec.Limits.Check()); err != nil {
		return nil, err
	}
	if spec.ID == "" {
		spec.ID = rand.Text()
	}
	return c.terminal(ctx, TerminalAttach{Spec: spec})
}

// AttachTerminal attaches to a running or ended terminal: reading begins with
// what is kept of its output. There may be several attachments; each sees all
// output, and the slowest loses some of it (Skipped) before it holds up the
// others. An unknown ID is fault.NotFound.
func (c *Client) AttachTerminal(ctx context.Context, id string) (*Terminal, error) {
	return c.terminal(ctx, TerminalAttach{Spec: TerminalSpec{ID: id}, Only: true})
}

func (c *Client) terminal(ctx context.Context, att TerminalAttach) (*Terminal, error) {
	att.Writer = rand.Text()
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	opening := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	outR, outW := io.Pipe()
	in := newTyped()
	t := &Terminal{c: c, id: att.Spec.ID, out: outR, in: in, cancel: cancel, done: make(chan struct{})}
	started := make(chan struct{})
	go func() {
		defer close(t.done)
		a := &attachment{t: t, att: att, out: outW, input: newInput(in), started: sync.OnceFunc(func() { close(started) })}
		t.result, t.err = a.run(life)
		cancel(errDetached)
		end := t.err
		if end == nil {
			end = io.EOF
		}
		_ = outW.CloseWithError(end)
		in.close(end)
	}()
	select {
	case <-started:
	case <-t.done:
	}
	if !opening() {
		_ = t.Close()
		return nil, context.Cause(ctx)
	}
	select {
	case <-started:
		return t, nil
	default:
		return nil, t.err
	}
}

// ID names the terminal for AttachTerminal.
func (t *Terminal) ID() string { return t.id }

// Read reads output; a slow reader slows the command down when it is the only
// one. At the command's end it gives io.EOF, and then Wait has the result.
func (t *Terminal) Read(p []byte) (int, error) { return t.out.Read(p) }

// Write types input. It waits only when much of what was typed before is not
// taken yet, not for the output to be read. After the command's end it fails.
func (t *Terminal) Write(p []byte) (int, error) { return t.in.Write(p) }

// Skipped is how many bytes of output this attachment missed because it was
// too slow or came back too late.
func (t *Terminal) Skipped() int64 { return t.skipped.Load() }

// Resize sets the terminal's size; both sides must be positive.
func (t *Terminal) Resize(ctx context.Context, size TerminalSize) error {
	if err := size.Check(); err != nil {
		return err
	}
	q := url.Values{"id": {t.id}, "rows": {strconv.Itoa(size.Rows)}, "cols": {strconv.Itoa(size.Cols)}}
	return t.c.call(ctx, http.MethodPost, PathTerminalResize, q, nil, nil)
}

// Kill ends the command and its tree; its Result says Killed.
func (t *Terminal) Kill(ctx context.Context) error {
	return t.c.call(ctx, http.MethodPost, PathTerminalKill, url.Values{"id": {t.id}}, nil, nil)
}

// Wait waits for the command's end and gives its result. The output must be
// read meanwhile: the end comes after it.
func (t *Terminal) Wait(ctx context.Context) (Result, error) {
	select {
	case <-t.done:
		return t.result, t.err
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
}

// Close detaches; the terminal and its command go on.
func (t *Terminal) Close() error {
	t.cancel(errDetached)
	_ = t.out.CloseWithError(errDetached)
	t.in.close(errDetached)
	<-t.done
	return nil
}

// typed is input on its way from Write to whichever session takes it.
type typed struct {
	mu      sync.Mutex
	changed sync.Cond
	buf     []byte
	err     error // set when closed
}

// maxTyped is how much input may wait, in bytes.
const maxTyped = 64 << 10

func newTyped() *typed {
	in := &typed{}
	in.changed.L = &in.mu
	return in
}

func (in *typed) Write(p []byte) (n int, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(p) > 0 {
		for len(in.buf) >= maxTyped && in.err == nil {
			in.changed.Wait()
		}
		if in.err != nil {
			return n, in.err
		}
		take := min(len(p), maxTyped-len(in.buf))
		in.buf = append(in.buf, p[:take]...)
		p = p[take:]
		n += take
		in.changed.Broadcast()
	}
	return n, nil
}

func (in *typed) Read(p []byte) (int, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.buf) == 0 && in.err == nil {
		in.changed.Wait()
	}
	if len(in.buf) == 0 {
		return 0, in.err
	}
	n := copy(p, in.buf)
	in.buf = in.buf[:copy(in.buf, in.buf[n:])]
	in.changed.Broadcast()
	return n, nil
}

func (in *typed) close(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.err == nil {
		in.err = err
	}
	in.changed.Broadcast()
}

// attachment is the part of a Terminal that runs.
type attachment struct {
	t       *Terminal
	att     TerminalAttach
	out     *io.PipeWriter
	input   *input
	started func()
}

// run attaches, again after each broken session, until the command's end.
func (a *attachment) run(ctx context.Context) (res Result, err error) {
	err = mend(ctx, func() (progress bool, err error) {
		before := a.att.From
		res, err = a.attach(ctx)
		return a.att.From != before, err
	})
	return res, err
}

// mend calls attach again as long as it ends with a broken session, but not
// for ever without progress.
func mend(ctx context.Context, attach func() (progress bool, err error)) error {
	for try := 0; ; try++ {
		progress, err := attach()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if progress {
			try = 0
		}
		if err == nil || !errors.Is(err, ErrSessionEnded) || try >= reattach {
			return err
		}
	}
}

func (a *attachment) attach(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first, err := json.Marshal(a.att)
	if err != nil {
		return Result{}, fault.Errorf(fault.Invalid, "encode terminal: %w", err)
	}
	c := a.t.c
	body := &execBody{ctx: ctx, pending: appendFrame(nil, FrameSpec, first), input: a.input, from: make(chan int64, 1), closed: make(chan struct{})}
	resp, err := c.roundTrip(ctx, http.MethodPost, PathTerminal, nil, body)
	if err != nil {
		return Result{}, err
	}
	defer func() {
		cancel() // first: closing waits for who reads the input
		_ = resp.Body.Close()
	}()
	if resp.StatusCode/100 != 2 {
		return Result{}, decodeReply(resp, nil)
	}
	frames := NewFrameReader(bufio.NewReaderSize(resp.Body, 64<<10))
	for {
		t, p, err := frames.Next()
		if err != nil {
			return Result{}, c.broken(ctx, http.MethodPost, PathTerminal, err)
		}
		switch t {
		case FrameTerminal:
			var st TerminalStarted
			if err := json.Unmarshal(p, &st); err != nil {
				return Result{}, fault.Errorf(fault.Internal, "decode terminal start: %w", err)
			}
			if a.att.Only && st.From > a.att.From && a.att.From > 0 {
				a.t.skipped.Add(st.From - a.att.From)
			}
			a.att.Only, a.att.From = true, st.From
			select {
			case body.from <- st.Stdin:
			default: // the first one counts
			}
			a.started()
		case FrameStdout:
			a.att.From += int64(len(p))
			if _, err := a.out.Write(p); err != nil {
				return Result{}, err
			}
		case FrameResult:
			var res Result
			if err := json.Unmarshal(p, &res); err != nil {
				return Result{}, fault.Errorf(fault.Internal, "decode terminal result: %w", err)
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
