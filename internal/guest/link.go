package guest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A session begins with a preamble in each direction: a fixed magic and a
// nonce of the host. Both sides throw away bytes until they see it, so what an
// earlier session left on the stream does no harm. The host repeats its
// preamble until it is answered, since a reader of an earlier session may still
// eat it. Between sessions the host may ask whether guestd waits for a new one:
// the answer proves that no reader of the earlier one is left, and that a
// snapshot may be taken.
const (
	hostMagic  = "assay-link-open\n"
	guestMagic = "assay-link-here\n"
	askMagic   = "assay-link-idle?"
	idleMagic  = "assay-link-idle\n"
	magicLen   = 16
	nonceLen   = 16
	// maxStale bounds what is thrown away while looking for a preamble: more
	// than the buffers of the stream and of a session together can hold.
	maxStale = 64 << 20
	// repeatEvery is when an unanswered preamble is sent again.
	repeatEvery = 20 * time.Millisecond
)

// session is one session's view of the link: it can be closed without closing
// the link, and once Close returns, nothing of it reads from the link any more
// (a reader left over would eat the next session's bytes).
type session struct {
	net.Conn
	mu      sync.Mutex
	closed  bool
	readers sync.WaitGroup
	done    chan struct{}
	head    []byte // bytes that were read ahead, given out first
	ahead   []byte // where they are read to

	ending atomic.Bool // the host said that it will end the session
	held   []byte      // may be the beginning of the host's question
	asked  bool        // the host's question has come: the session is over
}

// Session is guestd's side of one session.
type Session struct{ *session }

// EndWhenAsked says that the host will end the session: the next thing it
// sends after what is under way is the question whether guestd is idle.
func (s Session) EndWhenAsked() { s.ending.Store(true) }

// filter holds back what may be the beginning of the host's question and gives
// the rest. The question can come in any pieces, behind the last frames of the
// session; the host sends nothing after it until it is answered.
func (s *session) filter(p []byte) []byte {
	s.held = append(s.held, p...)
	if i := bytes.Index(s.held, []byte(askMagic)); i >= 0 {
		s.asked = true
		s.held = s.held[:i]
	}
	keep := 0
	if !s.asked {
		for n := min(magicLen-1, len(s.held)); n > 0 && keep == 0; n-- {
			if bytes.HasPrefix([]byte(askMagic), s.held[len(s.held)-n:]) {
				keep = n
			}
		}
	}
	out := bytes.Clone(s.held[:len(s.held)-keep])
	s.held = append(s.held[:0], s.held[len(s.held)-keep:]...)
	return out
}

func newSession(link net.Conn) *session {
	return &session{Conn: link, done: make(chan struct{})}
}

func (s *session) Read(p []byte) (int, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return 0, net.ErrClosed
	}
	s.readers.Add(1)
	s.mu.Unlock()
	defer s.readers.Done()
	for { // only one goroutine reads a session
		if len(s.head) > 0 {
			n := copy(p, s.head)
			s.head = s.head[n:]
			return n, nil
		}
		if s.asked {
			return 0, io.EOF
		}
		// A frame is read as its head and its rest: one call of the system for all
		// that is there is cheaper, far more so in a guest.
		buf := p
		if len(p) < readAhead {
			if s.ahead == nil {
				s.ahead = make([]byte, readAhead)
			}
			buf = s.ahead
		}
		n, err := s.Conn.Read(buf)
		switch {
		case err != nil:
			return 0, err // and no bytes: it is a file or a socket
		case s.ending.Load():
			s.head = s.filter(buf[:n])
		case len(p) < readAhead:
			s.head = buf[:n]
		default:
			return n, nil
		}
	}
}

// readAhead is how many bytes of a session are read at once, at most.
const readAhead = 16 << 10

func (s *session) Write(p []byte) (int, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return 0, net.ErrClosed
	}
	s.readers.Add(1)
	s.mu.Unlock()
	defer s.readers.Done()
	return s.Conn.Write(p)
}

// Close interrupts the session's reads and writes, waits for them, and leaves
// the link open and without deadlines.
func (s *session) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	if first {
		_ = s.Conn.SetDeadline(time.Unix(1, 0))
	}
	s.mu.Unlock()
	if !first {
		<-s.done
		return nil
	}
	s.readers.Wait()
	err := s.Conn.SetDeadline(time.Time{})
	close(s.done)
	return err
}

// setDeadline keeps a closed session from touching the next one's deadlines.
func (s *session) setDeadline(set func(time.Time) error, t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	return set(t)
}

func (s *session) SetDeadline(t time.Time) error { return s.setDeadline(s.Conn.SetDeadline, t) }
func (s *session) SetReadDeadline(t time.Time) error {
	return s.setDeadline(s.Conn.SetReadDeadline, t)
}

func (s *session) SetWriteDeadline(t time.Time) error {
	return s.setDeadline(s.Conn.SetWriteDeadline, t)
}

// awaitMagic reads from r, one byte at a time so that nothing behind it is
// taken, until one of the magics has passed by, and says which.
func awaitMagic(r io.Reader, magics ...string) (string, error) {
	var window [magicLen]byte
	for range maxStale {
		copy(window[:], window[1:])
		if _, err := io.ReadFull(r, window[magicLen-1:]); err != nil {
			return "", err
		}
		for _, m := range magics {
			if string(window[:]) == m {
				return m, nil
			}
		}
	}
	return "", fmt.Errorf("no session preamble within %d bytes", maxStale)
}

// Accept waits on guestd's side for the host to open the next session and
// answers it. asked is what Serve of the session before gave. An io.EOF means
// that the host's end is closed for good.
func Accept(link net.Conn, asked bool) (Session, error) {
	var none Session
	if asked {
		if _, err := io.WriteString(link, idleMagic); err != nil {
			return none, err
		}
	}
	m, err := awaitMagic(link, hostMagic, askMagic)
	var last []byte
	for err == nil {
		switch m {
		case askMagic:
			if _, err = io.WriteString(link, idleMagic); err != nil {
				return none, err
			}
			if last == nil {
				m, err = awaitMagic(link, hostMagic, askMagic)
				continue
			}
		case hostMagic:
			nonce := make([]byte, nonceLen)
			if _, err = io.ReadFull(link, nonce); err != nil {
				return none, err
			}
			if !bytes.Equal(nonce, last) {
				if _, err = link.Write(append([]byte(guestMagic), nonce...)); err != nil {
					return none, err
				}
				last = nonce
			}
		default: // the session's own first bytes
			s := newSession(link)
			s.head = []byte(m)
			return Session{s}, nil
		}
		head := make([]byte, magicLen)
		_, err = io.ReadFull(link, head)
		m = string(head)
	}
	return none, err
}

// ask sends msg, again and again, until one of the magics comes back, and says
// which; what follows the magic is read into rest. It writes beside reading: the
// other side may be writing first, and a stream need not have a buffer. For the
// same reason it waits for its writer only when the whole answer has been read.
func ask(ctx context.Context, link net.Conn, msg, rest []byte, magics ...string) (string, error) {
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = link.SetDeadline(time.Unix(1, 0))
		close(stopped)
	})
	answered := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		repeat := time.NewTicker(repeatEvery)
		defer repeat.Stop()
		for {
			if _, err := link.Write(msg); err != nil {
				return
			}
			select {
			case <-answered:
				return
			case <-repeat.C:
			}
		}
	})
	m, err := awaitMagic(link, magics...)
	if err == nil {
		_, err = io.ReadFull(link, rest)
	}
	close(answered)
	if err != nil {
		_ = link.SetWriteDeadline(time.Unix(1, 0)) // the writer may be stuck
	}
	writer.Wait()
	if !stop() {
		<-stopped // or it would spoil the next session
	}
	_ = link.SetDeadline(time.Time{})
	return m, ctxCause(ctx, err)
}

// maxFrameIn is the largest HTTP/2 frame that guestd takes, in bytes: the
// smallest the protocol allows, because a broken session can end within one.
const maxFrameIn = 16 << 10

// open opens a session on the host's side. cut says that there was one
// before that guestd may not know has ended: its reader may wait for the rest
// of a frame, and gets it, with as much nonsense as ends any session.
func open(ctx context.Context, link net.Conn, cut bool) (*session, error) {
	if cut {
		if err := fill(ctx, link, maxFrameIn+64); err != nil {
			return nil, err
		}
	}
	hello := make([]byte, magicLen+nonceLen)
	copy(hello, hostMagic)
	_, _ = rand.Read(hello[magicLen:]) // never fails, by its documentation
	nonce := make([]byte, nonceLen)
	for {
		if _, err := ask(ctx, link, hello, nonce, guestMagic); err != nil {
			return nil, err
		}
		if bytes.Equal(nonce, hello[magicLen:]) {
			return newSession(link), nil
		}
	}
}

// fill writes so many zeros, and throws away what comes meanwhile: the other side
// may be writing, and a stream need not have a buffer.
func fill(ctx context.Context, link net.Conn, n int) error {
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = link.SetDeadline(time.Unix(1, 0))
		close(stopped)
	})
	var reader sync.WaitGroup
	reader.Go(func() {
		buf := make([]byte, 4<<10)
		for {
			if _, err := link.Read(buf); err != nil {
				return
			}
		}
	})
	_, err := link.Write(make([]byte, n))
	_ = link.SetReadDeadline(time.Unix(1, 0))
	reader.Wait()
	if !stop() {
		<-stopped
	}
	_ = link.SetDeadline(time.Time{})
	return ctxCause(ctx, err)
}

// awaitIdle waits until guestd waits for a new session.
func awaitIdle(ctx context.Context, link net.Conn) error {
	_, err := ask(ctx, link, []byte(askMagic), nil, idleMagic)
	return err
}

// ctxCause prefers the context's reason to the deadline error it provoked.
func ctxCause(ctx context.Context, err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Serve answers the requests of one session until it ends. Handlers still at
// work when it ends have their contexts cancelled and are waited for. asked
// says that the host ended the session and waits to hear that guestd is idle.
func Serve(conn Session, h http.Handler) (asked bool) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	var handlers sync.WaitGroup
	var mu sync.Mutex
	var over bool // a request may be read in the last moment and begin after it
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			if over {
				mu.Unlock()
				return
			}
			handlers.Add(1)
			mu.Unlock()
			defer handlers.Done()
			h.ServeHTTP(w, r)
		}),
		Protocols: &protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          4096,
			MaxReadFrameSize:              maxFrameIn,
			MaxReceiveBufferPerConnection: 4<<20 - 1,
			MaxReceiveBufferPerStream:     256 << 10,
		},
		ErrorLog: nil,
	}
	ln := &oneListener{conn: conn, ended: make(chan struct{})}
	_ = srv.Serve(ln) // returns when the session's connection is closed
	_ = srv.Close()
	_ = conn.Close()
	mu.Lock()
	over = true
	mu.Unlock()
	handlers.Wait()
	return conn.asked
}

// oneListener hands out one connection and then waits for its end.
type oneListener struct {
	conn  net.Conn
	once  sync.Once
	ended chan struct{}
	end   sync.Once
}

func (l *oneListener) Accept() (net.Conn, error) {
	var c net.Conn
	l.once.Do(func() { c = &endingConn{Conn: l.conn, ln: l} })
	if c != nil {
		return c, nil
	}
	<-l.ended
	return nil, net.ErrClosed
}

func (l *oneListener) Close() error {
	l.end.Do(func() { close(l.ended) })
	return nil
}

func (l *oneListener) Addr() net.Addr { return l.conn.LocalAddr() }

// endingConn ends the listener when the server closes the connection.
type endingConn struct {
	net.Conn
	ln *oneListener
}

func (c *endingConn) Close() error {
	err := c.Conn.Close()
	_ = c.ln.Close()
	return err
}
