package sandboxes

import (
	"context"
	"errors"
	"io"
	"net"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/guest"
)

// Terminal is an attachment to a terminal in a sandbox: see guest.Terminal.
// Each read and write counts as a use for the idle limit. Close it.
type Terminal struct {
	t  *guest.Terminal
	in *session
	// stop takes back that the end of ctx closes it.
	stop func() bool
}

// Terminal starts a command in a new terminal, or attaches to the one that has
// the spec's ID; only says that it must be there already. It is closed when
// ctx or the sandbox ends; the terminal itself goes on until its command ends.
func (s *Service) Terminal(ctx context.Context, id string, spec guest.TerminalSpec, only bool) (*Terminal, error) {
	in, err := s.inside(ctx, account.Use, "terminal", id)
	if err != nil {
		return nil, err
	}
	var t *guest.Terminal
	if only {
		t, err = in.sb.AttachTerminal(in.ctx, spec.ID)
	} else {
		t, err = in.sb.OpenTerminal(in.ctx, spec)
	}
	if err != nil {
		err = in.settle(err)
		in.done()
		return nil, err
	}
	// It is asked for as what only reads is, and lets somebody do anything.
	account.NoteOf(ctx).On(account.SandboxThing, id, "terminal")
	return &Terminal{t: t, in: in, stop: context.AfterFunc(in.ctx, func() { _ = t.Close() })}, nil
}

// ID names the terminal for a later attachment.
func (t *Terminal) ID() string { return t.t.ID() }

// Read reads output; io.EOF comes at the command's end.
func (t *Terminal) Read(p []byte) (int, error) {
	n, err := t.t.Read(p)
	t.in.sb.Touch()
	if err != nil && !errors.Is(err, io.EOF) {
		err = t.in.settle(err)
	}
	return n, err
}

// Write types input.
func (t *Terminal) Write(p []byte) (int, error) {
	t.in.sb.Touch()
	return t.t.Write(p)
}

// Resize sets the terminal's size.
func (t *Terminal) Resize(ctx context.Context, size guest.TerminalSize) error {
	return t.t.Resize(ctx, size)
}

// Wait gives the command's result after Read gave io.EOF.
func (t *Terminal) Wait(ctx context.Context) (guest.Result, error) {
	res, err := t.t.Wait(ctx)
	return res, t.in.settle(err)
}

// Close detaches.
func (t *Terminal) Close() error {
	t.stop()
	err := t.t.Close()
	t.in.done()
	return err
}

// Watch is a reader of a file watch. Close it.
type Watch struct {
	w  *guest.Watch
	in *session
	// ours says that the watch began with this reader and ends with it.
	ours bool
}

// Watch watches a directory tree from before it returns on. With an ID in the
// spec the watch outlives its reader, and another goes on behind the event
// number after; without one it ends with this reader.
func (s *Service) Watch(ctx context.Context, id string, spec guest.WatchSpec, after int64) (*Watch, error) {
	if after > 0 && spec.ID == "" {
		return nil, fault.Errorf(fault.Invalid, "only a watch that has an ID can be gone on with")
	}
	in, err := s.inside(ctx, account.Use, "watch", id)
	if err != nil {
		return nil, err
	}
	var w *guest.Watch
	if after > 0 {
		w, err = in.sb.Guest().AttachWatch(in.ctx, spec.ID, after)
	} else {
		w, err = in.sb.Guest().Watch(in.ctx, spec)
	}
	if err != nil {
		err = in.settle(err)
		in.done()
		return nil, err
	}
	return &Watch{w: w, in: in, ours: spec.ID == ""}, nil
}

// ID names the watch.
func (w *Watch) ID() string { return w.w.ID() }

// Next waits for the next event. A watch alone does not keep an idle sandbox
// alive.
func (w *Watch) Next() (guest.Event, error) {
	e, err := w.w.Next(w.in.ctx)
	return e, w.in.settle(err)
}

// Stop makes Next return, whoever waits in it.
func (w *Watch) Stop() { w.in.cancel(context.Canceled) }

// Close ends the reader, and a watch without an ID.
func (w *Watch) Close() error {
	var err error
	if w.ours {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.in.ctx), closeWait)
		defer cancel()
		if err = w.w.Close(ctx); fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Conflict) {
			err = nil // the machine has ended, and the watch with it
		}
	} else {
		w.w.Detach()
	}
	w.in.done()
	return err
}

// closeWait is how long the end of a watch may take.
const closeWait = 5 * settleWait

// Dial opens a byte stream to a port on the guest's loopback. Nobody listening
// is fault.Unavailable. The caller closes it.
func (s *Service) Dial(ctx context.Context, id string, port int) (net.Conn, error) {
	in, err := s.inside(ctx, account.Use, "port", id)
	if err != nil {
		return nil, err
	}
	c, err := in.dial(port)
	if err != nil {
		in.done()
		return nil, err
	}
	c.ended = in.done
	return c, nil
}

// dial opens a byte stream to a port, which is closed with the session.
func (in *session) dial(port int) (*conn, error) {
	c, err := in.sb.Guest().DialPort(in.ctx, port)
	if err != nil {
		return nil, in.settle(err)
	}
	return &conn{Conn: c, in: in, stop: context.AfterFunc(in.ctx, func() { _ = c.Close() }), ended: func() {}}, nil
}

// conn counts as a use of its sandbox.
type conn struct {
	net.Conn
	in   *session
	stop func() bool
	// ended is called when it is closed.
	ended func()
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in.sb.Touch()
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	c.in.sb.Touch()
	return c.Conn.Write(p)
}

// CloseWrite closes one direction.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *conn) Close() error {
	c.stop()
	err := c.Conn.Close()
	c.ended()
	return err
}
