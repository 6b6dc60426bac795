package main

import (
	"sync"
)

// retain is how many sent bytes of a stream are kept for a reader that comes
// back after a broken session. It is more than what can be under way.
const retain = 1 << 20

// tailSize is how much of the end of a stream is kept when its middle is
// dropped.
const tailSize = 32 << 10

// stream holds what a program wrote to stdout or stderr until a reader took
// it. A writer that is ahead waits; that stops this program and nothing else.
type stream struct {
	mu      sync.Mutex
	changed sync.Cond
	buf     []byte // bytes [start, start+len(buf)) of the stream
	start   int64
	sent    int64 // a reader has taken bytes below this offset
	cap     int64 // 0 is no cap
	keep    bool  // at the cap: go on, keep the tail
	total   int64 // bytes the program wrote
	tail    []byte
	closed  bool
	over    func() // called once at the cap, unless keep
}

func newStream(limit int64, keep bool, over func()) *stream {
	s := &stream{cap: limit, keep: keep, over: over}
	s.changed.L = &s.mu
	return s
}

// append takes what the program wrote. It waits while the reader is behind.
func (s *stream) append(p []byte) {
	s.mu.Lock()
	before := s.total
	s.total += int64(len(p))
	headCap := s.cap
	if s.keep {
		headCap = s.cap - min(s.cap/2, tailSize)
	}
	if s.cap > 0 && s.total > headCap {
		room := max(0, headCap-before)
		if s.keep {
			rest := p[room:]
			s.tail = append(s.tail, rest...)
			if extra := len(s.tail) - int(s.cap-headCap); extra > 0 {
				s.tail = s.tail[:copy(s.tail, s.tail[extra:])]
			}
		}
		p = p[:room]
	}
	exceeded := s.cap > 0 && s.total > s.cap && before <= s.cap && !s.keep
	for len(p) > 0 && !s.closed {
		for s.unsent() >= retain && !s.closed {
			s.changed.Wait()
		}
		n := min(len(p), max(0, retain-s.unsent()))
		s.buf = append(s.buf, p[:n]...)
		p = p[n:]
		s.trim()
		s.changed.Broadcast()
	}
	s.mu.Unlock()
	if exceeded {
		s.over()
	}
}

// unsent is how much no reader has taken. Caller holds mu.
func (s *stream) unsent() int { return int(s.start + int64(len(s.buf)) - s.sent) }

// trim forgets sent bytes beyond what is retained. Caller holds mu.
func (s *stream) trim() {
	extra := int(s.sent-s.start) - retain
	if extra >= retain/4 { // in large steps: copying is not free
		s.buf = s.buf[:copy(s.buf, s.buf[extra:])]
		s.start += int64(extra)
	}
}

// say adds a line of guestd's own, outside of cap and count.
func (s *stream) say(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf = append(s.buf, line...)
	s.total += int64(len(line))
}

// end says that the program will write no more; the kept tail follows the head.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.buf = append(s.buf, s.tail...)
		s.tail = nil
	}
	s.closed = true
	s.changed.Broadcast()
}

// held is how many bytes of memory it takes.
func (s *stream) held() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(cap(s.buf))
}

// dropped is how many bytes will never reach a reader. Call it after end.
func (s *stream) dropped() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total - (s.start + int64(len(s.buf)))
}

// read copies bytes at an offset into p and waits for some. It gives 0, true
// at the end; ok is false when stop says so or the offset is no longer kept.
func (s *stream) read(p []byte, offset int64, stop func() bool) (n int, end, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if stop() || offset < s.start {
			return 0, false, false
		}
		if have := s.start + int64(len(s.buf)) - offset; have > 0 {
			n = copy(p, s.buf[offset-s.start:])
			s.sent = max(s.sent, offset+int64(n))
			s.trim()
			s.changed.Broadcast()
			return n, false, true
		}
		if s.closed {
			return 0, true, true
		}
		s.changed.Wait()
	}
}

// wake makes waiting readers look at their stop condition.
func (s *stream) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Broadcast()
}
