package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

func TestSandboxPort(t *testing.T) {
	t.Parallel()
	h := newSandboxHost(t)
	id := h.ok("", "create")
	h.ok("", "exec", "--leave", id, "--", "sh", "-c", `mkdir www; echo hello >www/x; cd www; python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 &
		until python3 -c 'import socket; socket.create_connection(("127.0.0.1", 8000))' 2>/dev/null; do :; done`)
	cmd := h.command("port", id, "8000")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	address, _, found := strings.Cut(line, " -> ")
	if err != nil || !found {
		t.Fatalf("port printed %q, %v", line, err)
	}
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			resp, err := http.Get("http://" + address + "/x")
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			var body bytes.Buffer
			if _, err := body.ReadFrom(resp.Body); err != nil || body.String() != "hello\n" {
				t.Errorf("got %q, %v", body.String(), err)
			}
		})
	}
	all.Wait()
	h.ok("", "rm", id)
	_ = cmd.Wait() // the code is looked at
	if code := cmd.ProcessState.ExitCode(); code != 4 || !strings.Contains(errs.String(), "has ended: destroyed") {
		t.Errorf("port after the end: code %d, stderr %q", code, errs.String())
	}
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Error("the local port is still open")
	}
}

func TestSandboxWatch(t *testing.T) {
	t.Parallel()
	h := newSandboxHost(t)
	id := h.ok("", "create")
	cmd := h.command("watch", id, "--exclude", "*.tmp")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(errs).ReadString('\n'); !strings.Contains(line, "watching /home/user") {
		t.Fatalf("watch said %q, %v", line, err)
	}
	h.ok("", "exec", id, "--", "sh", "-c", "echo 1 >no.tmp; echo 1 >yes.txt")
	if line, err := bufio.NewReader(out).ReadString('\n'); !strings.Contains(line, `created`) || !strings.Contains(line, `"yes.txt"`) {
		t.Errorf("watch printed %q, %v", line, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("watch after Ctrl-C: %v", err)
	}
}

// terminalTest is a program on a terminal that the test types into.
type terminalTest struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File
	seen bytes.Buffer
	out  chan []byte
}

func onTerminal(t *testing.T, cmd *exec.Cmd) *terminalTest {
	t.Helper()
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	tt := &terminalTest{t: t, cmd: cmd, tty: tty, out: make(chan []byte, 1000)}
	go func() {
		defer close(tt.out)
		for {
			buf := make([]byte, 4096)
			n, err := tty.Read(buf)
			if n > 0 {
				tt.out <- buf[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	return tt
}

func (tt *terminalTest) enter(format string, args ...any) {
	tt.t.Helper()
	if _, err := fmt.Fprintf(tt.tty, format, args...); err != nil {
		tt.t.Fatal(err)
	}
}

// expect waits until the screen shows a pattern, and forgets what it showed.
func (tt *terminalTest) expect(pattern string) []string {
	tt.t.Helper()
	re := regexp.MustCompile(pattern)
	late := time.After(patience)
	for {
		if m := re.FindStringSubmatch(tt.seen.String()); m != nil {
			tt.seen.Reset()
			return m
		}
		select {
		case b, open := <-tt.out:
			if !open {
				tt.t.Fatalf("the program ended; want %s in %q", pattern, tt.seen.String())
			}
			tt.seen.Write(b)
		case <-late:
			tt.t.Fatalf("no %s in %q", pattern, tt.seen.String())
		}
	}
}

// code drains the screen and gives the program's exit code.
func (tt *terminalTest) code() int {
	for range tt.out { // the program waits for its screen
	}
	_ = tt.cmd.Wait() // the code is looked at
	return tt.cmd.ProcessState.ExitCode()
}

func TestSandboxShell(t *testing.T) {
	t.Parallel()
	h := newSandboxHost(t)
	id := h.ok("", "create")

	first := onTerminal(t, h.command("shell", id))
	first.expect(`\$ `)
	first.enter("secret=41; stty size; echo got $((secret+1))\n")
	first.expect(`30 100\s+got 42`)
	if err := pty.Setsize(first.tty, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
		t.Fatal(err)
	}
	first.enter("until [ \"$(stty size)\" = '40 120' ]; do :; done; echo re''sized\n")
	first.expect(`resized`)
	first.enter("sh -c 'echo run\"\"ning; exec sleep 600'\n")
	first.expect(`running`)
	first.enter("\x03") // Ctrl-C is the shell's, not ours
	first.enter("echo sur''vived\n")
	first.expect(`survived`)
	first.enter("\x1dd")
	name := first.expect(`--attach (\w+)`)[1]
	if code := first.code(); code != 0 {
		t.Errorf("detached: code %d, want 0", code)
	}

	second := onTerminal(t, h.command("shell", id, "--attach", name))
	second.enter("echo still $secret\n")
	second.expect(`still 41`)
	second.enter("exit 9\n")
	if code := second.code(); code != 9 {
		t.Errorf("exit of the shell: code %d, want 9", code)
	}
	if code, _, stderr := h.run("", "shell", id, "--attach", "nosuch"); code != 3 {
		t.Errorf("attach to nothing: code %d, stderr %q; want 3", code, stderr)
	}
	if code, stdout, _ := h.run("echo from a pipe\nexit 5\n", "shell", id); code != 5 || !strings.Contains(stdout, "from a pipe") {
		t.Errorf("shell with a pipe: code %d, stdout %q", code, stdout)
	}
}
