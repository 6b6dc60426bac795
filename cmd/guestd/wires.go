package main

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
)

// wires are ends of host pipes that came over guest.WiresFD and wait for the
// command that takes them as its stdin and stdout. They cannot be in a
// snapshot: what waits is dropped before one.
type wires struct {
	log *slog.Logger

	mu      sync.Mutex
	waiting map[string]*wire
}

type wire struct {
	stdin, stdout *os.File
	expiry        *time.Timer
}

func (w *wire) close() {
	w.expiry.Stop()
	_ = w.stdin.Close()
	_ = w.stdout.Close()
}

// The bounds of what waits: how long, and how many.
const (
	wireWait  = time.Minute
	wiresMost = 64
)

// openWires gives the socket that ends of pipes come over, or nil where the
// driver has none. Call it before any other descriptor is opened.
func openWires() *os.File {
	var st unix.Stat_t
	if err := unix.Fstat(guest.WiresFD, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil
	}
	if err := unix.SetNonblock(guest.WiresFD, true); err != nil {
		return nil
	}
	unix.CloseOnExec(guest.WiresFD)
	return os.NewFile(guest.WiresFD, "wires")
}

// receive keeps what the host sends: a name, and two descriptors with it. It
// answers with the name once they can be taken. It ends with the machine.
func (ws *wires) receive(socket *os.File) {
	raw, err := socket.SyscallConn()
	if err != nil {
		ws.log.Error("receive wires", "err", err)
		return
	}
	name := make([]byte, guest.MaxWireName)
	rights := make([]byte, unix.CmsgSpace(guest.WireFiles*4))
	for {
		var n, oobn int
		readErr := raw.Read(func(fd uintptr) bool {
			n, oobn, _, _, err = unix.Recvmsg(int(fd), name, rights, unix.MSG_CMSG_CLOEXEC)
			return !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
		})
		if err := errors.Join(readErr, err); err != nil || n == 0 {
			if err != nil && !errors.Is(err, io.EOF) {
				ws.log.Error("receive wires", "err", err)
			}
			return
		}
		if err := ws.keep(string(name[:n]), rights[:oobn]); err != nil {
			ws.log.Error("receive wire", "err", err)
			continue
		}
		if _, err := socket.Write(name[:n]); err != nil {
			ws.log.Error("acknowledge wire", "err", err)
		}
	}
}

// keep files the descriptors of one message under its name.
func (ws *wires) keep(name string, rights []byte) error {
	files, err := parseRights(rights)
	if err == nil && len(files) != guest.WireFiles {
		err = fault.Errorf(fault.Invalid, "%d descriptors came with wire %s", len(files), name)
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if _, there := ws.waiting[name]; err == nil && (there || len(ws.waiting) >= wiresMost) {
		err = fault.Errorf(fault.Exhausted, "wire %s is there already, or too many are", name)
	}
	if err != nil {
		for _, f := range files {
			_ = f.Close()
		}
		return err
	}
	ws.waiting[name] = &wire{stdin: files[0], stdout: files[1], expiry: time.AfterFunc(wireWait, func() {
		if w, err := ws.take(name); err == nil {
			w.close()
		}
	})}
	return nil
}

func parseRights(b []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(b)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return files, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "wire"))
		}
	}
	return files, nil
}

// take gives a waiting wire to its command, once.
func (ws *wires) take(name string) (*wire, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w, ok := ws.waiting[name]
	if !ok {
		return nil, fault.Errorf(fault.NotFound, "no wire %.64q: it was used, it waited longer than %v, or a snapshot dropped it", name, wireWait).
			WithHint("connect the sandboxes again for each exec")
	}
	delete(ws.waiting, name)
	w.expiry.Stop()
	return w, nil
}

// drop closes all that waits.
func (ws *wires) drop() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for name, w := range ws.waiting {
		w.close()
		delete(ws.waiting, name)
	}
}
