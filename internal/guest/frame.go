package guest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// FrameType tells what a frame of an exec or terminal stream carries.
type FrameType byte

// The frames. Host to guest: FrameSpec first, then FrameStdin… FrameEOF, and
// FrameResize for terminals. Guest to host: FrameStarted, then FrameStdout and
// FrameStderr, and FrameResult or FrameFault last.
const (
	FrameSpec    FrameType = 1  // JSON: an Attach
	FrameStdin   FrameType = 2  // bytes for stdin
	FrameEOF     FrameType = 3  // stdin ends
	FrameStarted FrameType = 4  // JSON: Started
	FrameStdout  FrameType = 5  // bytes of stdout
	FrameStderr  FrameType = 6  // bytes of stderr
	FrameResult  FrameType = 7  // JSON: Result
	FrameFault   FrameType = 8  // JSON: WireFault
	FrameResize  FrameType = 9  // JSON: terminal size
	FrameEvent   FrameType = 10 // JSON: one file watch event
	FrameEnded   FrameType = 12 // the program has ended (if asked for); its last output may still follow
)

const frameHeader = 5

// MaxFrame is the largest payload of one frame, in bytes.
const MaxFrame = 1 << 20

// WriteFrame writes one frame with a single Write. The payload may be at most
// MaxFrame bytes.
func WriteFrame(w io.Writer, t FrameType, payload []byte) error {
	if len(payload) > MaxFrame {
		return fmt.Errorf("frame of %d bytes is larger than %d", len(payload), MaxFrame)
	}
	_, err := w.Write(appendFrame(make([]byte, 0, frameHeader+len(payload)), t, payload))
	return err
}

func appendFrame(b []byte, t FrameType, payload []byte) []byte {
	b = append(b, byte(t))
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return append(b, payload...)
}

// WriteJSON writes a frame with v as JSON.
func WriteJSON(w io.Writer, t FrameType, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return WriteFrame(w, t, b)
}

// FrameReader reads frames, reusing one buffer.
type FrameReader struct {
	r   io.Reader
	buf []byte
}

// NewFrameReader reads frames from r, which should be buffered.
func NewFrameReader(r io.Reader) *FrameReader { return &FrameReader{r: r} }

// Next reads one frame. The payload is valid until the next call. At a clean
// end it gives io.EOF, in the middle of a frame io.ErrUnexpectedEOF.
func (f *FrameReader) Next() (FrameType, []byte, error) {
	var head [frameHeader]byte
	if _, err := io.ReadFull(f.r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > MaxFrame {
		return 0, nil, fmt.Errorf("frame of %d bytes is larger than %d", n, MaxFrame)
	}
	if cap(f.buf) < int(n) {
		f.buf = make([]byte, n)
	}
	p := f.buf[:n]
	if _, err := io.ReadFull(f.r, p); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return FrameType(head[0]), p, nil
}
