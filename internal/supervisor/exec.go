package supervisor

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"

	"assay/internal/fault"
	"assay/internal/guest"
)

// first reads the frame that begins a stream.
func first(st *stream, v any) error {
	t, p, err := st.in.Next()
	if err != nil {
		return fault.Errorf(fault.Invalid, "read the first frame: %w", err)
	}
	if t != guest.FrameSpec {
		return fault.Errorf(fault.Invalid, "the first frame has type %d, not %d", t, guest.FrameSpec)
	}
	if err := json.Unmarshal(p, v); err != nil {
		return fault.Errorf(fault.Invalid, "decode the first frame: %w", err)
	}
	return nil
}

// exec runs one command. The client sends FrameSpec, FrameStdin and
// FrameEOF, and gets FrameStdout, FrameStderr and the end. A client that goes
// away takes the command with it.
func (s *server) exec(w http.ResponseWriter, r *http.Request) error {
	sb, err := s.find(r)
	if err != nil {
		return err
	}
	st := newStream(w, r)
	var spec guest.ExecSpec
	if err := first(st, &spec); err != nil {
		st.end(nil, err)
		return nil
	}
	if spec.Key == "" {
		st.end(nil, fault.Errorf(fault.Invalid, "exec has no key"))
		return nil
	}
	stdin, typed := io.Pipe()
	go func() { // ends when the request's body is closed, at the latest on return
		for {
			t, p, err := st.in.Next()
			switch {
			case err != nil:
				_ = typed.CloseWithError(io.ErrUnexpectedEOF)
				return
			case t == guest.FrameStdin:
				_, _ = typed.Write(p) // a command that does not read its input is no error
			case t == guest.FrameEOF:
				_ = typed.Close()
			}
		}
	}()
	res, err := sb.Exec(r.Context(), spec, guest.IO{
		Stdin: stdin, Stdout: frameWriter{guest.FrameStdout, st.send}, Stderr: frameWriter{guest.FrameStderr, st.send},
	})
	_ = stdin.Close()
	st.end(res, s.settle(sb, err))
	return nil
}

// kill ends a command. It is a request of its own: input that the command does
// not read cannot hold it up.
func (s *server) kill(w http.ResponseWriter, r *http.Request) error {
	sb, ctx, done, err := s.inside(r, "kill")
	if err != nil {
		return err
	}
	defer done()
	if err := sb.Guest().Kill(ctx, r.URL.Query().Get("key")); err != nil {
		return s.settle(sb, err)
	}
	return reply(w, struct{}{})
}

// terminal joins a client with a terminal: FrameSpec, FrameStdin and
// FrameResize come in; FrameStarted, FrameStdout and the end go out. The end of
// the request detaches.
func (s *server) terminal(w http.ResponseWriter, r *http.Request) error {
	sb, ctx, done, err := s.inside(r, "terminal")
	if err != nil {
		return err
	}
	defer done()
	st := newStream(w, r)
	var req TerminalRequest
	if err := first(st, &req); err != nil {
		st.end(nil, err)
		return nil
	}
	open := func() (*guest.Terminal, error) { return sb.OpenTerminal(ctx, req.Spec) }
	if req.Attach {
		open = func() (*guest.Terminal, error) { return sb.AttachTerminal(ctx, req.Spec.ID) }
	}
	term, err := open()
	if err != nil {
		st.end(nil, s.settle(sb, err))
		return nil
	}
	defer func() { _ = term.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = term.Close() })
	defer stop()
	if req.Attach && req.Spec.Size.Rows > 0 && req.Spec.Size.Cols > 0 {
		_ = term.Resize(ctx, req.Spec.Size) // an ended one has no size
	}
	if err := st.sendJSON(guest.FrameStarted, terminalStarted{ID: term.ID()}); err != nil {
		return nil //nolint:nilerr // the client is gone: nobody to tell
	}
	go func() { // ends with the request's body
		for {
			t, p, err := st.in.Next()
			if err != nil {
				return
			}
			sb.Touch()
			switch t {
			case guest.FrameStdin:
				_, _ = term.Write(p)
			case guest.FrameResize:
				var size guest.TerminalSize
				if json.Unmarshal(p, &size) == nil {
					_ = term.Resize(ctx, size)
				}
			}
		}
	}()
	out := frameWriter{guest.FrameStdout, func(t guest.FrameType, p []byte) error {
		sb.Touch()
		return st.send(t, p)
	}}
	if _, err := io.Copy(out, struct{ io.Reader }{term}); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		st.end(nil, s.settle(sb, err))
		return nil
	}
	res, err := term.Wait(ctx)
	st.end(res, s.settle(sb, err))
	return nil
}

// port joins a client with a port in the guest: FrameStdin and FrameEOF (half
// close) come in; FrameStarted, FrameStdout, FrameEOF and the end go out.
func (s *server) port(w http.ResponseWriter, r *http.Request) error {
	port, err := strconv.Atoi(r.URL.Query().Get("port"))
	if err != nil {
		return fault.Errorf(fault.Invalid, "port: %w", err)
	}
	sb, ctx, done, err := s.inside(r, "port")
	if err != nil {
		return err
	}
	defer done()
	conn, err := sb.Guest().DialPort(ctx, port)
	if err != nil {
		return s.settle(sb, err)
	}
	defer conn.Close()
	st := newStream(w, r)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	sent := make(chan error, 1)
	go func() { sent <- toPort(st, conn, sb.Touch) }()
	_, err = io.Copy(frameWriter{guest.FrameStdout, func(t guest.FrameType, p []byte) error {
		sb.Touch()
		return st.send(t, p)
	}}, struct{ io.Reader }{conn})
	if err == nil {
		if err = st.send(guest.FrameEOF, nil); err == nil {
			err = <-sent // the other direction may go on
		}
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	st.end(struct{}{}, s.settle(sb, err))
	return nil
}

// toPort carries the client's bytes to the guest until its half-close.
func toPort(st *stream, conn net.Conn, touch func()) error {
	for {
		t, p, err := st.in.Next()
		if err != nil {
			_ = conn.Close() // the client is gone, not half-closed
			return err
		}
		touch()
		switch t {
		case guest.FrameStdin:
			if _, err := conn.Write(p); err != nil {
				return err
			}
		case guest.FrameEOF:
			if half, ok := conn.(interface{ CloseWrite() error }); ok {
				return half.CloseWrite()
			}
			return nil
		}
	}
}

// watch sends the file events below a directory: FrameStarted, then
// FrameEvents, until the request or the sandbox ends.
func (s *server) watch(w http.ResponseWriter, r *http.Request) error {
	var spec guest.WatchSpec
	if err := decode(r, &spec); err != nil {
		return err
	}
	sb, ctx, done, err := s.inside(r, "watch")
	if err != nil {
		return err
	}
	defer done()
	watch, err := sb.Guest().Watch(ctx, spec)
	if err != nil {
		return s.settle(sb, err)
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWait)
		defer cancel()
		_ = watch.Close(end) // in a machine that has ended nothing is left
	}()
	st := newStream(w, r)
	err = st.sendJSON(guest.FrameStarted, struct{}{})
	for err == nil {
		var e guest.Event
		if e, err = watch.Next(ctx); err == nil {
			err = st.sendJSON(guest.FrameEvent, e)
		}
	}
	st.end(nil, s.settle(sb, err))
	return nil
}
