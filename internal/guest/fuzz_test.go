package guest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"

	"assay/internal/fault"
)

func FuzzFrameReader(f *testing.F) {
	f.Add(appendFrame(nil, FrameStdout, []byte("hello")))
	f.Add(appendFrame(appendFrame(nil, FrameResult, []byte("{}")), FrameEOF, nil))
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{5, 0, 0, 0, 9, 'x'})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewFrameReader(bytes.NewReader(b))
		var again []byte
		for {
			kind, p, err := r.Next()
			if err == io.EOF && !bytes.Equal(again, b) {
				t.Errorf("frames give %x again, want %x", again, b)
			}
			if err != nil {
				return
			}
			if len(p) > MaxFrame {
				t.Errorf("frame of %d bytes", len(p))
			}
			again = appendFrame(again, kind, p)
		}
	})
}

// stream is a link that gives fixed bytes and keeps what is written.
type stream struct {
	net.Conn
	in  io.Reader
	out bytes.Buffer
}

func (s *stream) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s *stream) Write(p []byte) (int, error) { return s.out.Write(p) }

// FuzzAccept gives guestd's side any bytes: it ends with them, answers no more
// openings than it was sent, and begins a session only behind an opening.
func FuzzAccept(f *testing.F) {
	nonce := "0123456789abcdef"
	f.Add([]byte(hostMagic+nonce+"PRI * HTTP/2.0\r\n"), false)
	f.Add([]byte("stale"+askMagic+hostMagic+nonce+hostMagic+nonce+"PRI * HTTP/2.0\r\n"), true)
	f.Add([]byte(hostMagic), false)
	f.Fuzz(func(t *testing.T, b []byte, asked bool) {
		link := &stream{in: bytes.NewReader(b)}
		s, err := Accept(link, asked)
		answers := bytes.Count(link.out.Bytes(), []byte(guestMagic))
		if opened := bytes.Count(b, []byte(hostMagic)); answers > opened {
			t.Errorf("%d answers to %d openings", answers, opened)
		}
		if err != nil {
			return
		}
		if answers == 0 {
			t.Error("a session without an opening")
		}
		if rest, _ := io.ReadAll(s.session); len(rest) < magicLen || !bytes.HasSuffix(b, rest) {
			t.Errorf("the session begins with %q, which is not the rest of %q", rest, b)
		}
	})
}

func FuzzEndTrailer(f *testing.F) {
	f.Add(EndTrailer(nil))
	f.Add(EndTrailer(fault.Errorf(fault.Exhausted, "full")))
	f.Add("")
	f.Fuzz(func(t *testing.T, v string) {
		if err := parseEndTrailer(v); err == nil && v != "ok" {
			t.Errorf("%q is taken for a good end", v)
		}
	})
}

func TestEndTrailerKeepsTheFault(t *testing.T) {
	t.Parallel()
	for _, want := range []error{
		fault.Errorf(fault.Exhausted, "full \x7f\n").WithHint("make room"),
		errors.New("without a kind"),
	} {
		err := parseEndTrailer(EndTrailer(want))
		if fault.KindOf(err) != fault.KindOf(want) || fault.HintOf(err) != fault.HintOf(want) {
			t.Errorf("%v came back as %v", want, err)
		}
	}
}
