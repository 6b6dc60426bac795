package supervisor

import (
	"bufio"
	"io"
	"net/http"
	"sync"

	"assay/internal/guest"
)

// stream is the server's side of a request that is answered with frames. Its
// last frame is a FrameResult or a FrameFault.
type stream struct {
	in *guest.FrameReader

	mu sync.Mutex
	w  http.ResponseWriter
	rc *http.ResponseController
}

// newStream answers the request's head; from here on faults are frames.
func newStream(w http.ResponseWriter, r *http.Request) *stream {
	st := &stream{in: guest.NewFrameReader(bufio.NewReaderSize(r.Body, 64<<10)), w: w, rc: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(http.StatusOK)
	_ = st.rc.Flush() // a client that is gone shows at the next write
	return st
}

// send writes one frame and sees it on its way.
func (st *stream) send(t guest.FrameType, payload []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := guest.WriteFrame(st.w, t, payload); err != nil {
		return err
	}
	return st.rc.Flush()
}

func (st *stream) sendJSON(t guest.FrameType, v any) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := guest.WriteJSON(st.w, t, v); err != nil {
		return err
	}
	return st.rc.Flush()
}

// end writes the last frame. A client that is gone has nobody to tell.
func (st *stream) end(result any, err error) {
	if err != nil {
		_ = st.sendJSON(guest.FrameFault, guest.ToWire(err))
		return
	}
	_ = st.sendJSON(guest.FrameResult, result)
}

// frameWriter writes bytes as frames of one type.
type frameWriter struct {
	t    guest.FrameType
	send func(guest.FrameType, []byte) error
}

// maxChunk keeps a frame small enough that others get their turn, in bytes.
const maxChunk = 256 << 10

func (w frameWriter) Write(p []byte) (int, error) {
	for n := 0; ; {
		chunk := p[n:min(n+maxChunk, len(p))]
		if err := w.send(w.t, chunk); err != nil {
			return n, err
		}
		if n += len(chunk); n == len(p) {
			return n, nil
		}
	}
}

// copyOut sends all of r as frames of stdout, and then the end.
func (st *stream) copyOut(r io.Reader) {
	_, err := io.CopyBuffer(frameWriter{guest.FrameStdout, st.send}, struct{ io.Reader }{r}, make([]byte, maxChunk))
	st.end(struct{}{}, err)
}
