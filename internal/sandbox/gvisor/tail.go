package gvisor

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// tail keeps the last lines that guestd wrote to its stderr. The way is a named
// pipe: gVisor would write a regular file at offsets of its own.
type tail struct {
	pipe *os.File
	done chan struct{}
	mu   sync.Mutex
	buf  []byte
}

const tailSize = 64 << 10

func openTail(path string) (*tail, error) {
	if err := unix.Mkfifo(path, 0o600); err != nil && !errors.Is(err, unix.EEXIST) { // an adopted machine has one
		return nil, err
	}
	// Open for both ways: then it neither waits for a writer nor ends with one.
	pipe, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	t := &tail{pipe: pipe, done: make(chan struct{})}
	go t.read()
	return t, nil
}

func (t *tail) read() {
	defer close(t.done)
	chunk := make([]byte, 4<<10)
	for {
		n, err := t.pipe.Read(chunk)
		t.mu.Lock()
		t.buf = append(t.buf, chunk[:n]...)
		if extra := len(t.buf) - tailSize; extra > 0 {
			t.buf = t.buf[:copy(t.buf, t.buf[extra:])]
		}
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (t *tail) close() {
	_ = t.pipe.Close()
	<-t.done
}

// suffix is what guestd said, to be put behind an error.
func (t *tail) suffix() string {
	if t == nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.buf) == 0 {
		return ""
	}
	return "; guestd said: " + string(t.buf)
}
