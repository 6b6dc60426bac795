package call

import (
	"bytes"
	"encoding/binary"
	"io"
	"sync"
)

// maxFrame is the largest answer of a caller, in bytes.
const maxFrame = 16 << 20

// frame puts the length before a message, as callers read it.
func frame(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)
}

// inbox takes frames out of what a program writes. It never makes the program
// wait, and keeps at most one answer that nobody has asked for.
type inbox struct {
	// answers has the frames; it is closed when the program wrote anything else.
	answers chan []byte
	buffer  []byte
	broken  bool
}

func newInbox() *inbox { return &inbox{answers: make(chan []byte, 2)} }

// Write takes any bytes. One goroutine may call it.
func (b *inbox) Write(data []byte) (int, error) {
	n := len(data)
	if b.broken {
		return n, nil
	}
	b.buffer = append(b.buffer, data...)
	for !b.broken && len(b.buffer) >= 4 {
		size := int64(binary.BigEndian.Uint32(b.buffer))
		if size > maxFrame {
			b.fail()
			break
		}
		if int64(len(b.buffer)-4) < size {
			break
		}
		message := bytes.Clone(b.buffer[4 : 4+size])
		b.buffer = b.buffer[4+size:]
		select {
		case b.answers <- message:
		default:
			b.fail()
		}
	}
	return n, nil
}

func (b *inbox) fail() {
	b.broken, b.buffer = true, nil
	close(b.answers)
}

// outbox is what a program reads: writing to it never waits.
type outbox struct {
	mu    sync.Mutex
	more  *sync.Cond
	bytes bytes.Buffer
	ended bool
}

func newOutbox() *outbox {
	o := &outbox{}
	o.more = sync.NewCond(&o.mu)
	return o
}

func (o *outbox) send(message []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bytes.Write(frame(message))
	o.more.Broadcast()
}

// end lets the program read what is there, and then the end.
func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.more.Broadcast()
}

// Read implements io.Reader.
func (o *outbox) Read(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.bytes.Len() == 0 && !o.ended {
		o.more.Wait()
	}
	if o.bytes.Len() == 0 {
		return 0, io.EOF
	}
	return o.bytes.Read(b)
}

// kept keeps the first bytes written to it, and counts all.
type kept struct {
	mu   sync.Mutex
	data []byte
	max  int
	size int64
}

func (k *kept) Write(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.size += int64(len(b))
	k.data = append(k.data, b[:min(len(b), k.max-len(k.data))]...)
	return len(b), nil
}

func (k *kept) output() output {
	k.mu.Lock()
	defer k.mu.Unlock()
	return output{Data: bytes.Clone(k.data), Size: k.size}
}
