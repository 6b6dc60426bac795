package supervisor

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

// killWait bounds how long a killed command may take to end.
const killWait = 10 * time.Second

// Exec runs one command in a sandbox and waits for its end; streams and result
// are as with sandbox.Exec. When ctx ends the command is killed, its end is
// waited for, and ctx's cause is the error. A Read of streams.Stdin that is
// under way when the command ends is left behind.
func (c *Client) Exec(ctx context.Context, id string, spec sandbox.ExecSpec, streams guest.IO) (sandbox.Result, error) {
	var res sandbox.Result
	if err := spec.Check(); err != nil {
		return res, err
	}
	if spec.Key == "" {
		spec.Key = rand.Text()
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var killing sync.WaitGroup
	killing.Add(1)
	stop := context.AfterFunc(ctx, func() {
		defer killing.Done()
		late := time.AfterFunc(killWait, cancel)
		defer late.Stop()
		if err := c.call(life, http.MethodPost, of(id, "kill"), url.Values{"key": {spec.Key}}, nil, new(struct{})); err != nil {
			cancel() // the command may not have begun: the end of the request ends it too
		}
	})
	body, up := io.Pipe()
	defer func() { _ = body.Close() }()
	go send(up, spec, streams.Stdin)
	resp, err := c.do(life, http.MethodPost, of(id, "exec"), nil, body)
	if err == nil {
		defer resp.Body.Close()
		err = frames(life, resp.Body, &res, func(t guest.FrameType, p []byte) error {
			w := streams.Stdout
			if t == guest.FrameStderr {
				w = streams.Stderr
			}
			if w == nil {
				return nil
			}
			_, err := w.Write(p)
			return err
		})
	}
	if !stop() { // ctx ended
		killing.Wait()
		return res, context.Cause(ctx)
	}
	return res, err
}

// send writes the frames of an exec's request.
func send(up *io.PipeWriter, spec any, stdin io.Reader) {
	err := guest.WriteJSON(up, guest.FrameSpec, spec)
	if err == nil && stdin != nil {
		_, err = io.Copy(frameWriter{guest.FrameStdin, func(t guest.FrameType, p []byte) error {
			return guest.WriteFrame(up, t, p)
		}}, struct{ io.Reader }{stdin})
	}
	if err == nil {
		err = guest.WriteFrame(up, guest.FrameEOF, nil)
	}
	_ = up.CloseWithError(err) // nil is the clean end of the request's body
}

// terminalStarted is the first frame of a terminal's answer.
type terminalStarted struct {
	ID string `json:"id"`
}

// Terminal is an attachment to a terminal in a sandbox: a reader of its output
// and a writer of its input. All methods may be called at the same time.
type Terminal struct {
	id     string
	cancel context.CancelFunc
	out    *io.PipeReader
	done   chan struct{} // closed when result and err are set
	result sandbox.Result
	err    error

	mu sync.Mutex // one frame at a time
	up *io.PipeWriter
}

// Terminal opens a terminal or attaches to one. It lives on when its reader
// goes, until its command ends or the sandbox does.
func (c *Client) Terminal(ctx context.Context, id string, req TerminalRequest) (*Terminal, error) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	body, up := io.Pipe()
	t := &Terminal{cancel: cancel, up: up, done: make(chan struct{})}
	go func() { // a pipe has no buffer
		if err := guest.WriteJSON(up, guest.FrameSpec, req); err != nil {
			_ = up.CloseWithError(err)
		}
	}()
	resp, err := c.do(life, http.MethodPost, of(id, "terminal"), nil, body) //nolint:bodyclose // closed by the goroutine below
	if err != nil {
		cancel()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	var in *io.PipeWriter
	t.out, in = io.Pipe()
	started := make(chan struct{})
	go func() {
		defer close(t.done)
		defer cancel()
		defer resp.Body.Close()
		t.err = frames(life, resp.Body, &t.result, func(ft guest.FrameType, p []byte) error {
			if ft == guest.FrameStarted {
				var s terminalStarted
				if err := json.Unmarshal(p, &s); err != nil {
					return fault.Errorf(fault.Internal, "decode terminal start: %w", err)
				}
				t.id = s.ID
				close(started)
				return nil
			}
			_, err := in.Write(p)
			return err
		})
		_ = in.CloseWithError(t.err) // nil is the end of the output
		_ = body.Close()
	}()
	select {
	case <-started:
	case <-t.done:
		if t.err == nil {
			t.err = fault.Errorf(fault.Internal, "the supervisor ended a terminal before its start")
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, t.err
	}
	if !stop() {
		t.Detach()
		return nil, context.Cause(ctx)
	}
	return t, nil
}

// ID names the terminal in its sandbox.
func (t *Terminal) ID() string { return t.id }

// Read reads output. It gives io.EOF when the command has ended.
func (t *Terminal) Read(p []byte) (int, error) { return t.out.Read(p) }

// Write types input.
func (t *Terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return frameWriter{guest.FrameStdin, func(ft guest.FrameType, p []byte) error { return guest.WriteFrame(t.up, ft, p) }}.Write(p)
}

// Resize sets the terminal's size.
func (t *Terminal) Resize(size guest.TerminalSize) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return guest.WriteJSON(t.up, guest.FrameResize, size)
}

// Detach leaves the terminal running. Reading and Wait then fail.
func (t *Terminal) Detach() {
	t.cancel()
	_ = t.out.Close()
	<-t.done
}

// Wait waits for the command's end, all output read, and gives its result.
func (t *Terminal) Wait() (sandbox.Result, error) {
	<-t.done
	return t.result, t.err
}

// Forward joins conn with a port on the sandbox's loopback until both
// directions have ended, and closes conn.
func (c *Client) Forward(ctx context.Context, id string, port int, conn net.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	body, up := io.Pipe()
	defer func() { _ = body.Close() }()
	resp, err := c.do(ctx, http.MethodPost, of(id, "port"), url.Values{"port": {strconv.Itoa(port)}}, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var sending sync.WaitGroup
	sending.Go(func() {
		_, err := io.Copy(frameWriter{guest.FrameStdin, func(t guest.FrameType, p []byte) error {
			return guest.WriteFrame(up, t, p)
		}}, struct{ io.Reader }{conn})
		if err == nil {
			err = guest.WriteFrame(up, guest.FrameEOF, nil)
		}
		_ = up.CloseWithError(err)
	})
	err = frames(ctx, resp.Body, nil, func(t guest.FrameType, p []byte) error {
		switch t {
		case guest.FrameStdout:
			_, err := conn.Write(p)
			return err
		case guest.FrameEOF:
			if half, ok := conn.(interface{ CloseWrite() error }); ok {
				return half.CloseWrite()
			}
		}
		return nil
	})
	_ = conn.Close()
	_ = body.Close()
	sending.Wait()
	return err
}

// Watch calls on for each file event below a directory until ctx or the
// sandbox ends or on fails.
func (c *Client) Watch(ctx context.Context, id string, spec guest.WatchSpec, ready func(), on func(guest.Event) error) error {
	if err := spec.Check(); err != nil {
		return err
	}
	b, err := json.Marshal(spec)
	if err != nil {
		return fault.Errorf(fault.Invalid, "encode watch: %w", err)
	}
	resp, err := c.do(ctx, http.MethodPost, of(id, "watch"), nil, bytes.NewReader(b))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return frames(ctx, resp.Body, nil, func(t guest.FrameType, p []byte) error {
		if t == guest.FrameStarted {
			ready()
			return nil
		}
		var e guest.Event
		if err := json.Unmarshal(p, &e); err != nil {
			return fault.Errorf(fault.Internal, "decode file event: %w", err)
		}
		return on(e)
	})
}

// The rules of files are those of guest.Client.

// Stat says what is at a path in a sandbox, links not followed.
func (c *Client) Stat(ctx context.Context, id, path string) (info guest.FileInfo, err error) {
	return info, c.call(ctx, http.MethodGet, of(id, "stat"), url.Values{"path": {path}}, nil, &info)
}

// ReadFile streams a regular file. The caller closes it.
func (c *Client) ReadFile(ctx context.Context, id, path string) (io.ReadCloser, error) {
	return c.download(ctx, of(id, "file"), path)
}

// ReadTree streams a directory as tar. The caller closes it.
func (c *Client) ReadTree(ctx context.Context, id, path string) (io.ReadCloser, error) {
	return c.download(ctx, of(id, "tree"), path)
}

// WriteFile writes all of r to a file, or nothing. It closes r if it can be
// closed, as WriteTree does.
func (c *Client) WriteFile(ctx context.Context, id, path string, r io.Reader, opt guest.WriteOptions) (info guest.FileInfo, err error) {
	q := url.Values{"path": {path}, "owner": {opt.Owner}, "mode": {strconv.FormatUint(uint64(opt.Mode.Perm()), 8)}}
	return info, c.upload(ctx, of(id, "file"), q, r, &info)
}

// WriteTree unpacks a tar archive into a directory.
func (c *Client) WriteTree(ctx context.Context, id, path string, tar io.Reader, owner string) (info guest.TreeInfo, err error) {
	return info, c.upload(ctx, of(id, "tree"), url.Values{"path": {path}, "owner": {owner}}, tar, &info)
}

func (c *Client) upload(ctx context.Context, path string, q url.Values, r io.Reader, out any) error {
	resp, err := c.do(ctx, http.MethodPut, path, q, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return decodeAnswer(ctx, resp.Body, out)
}

func (c *Client) download(ctx context.Context, path, file string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	resp, err := c.do(ctx, http.MethodGet, path, url.Values{"path": {file}}, nil) //nolint:bodyclose // closed by the goroutine below
	if err != nil {
		cancel()
		return nil, err
	}
	out, in := io.Pipe()
	go func() {
		defer cancel()
		defer resp.Body.Close()
		err := frames(ctx, resp.Body, nil, func(_ guest.FrameType, p []byte) error {
			_, err := in.Write(p)
			return err
		})
		if errors.Is(err, io.ErrClosedPipe) {
			err = nil // the reader has enough
		}
		_ = in.CloseWithError(err) // nil is io.EOF: all has come
	}()
	return &download{out, cancel}, nil
}

type download struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close ends the stream wherever it is.
func (d *download) Close() error {
	d.cancel()
	return d.PipeReader.Close()
}
