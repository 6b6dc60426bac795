package guest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestFrames(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	sent := []struct {
		t FrameType
		p string
	}{{FrameSpec, "{}"}, {FrameStdin, ""}, {FrameStdout, strings.Repeat("x", MaxFrame)}, {FrameEOF, ""}, {99, "unknown"}}
	for _, f := range sent {
		if err := WriteFrame(&b, f.t, []byte(f.p)); err != nil {
			t.Fatal(err)
		}
	}
	r := NewFrameReader(iotest.HalfReader(&b))
	for _, f := range sent {
		typ, p, err := r.Next()
		if err != nil || typ != f.t || string(p) != f.p {
			t.Errorf("frame %d of %d bytes, %v; want %d of %d", typ, len(p), err, f.t, len(f.p))
		}
	}
	if _, _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestFrameErrors(t *testing.T) {
	t.Parallel()
	if err := WriteFrame(io.Discard, FrameStdout, make([]byte, MaxFrame+1)); err == nil {
		t.Error("a frame beyond the bound was written")
	}
	if err := WriteJSON(io.Discard, FrameSpec, func() {}); err == nil {
		t.Error("what is no JSON was written")
	}
	whole := appendFrame(nil, FrameStdout, []byte("hello"))
	for cut := 1; cut < len(whole); cut++ {
		if _, _, err := NewFrameReader(bytes.NewReader(whole[:cut])).Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	broken := errors.New("broken")
	if _, _, err := NewFrameReader(iotest.ErrReader(broken)).Next(); !errors.Is(err, broken) {
		t.Errorf("of a broken stream: %v", err)
	}
	huge := binary.BigEndian.AppendUint32([]byte{byte(FrameStdout)}, 1<<32-1)
	if _, _, err := NewFrameReader(bytes.NewReader(huge)).Next(); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("of 4 GB: %v", err)
	}
}
