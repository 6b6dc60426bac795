package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// monitor speaks QMP with one QEMU: a command at a time, with its answer. What
// QEMU says by itself (events) is not needed here and dropped.
type monitor struct {
	conn    *net.UnixConn
	mu      sync.Mutex // one command at a time
	answers chan answer
	done    chan struct{} // closed when QEMU says nothing more
}

type answer struct {
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
	Event    string          `json:"event"`
	Greeting json.RawMessage `json:"QMP"`
}

// maxAnswer bounds what QEMU may say in one piece, in bytes.
const maxAnswer = 1 << 20

// openMonitor begins the conversation. close ends it.
func openMonitor(ctx context.Context, conn *net.UnixConn) (*monitor, error) {
	m := &monitor{conn: conn, answers: make(chan answer, 1), done: make(chan struct{})}
	go m.read()
	if err := m.run(ctx, "qmp_capabilities", nil, nil); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// read files answers until the connection ends.
func (m *monitor) read() {
	defer close(m.done)
	lines := bufio.NewScanner(m.conn)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		var a answer
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			return
		}
		if a.Event != "" || a.Greeting != nil {
			continue
		}
		m.answers <- a // one command is under way, and the channel holds one
	}
}

// run gives QEMU a command, with files that it then has, and decodes the answer
// into out unless that is nil.
func (m *monitor) run(ctx context.Context, command string, args, out any, files ...*os.File) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	msg, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
	}{command, args})
	if err != nil {
		return fmt.Errorf("encode %s: %w", command, err)
	}
	if err := m.send(msg, files); err != nil {
		return fault.Errorf(fault.Unavailable, "tell QEMU to %s: %w", command, err)
	}
	select {
	case a := <-m.answers:
		if a.Error != nil {
			return fault.Errorf(fault.Internal, "QEMU refuses %s: %s", command, a.Error.Desc)
		}
		if out == nil {
			return nil
		}
		return json.Unmarshal(a.Return, out)
	case <-m.done:
		return fault.Errorf(fault.Unavailable, "QEMU ended during %s", command)
	case <-ctx.Done():
		// The answer will come when nobody waits for it: it must not be taken for
		// that of a later command.
		_ = m.conn.Close()
		return context.Cause(ctx)
	}
}

func (m *monitor) send(msg []byte, files []*os.File) error {
	var rights []byte
	if len(files) > 0 {
		var fds []int
		for _, f := range files {
			fds = append(fds, int(f.Fd()))
		}
		rights = unix.UnixRights(fds...)
	}
	if err := m.conn.SetWriteDeadline(time.Now().Add(monitorWait)); err != nil {
		return err
	}
	n, _, err := m.conn.WriteMsgUnix(append(msg, '\n'), rights, nil)
	if err == nil && n < len(msg)+1 {
		err = errors.New("it takes no more")
	}
	return err
}

// monitorWait is how long QEMU may take to read a command.
const monitorWait = 5 * time.Second

// status asks what QEMU does with the guest: "running", "paused", "inmigrate".
func (m *monitor) status(ctx context.Context) (string, error) {
	var s struct {
		Status string `json:"status"`
	}
	err := m.run(ctx, "query-status", nil, &s)
	return s.Status, err
}

// close ends the conversation and waits for the reader.
func (m *monitor) close() {
	_ = m.conn.Close()
	for {
		select {
		case <-m.answers: // the reader may hold one that nobody asked for
		case <-m.done:
			return
		}
	}
}
