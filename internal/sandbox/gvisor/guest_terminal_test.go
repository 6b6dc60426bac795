package gvisor

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
)

// expect reads from a terminal until what it said holds want.
func expect(t *testing.T, term *guest.Terminal, want string) string {
	t.Helper()
	chunks, failed := make(chan string), make(chan error, 1)
	more := make(chan bool)
	defer close(more)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := term.Read(buf)
			if err != nil {
				failed <- err
				return
			}
			chunks <- string(buf[:n])
			if !<-more {
				return
			}
		}
	}()
	got := ""
	patience := time.After(guestPatience)
	for {
		select {
		case chunk := <-chunks:
			if got += chunk; strings.Contains(got, want) {
				return got
			}
			more <- true
		case err := <-failed:
			t.Fatalf("%v instead of %q after %q", err, want, got)
		case <-patience:
			t.Fatalf("no %q within %v after %q", want, guestPatience, got)
		}
	}
}

func typeLine(t *testing.T, term *guest.Terminal, line string) {
	t.Helper()
	if _, err := io.WriteString(term, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func TestTerminal(t *testing.T) {
	b := newBox(t)
	term, err := b.OpenTerminal(b.ctx, guest.TerminalSpec{Size: guest.TerminalSize{Rows: 30, Cols: 100}})
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	typeLine(t, term, "PS1='rea''dy> '; stty size; id -un; tty; echo tty-$?")
	got := expect(t, term, "ready> ") // the shell sets the size itself until it asks
	for _, want := range []string{"30 100", "user", "/dev/pts/", "tty-0"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if err := term.Resize(b.ctx, guest.TerminalSize{Rows: 40, Cols: 120}); err != nil {
		t.Error(err)
	}
	typeLine(t, term, "stty size")
	expect(t, term, "40 120")

	// Control-C reaches the foreground process, and the shell goes on.
	typeLine(t, term, "sh -c \"echo be''fore; exec sleep 1000\"; echo int-$?")
	expect(t, term, "before") // said by the process in the foreground
	_, _ = term.Write([]byte{3})
	expect(t, term, "ready> ")
	typeLine(t, term, "echo after-$?")
	expect(t, term, "after-130")

	// The session breaks: the terminal goes on, for this reader and a new one.
	typeLine(t, term, "X=kept")
	b.Break()
	typeLine(t, term, "echo $X-and-mended")
	expect(t, term, "kept-and-mended")
	second, err := b.AttachTerminal(b.ctx, term.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	expect(t, second, "kept-and-mended")
	typeLine(t, second, "echo from-$((1+1))")
	expect(t, term, "from-2")
	expect(t, second, "from-2")

	typeLine(t, term, "exit 7")
	for _, tm := range []*guest.Terminal{term, second} {
		if _, err := io.Copy(io.Discard, tm); err != nil {
			t.Error(err)
		}
		res, err := tm.Wait(b.ctx)
		if err != nil || res.Exit.Code != 7 || res.Exit.Cause != guest.Exited {
			t.Errorf("%+v, %v", res, err)
		}
	}
	if _, err := b.AttachTerminal(b.ctx, "nobody"); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unknown terminal: %v", err)
	}
}

func TestTerminalOutput(t *testing.T) {
	b := newBox(t)
	// One reader gets all of it, however much more it is than the scrollback.
	const lines = 200_000
	term, err := b.OpenTerminal(b.ctx, guest.TerminalSpec{Argv: []string{"/bin/sh", "-c", fmt.Sprintf("stty -opost; seq %d", lines)}})
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	var want bytes.Buffer
	for i := range lines {
		fmt.Fprintln(&want, i+1)
	}
	breaks := 3
	var got bytes.Buffer
	buf := make([]byte, 32<<10)
	for {
		n, err := term.Read(buf)
		got.Write(buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if breaks > 0 && got.Len() > (4-breaks)*200_000 {
			breaks--
			b.Break()
		}
	}
	if term.Skipped() > 0 {
		t.Logf("skipped %d bytes while the session was broken", term.Skipped())
	}
	if int64(got.Len())+term.Skipped() != int64(want.Len()) || term.Skipped() == 0 && !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%d bytes, skipped %d, want %d", got.Len(), term.Skipped(), want.Len())
	}
	// Nobody reads: the command does not wait, and what is kept is the end.
	bg, err := b.OpenTerminal(b.ctx, guest.TerminalSpec{ID: "bg", Argv: []string{"/bin/sh", "-c", "sleep 0.2; seq 300000; echo the-end; touch /tmp/bg-done"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = bg.Close()
	b.sh("while ! test -e /tmp/bg-done; do sleep 0.05; done")
	late, err := b.AttachTerminal(b.ctx, "bg")
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	rest, err := io.ReadAll(late)
	if err != nil || !bytes.HasSuffix(rest, []byte("the-end\r\n")) || len(rest) > guest.Scrollback {
		t.Errorf("%d bytes, %v, ending in %q", len(rest), err, rest[max(0, len(rest)-20):])
	}
}

func TestTerminalKill(t *testing.T) {
	b := newBox(t)
	term, err := b.OpenTerminal(b.ctx, guest.TerminalSpec{Argv: []string{"/bin/sh", "-c", "trap '' HUP INT TERM; echo up; (setsid sleep 1000 &) ; sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	expect(t, term, "up")
	if err := term.Kill(b.ctx); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, term)
	res, err := term.Wait(b.ctx)
	if err != nil || res.Exit.Cause != guest.Killed {
		t.Errorf("%+v, %v", res, err)
	}
	if got := b.sh("ps -e | grep -c sleep || true"); got != "0" {
		t.Errorf("%s processes are left", got)
	}
}
