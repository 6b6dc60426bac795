package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
)

// maxWriters bounds the attachments one terminal remembers input of.
const maxWriters = 1024

func (d *daemon) terminalRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST "+guest.PathTerminal, d.terminal)
	mux.HandleFunc("POST "+guest.PathTerminalResize, d.resizeTerminal)
	mux.HandleFunc("POST "+guest.PathTerminalKill, d.killTerminal)
}

// writer is one attachment's input across sessions.
type writer struct {
	mu    sync.Mutex // held while a stream of it feeds the terminal
	taken int64      // bytes of input the terminal has taken
}

func (t *terminal) writer(name string) (*writer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, ok := t.writers[name]
	if !ok {
		if len(t.writers) >= maxWriters {
			return nil, fault.Errorf(fault.Exhausted, "terminal has had %d writers", maxWriters)
		}
		w = &writer{}
		t.writers[name] = w
	}
	return w, nil
}

// feed hands a writer's input to the terminal. When the session breaks it ends,
// even while the program does not read: the next one goes on behind taken.
// Caller holds w.mu.
func (t *terminal) feed(ctx context.Context, in *guest.FrameReader, w *writer) {
	for {
		kind, p, err := in.Next()
		if err != nil {
			return
		}
		if kind != guest.FrameStdin {
			continue // the end of this writer's input is not the end of all input
		}
		select {
		case t.keys <- bytes.Clone(p):
			w.taken += int64(len(p))
		case <-t.cmd.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// typing writes input to the terminal until the command has ended.
func (t *terminal) typing() {
	for {
		select {
		case p := <-t.keys:
			_, _ = t.master.Write(p) // a command that has ended reads nothing
		case <-t.cmd.done:
			return
		}
	}
}

// terminal opens a terminal or attaches to one, and streams both ways.
func (d *daemon) terminal(w http.ResponseWriter, r *http.Request) {
	in := guest.NewFrameReader(bufio.NewReaderSize(r.Body, 16<<10))
	kind, p, err := in.Next()
	if err != nil || kind != guest.FrameSpec {
		guest.WriteFault(w, fault.Errorf(fault.Invalid, "terminal stream does not begin with its spec"))
		return
	}
	var att guest.TerminalAttach
	if err := json.Unmarshal(p, &att); err != nil {
		guest.WriteFault(w, fault.Errorf(fault.Invalid, "decode terminal: %w", err))
		return
	}
	t, err := d.terminals.get(d, att)
	if err != nil {
		guest.WriteFault(w, err)
		return
	}
	from, err := t.writer(att.Writer)
	if err != nil {
		guest.WriteFault(w, err)
		return
	}
	at := att.From
	t.attach(&at, true)
	defer t.attach(&at, false)
	defer context.AfterFunc(r.Context(), func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.changed.Broadcast()
	})()
	out := &frameWriter{w: w, rc: http.NewResponseController(w)}
	from.mu.Lock()
	started := guest.TerminalStarted{PID: t.cmd.pid, From: at, Stdin: from.taken}
	if out.json(guest.FrameTerminal, started) != nil {
		from.mu.Unlock()
		return
	}
	go func() {
		defer from.mu.Unlock()
		t.feed(r.Context(), in, from)
	}()
	t.deliver(r.Context(), out, &at, started)
}

// deliver sends output from *at on, and the result.
func (t *terminal) deliver(ctx context.Context, out *frameWriter, at *int64, started guest.TerminalStarted) {
	buf := make([]byte, 32<<10)
	for next := *at; ; {
		n := t.read(ctx, buf, at)
		if ctx.Err() != nil {
			return
		}
		if n == 0 {
			break
		}
		if *at != next { // some is missing: say where it goes on
			started.From = *at
			if out.json(guest.FrameTerminal, started) != nil {
				return
			}
		}
		if out.frame(guest.FrameStdout, buf[:n]) != nil {
			return
		}
		t.moved(at, n)
		next = *at
	}
	<-t.cmd.done
	if t.cmd.fault != nil {
		_ = out.json(guest.FrameFault, guest.ToWire(t.cmd.fault))
		return
	}
	_ = out.json(guest.FrameResult, t.cmd.result)
}

func (d *daemon) resizeTerminal(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	t, err := d.terminals.find(q.Get("id"))
	if err != nil {
		guest.WriteFault(w, err)
		return
	}
	var size guest.TerminalSize
	for key, n := range map[string]*int{"rows": &size.Rows, "cols": &size.Cols} {
		if *n, err = strconv.Atoi(q.Get(key)); err != nil || *n < 1 {
			guest.WriteFault(w, fault.Errorf(fault.Invalid, "%s %.20q is not a positive number", key, q.Get(key)))
			return
		}
	}
	select {
	case <-t.cmd.done: // nobody to tell
		answer(w, nil, nil)
	default:
		answer(w, nil, resize(t.master, size))
	}
}

// resize sets a terminal's size and tells its foreground processes.
func resize(master *os.File, size guest.TerminalSize) error {
	if err := size.Check(); err != nil {
		return err
	}
	if size == (guest.TerminalSize{}) {
		size = guest.TerminalSize{Rows: 24, Cols: 80}
	}
	conn, err := master.SyscallConn() // Fd would make the file block
	if err != nil {
		return fmt.Errorf("resize terminal: %w", err)
	}
	var ioctl error
	err = conn.Control(func(fd uintptr) {
		ioctl = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(size.Rows), Col: uint16(size.Cols)})
	})
	if err = errors.Join(err, ioctl); err != nil {
		return fault.Errorf(fault.Conflict, "resize terminal: %w", err)
	}
	return nil
}

func (d *daemon) killTerminal(w http.ResponseWriter, r *http.Request) {
	t, err := d.terminals.find(r.URL.Query().Get("id"))
	if err != nil {
		guest.WriteFault(w, err)
		return
	}
	select {
	case <-t.cmd.done:
	default:
		t.cmd.end(guest.Killed)
	}
	answer(w, nil, nil)
}
