package guest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

func TestAwaitMagic(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, in, want, rest string
		err                  error
	}{
		{"at-once", hostMagic + "rest", hostMagic, "rest", nil},
		{"behind-noise", "noise" + hostMagic + "rest", hostMagic, "rest", nil},
		{"behind-half-of-it", hostMagic[:9] + hostMagic, hostMagic, "", nil},
		{"first-of-two", "x" + askMagic + hostMagic, askMagic, hostMagic, nil},
		{"another-side's", guestMagic + hostMagic, hostMagic, "", nil},
		{"zeros", "\x00\x00\x00" + hostMagic, hostMagic, "", nil},
		{"cut", hostMagic[:15], "", "", io.EOF},
		{"nothing", "", "", "", io.EOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := bytes.NewReader([]byte(tt.in))
			got, err := awaitMagic(iotest.OneByteReader(r), hostMagic, askMagic)
			rest, _ := io.ReadAll(r)
			if got != tt.want || !errors.Is(err, tt.err) || string(rest) != tt.rest {
				t.Errorf("%q, %v, rest %q; want %q, %v, rest %q", got, err, rest, tt.want, tt.err, tt.rest)
			}
		})
	}
}

// endless gives zeros for ever.
type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestAwaitMagicIsBounded(t *testing.T) {
	t.Parallel()
	if _, err := awaitMagic(endless{}, hostMagic); err == nil {
		t.Error("no error after so much noise")
	}
}

// TestFilter: the host's question is found however it is cut, and nothing
// before it is lost.
func TestFilter(t *testing.T) {
	t.Parallel()
	const before = "frames assay-link of a session, assay-link-idl"
	whole := before + askMagic
	for size := 1; size <= len(whole); size++ {
		s := newSession(nil)
		var got []byte
		for in := []byte(whole); len(in) > 0; {
			n := min(size, len(in))
			got = append(got, s.filter(in[:n])...)
			in = in[n:]
		}
		if string(got) != before || !s.asked {
			t.Errorf("in pieces of %d: %q, asked %v", size, got, s.asked)
		}
	}
}

// TestAcceptOverNoise: what an earlier session left in the stream, and repeated
// preambles, do no harm.
func TestAcceptOverNoise(t *testing.T) {
	t.Parallel()
	nonce := []byte("0123456789abcdef")
	old := []byte("fedcba9876543210")
	hello, stale := append([]byte(hostMagic), nonce...), append([]byte(hostMagic), old...)
	const first = "PRI * HTTP/2.0\r\n" // of the session itself
	for _, tt := range []struct {
		name    string
		in      []byte
		answers int
	}{
		{"clean", hello, 1},
		{"noise", append([]byte("left of a session"), hello...), 1},
		{"repeated", bytes.Repeat(hello, 3), 1},
		{"stale-hello", append(bytes.Clone(stale), hello...), 2},
		{"asked-before", append([]byte(askMagic+askMagic), hello...), 1},
		{"asked-within", append(append(bytes.Clone(hello), askMagic...), hello...), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			host, inside := net.Pipe()
			defer inside.Close()
			var answer bytes.Buffer
			read := make(chan struct{})
			go func() {
				defer close(read)
				_, _ = io.Copy(&answer, host)
			}()
			go func() { _, _ = host.Write(append(bytes.Clone(tt.in), first+"more"...)) }()
			s, err := Accept(inside, false)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(first)+4)
			if _, err := io.ReadFull(s, got); err != nil || string(got) != first+"more" {
				t.Errorf("the session begins with %q, %v", got, err)
			}
			_ = host.Close()
			<-read
			if n := bytes.Count(answer.Bytes(), []byte(guestMagic)); n != tt.answers {
				t.Errorf("%d answers, want %d", n, tt.answers)
			}
			if !bytes.Contains(answer.Bytes(), append([]byte(guestMagic), nonce...)) {
				t.Errorf("answered %q", answer.Bytes())
			}
		})
	}
}

// FuzzOpen gives the host's side anything, which is what a hostile guest is: it
// must leave when its time is over, whatever comes.
func FuzzOpen(f *testing.F) {
	f.Add([]byte{}, true)
	f.Add([]byte(guestMagic+"0123456789abcdef"), false)
	f.Add([]byte(guestMagic+"short"), true)
	f.Add([]byte(idleMagic+guestMagic+guestMagic+guestMagic), false)
	f.Fuzz(func(t *testing.T, in []byte, cut bool) {
		synctest.Test(t, func(t *testing.T) {
			host, inside := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, inside) }()
			go func() { _, _ = inside.Write(in) }()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := open(ctx, host, cut); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("open against %q: %v", in, err)
			}
			_ = host.Close()
			_ = inside.Close()
		})
	})
}

// TestConnectLeaves: while one call waits for a silent guestd, another can
// leave when its own time is over.
func TestConnectLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		host, inside := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, inside) }()
		c := NewClient(host)
		long, cancelLong := context.WithTimeout(t.Context(), time.Hour)
		defer cancelLong()
		done := make(chan error)
		go func() {
			_, err := c.Hello(long)
			done <- err
		}()
		synctest.Wait()
		for name, call := range map[string]func(context.Context) error{
			"hello":   func(ctx context.Context) error { _, err := c.Hello(ctx); return err },
			"between": func(ctx context.Context) error { return between(c, ctx) },
		} {
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			began := time.Now()
			if err := call(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(began); took != time.Second {
				t.Errorf("%s took %v", name, took)
			}
			cancel()
		}
		cancelLong()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the first call: %v", err)
		}
		c.Close()
		_ = host.Close()
		_ = inside.Close()
	})
}
