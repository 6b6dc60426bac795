package drivertest

import (
	"bytes"
	"sync"
)

// lockedBuffer takes the writes of several streams.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// signalOnce is closed by the first fire.
type signalOnce struct {
	once *sync.Once
	c    chan struct{}
}

func newSignal() signalOnce { return signalOnce{once: new(sync.Once), c: make(chan struct{})} }

func (s signalOnce) fire() { s.once.Do(func() { close(s.c) }) }
