package gvisor

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

// guestPatience bounds every wait of these tests.
const guestPatience = 10 * time.Second

// box is one machine and the client to its guestd.
type box struct {
	*guest.Client
	t       *testing.T
	ctx     context.Context
	driver  sandbox.Driver
	image   string
	machine sandbox.Machine
}

func newBox(t *testing.T) *box {
	t.Helper()
	cfg := setup(t)
	return startBox(t, &box{driver: cfg.Driver, image: cfg.Image}, "")
}

// startBox boots a machine like that of b, or restores it.
func startBox(t *testing.T, b *box, snapshot string) *box {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*guestPatience)
	t.Cleanup(cancel)
	n := &box{t: t, ctx: ctx, driver: b.driver, image: b.image}
	cfg := sandbox.MachineConfig{
		ID: fmt.Sprintf("guest-%08x", rand.Uint32()), Dir: t.TempDir(), Image: b.image,
		Shape: sandbox.Shape{VCPUs: 2, Memory: 512 << 20, Disk: 400 << 20, Processes: 256},
	}
	var err error
	if snapshot == "" {
		n.machine, err = b.driver.Boot(ctx, cfg)
	} else {
		n.machine, err = b.driver.Restore(ctx, cfg, snapshot)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), guestPatience)
		defer cancel()
		if err := n.machine.Destroy(ctx); err != nil {
			t.Error(err)
		}
	})
	n.Client = guest.NewClient(n.machine.Link())
	if _, err := n.Hello(ctx); err != nil {
		t.Fatal(err)
	}
	return n
}

// sh runs a shell command as the user and gives its output.
func (b *box) sh(script string) string {
	b.t.Helper()
	var out bytes.Buffer
	res, err := b.Run(b.ctx, guest.ExecSpec{
		Argv: []string{"/bin/sh", "-c", script}, Leave: true, Limits: guest.Limits{Wall: guestPatience},
	}, guest.IO{Stdout: &out, Stderr: &out})
	if err != nil {
		b.t.Fatal(err)
	}
	if res.Exit.Code != 0 {
		b.t.Fatalf("%s: %+v\n%s", script, res.Exit, out.String())
	}
	return strings.TrimSpace(out.String())
}

func (b *box) write(path, content string) {
	b.t.Helper()
	if _, err := b.WriteFile(b.ctx, path, strings.NewReader(content), guest.WriteOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

func TestFilesGoInAndOut(t *testing.T) {
	b := newBox(t)
	content := make([]byte, 64<<20)
	rand.NewChaCha8([32]byte{1}).Read(content)
	sum := sha256.Sum256(content)
	want := hex.EncodeToString(sum[:])

	start := time.Now()
	info, err := b.WriteFile(b.ctx, "/home/user/deep/er/big", bytes.NewReader(content), guest.WriteOptions{Mode: 0o600, MakeParents: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("64 MB in: %v", time.Since(start))
	if info.SHA256 != want || info.Size != int64(len(content)) || info.Mode != 0o600 {
		t.Errorf("written: %+v, want digest %s", info, want)
	}
	if got, _, _ := strings.Cut(b.sh("sha256sum /home/user/deep/er/big"), " "); got != want {
		t.Errorf("the guest sees digest %s", got)
	}
	start = time.Now()
	r, err := b.ReadFile(b.ctx, "/home/user/deep/er/big")
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	n, err := io.Copy(h, r)
	if err != nil || n != int64(len(content)) || hex.EncodeToString(h.Sum(nil)) != want {
		t.Errorf("read %d bytes, %v", n, err)
	}
	t.Logf("64 MB out: %v", time.Since(start))
	_ = r.Close()

	if err := b.Rename(b.ctx, "/home/user/deep/er/big", "/home/user/big"); err != nil {
		t.Error(err)
	}
	if err := b.Chmod(b.ctx, "/home/user/big", 0o640); err != nil {
		t.Error(err)
	}
	if info, err = b.Stat(b.ctx, "/home/user/big"); err != nil || info.Mode != 0o640 || info.Type != guest.TypeFile || info.UID != 1000 {
		t.Errorf("stat: %+v, %v", info, err)
	}
	list, err := b.List(b.ctx, "/home/user/deep")
	if err != nil || len(list) != 1 || list[0].Name != "er" || list[0].Type != guest.TypeDir {
		t.Errorf("list: %+v, %v", list, err)
	}
	if err := b.Remove(b.ctx, "/home/user/deep", false); !fault.Is(err, fault.Conflict) {
		t.Errorf("remove a full directory: %v", err)
	}
	if err := b.Remove(b.ctx, "/home/user/deep", true); err != nil {
		t.Error(err)
	}
	if _, err := b.Stat(b.ctx, "/home/user/deep"); !fault.Is(err, fault.NotFound) {
		t.Errorf("stat of what was removed: %v", err)
	}
	if _, err := b.WriteFile(b.ctx, "/home/user/x", io.MultiReader(strings.NewReader("half"), failing{}), guest.WriteOptions{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a failing reader gives %v", err)
	}
	if _, err := b.Stat(b.ctx, "/home/user/x"); !fault.Is(err, fault.NotFound) {
		t.Errorf("half a file is there: %v", err)
	}
	_, err = b.WriteFile(b.ctx, "/home/user/x", io.LimitReader(zeros{}, 1<<30), guest.WriteOptions{})
	if !fault.Is(err, fault.Exhausted) {
		t.Errorf("a file larger than the disk gives %v", err)
	}
	if got := b.sh("ls -A /home/user"); strings.Contains(got, ".assay") {
		t.Errorf("left behind: %s", got)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the disk of the host is broken") }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestUsersLinksDoNotLeadToRootsFiles(t *testing.T) {
	b := newBox(t)
	b.sh(`cd /home/user; ln -s /etc/passwd file; ln -s /etc dir; mkfifo fifo; ln /etc/passwd hard 2>/dev/null; mkdir real`)
	before := b.sh("sha256sum /etc/passwd; ls -l /etc/passwd; ls -A /etc | wc -l")
	b.write("/home/user/file", "mine")
	for name, err := range map[string]error{
		"write":     second(b.WriteFile(b.ctx, "/home/user/dir/passwd", strings.NewReader("x"), guest.WriteOptions{})),
		"tree":      second(b.WriteTree(b.ctx, "/home/user/dir/x", strings.NewReader(""), "")),
		"tree_self": second(b.WriteTree(b.ctx, "/home/user/dir", strings.NewReader(""), "")),
		"remove":    b.Remove(b.ctx, "/home/user/dir/passwd", false),
		"chmod":     b.Chmod(b.ctx, "/home/user/dir/passwd", 0o666),
		"read":      second(b.ReadFile(b.ctx, "/home/user/dir/shadow")),
	} {
		if !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"fifo", "real"} {
		if _, err := b.ReadFile(b.ctx, "/home/user/"+name); !fault.Is(err, fault.Invalid) {
			t.Errorf("read %s: %v", name, err)
		}
	}
	for _, name := range []string{"/proc/self/status", "/dev/zero", "/bin"} {
		if _, err := b.ReadFile(b.ctx, name); !fault.Is(err, fault.Invalid) {
			t.Errorf("read %s: %v", name, err)
		}
	}
	if info, err := b.Stat(b.ctx, "/bin/sh"); err != nil {
		t.Errorf("through a link of the system's: %+v, %v", info, err)
	}
	if after := b.sh("sha256sum /etc/passwd; ls -l /etc/passwd; ls -A /etc | wc -l"); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

func second[T any](_ T, err error) error { return err }

func TestTreesGoInAndOut(t *testing.T) {
	b := newBox(t)
	var in bytes.Buffer
	w := tar.NewWriter(&in)
	const files = 300
	for i := range files {
		content := strings.Repeat(fmt.Sprint(i), 1000)
		_ = w.WriteHeader(&tar.Header{Name: fmt.Sprintf("d%d/f%d", i%10, i), Mode: 0o755, Size: int64(len(content))})
		_, _ = io.WriteString(w, content)
	}
	_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "d1/l", Linkname: "../d2"})
	_ = w.Close()
	start := time.Now()
	info, err := b.WriteTree(b.ctx, "/home/user/tree", &in, guest.OwnerUser)
	if err != nil || info.Files != files || info.Entries != files+1 {
		t.Fatalf("%+v, %v", info, err)
	}
	t.Logf("%d files in: %v", files, time.Since(start))
	if got := b.sh("cd /home/user/tree; find . -type f -user user | wc -l; readlink d1/l"); got != "300\n../d2" {
		t.Errorf("the guest sees %q", got)
	}
	start = time.Now()
	r, err := b.ReadTree(b.ctx, "/home/user/tree")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, bytes := 0, int64(0)
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			got++
			bytes += h.Size
		}
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Error(err)
	}
	t.Logf("%d files out: %v", files, time.Since(start))
	if got != files || bytes != info.Bytes {
		t.Errorf("%d files of %d bytes, want %d of %d", got, bytes, files, info.Bytes)
	}
}

// slow takes bytes and lets nobody hurry it.
type slow struct{ gate chan struct{} }

func (s slow) Write(p []byte) (int, error) {
	<-s.gate
	return len(p), nil
}

func TestSlowReaderBlocksNobody(t *testing.T) {
	b := newBox(t)
	gate := make(chan struct{})
	ctx, cancel := context.WithCancel(b.ctx)
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() {
			_, err := b.Run(ctx, guest.ExecSpec{Argv: []string{"/bin/sh", "-c", "yes | head -c 20000000"}, Limits: guest.Limits{Wall: guestPatience}},
				guest.IO{Stdout: slow{gate}})
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	worst := time.Duration(0)
	for i := range 20 {
		start := time.Now()
		b.write("/home/user/f", fmt.Sprint(i))
		if got := b.sh("cat /home/user/f"); got != fmt.Sprint(i) {
			t.Errorf("read %q", got)
		}
		worst = max(worst, time.Since(start))
	}
	t.Logf("slowest write and exec beside three stuck readers: %v", worst)
	if worst > 2*time.Second {
		t.Errorf("a write and an exec took %v", worst)
	}
	close(gate)
	running.Wait()
	cancel()
}

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

// collect reads events until stop says so.
func collect(t *testing.T, w *guest.Watch, stop func(map[string]guest.Event) bool) map[string]guest.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), guestPatience)
	defer cancel()
	got := map[string]guest.Event{}
	for last := w.Last(); !stop(got); {
		e, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("%v after %d paths", err, len(got))
		}
		if e.Seq != last+1 {
			t.Errorf("event %d follows %d", e.Seq, last)
		}
		last = e.Seq
		e.Count += got[e.Path].Count
		got[e.Path] = e
	}
	return got
}

func seen(paths ...string) func(map[string]guest.Event) bool {
	return func(got map[string]guest.Event) bool {
		for _, p := range paths {
			if _, ok := got[p]; !ok {
				return false
			}
		}
		return true
	}
}

func TestWatch(t *testing.T) {
	b := newBox(t)
	b.sh("mkdir -p /home/user/w/sub/deep /home/user/w/node_modules/m /home/user/elsewhere")
	w, err := b.Client.Watch(b.ctx, guest.WatchSpec{Dir: "/home/user/w", Exclude: []string{"node_modules/**", "*.tmp", "**/skip"}})
	if err != nil {
		t.Fatal(err)
	}
	b.sh(`cd /home/user/w
		echo x > node_modules/m/f; echo x > a.tmp; mkdir sub/skip; echo x > sub/skip/f
		for i in $(seq 200); do echo $i > sub/f$i; done
		mkdir -p new/er; echo x > new/er/f; echo last > last`)
	got := collect(t, w, seen("last"))
	for i := range 200 {
		if e := got[fmt.Sprintf("sub/f%d", i+1)]; e.Op != guest.EventCreated || e.Type != guest.TypeFile || e.Count < 2 {
			t.Errorf("sub/f%d: %+v", i+1, e)
		}
	}
	for _, p := range []string{"new", "new/er", "new/er/f"} {
		if got[p].Op != guest.EventCreated {
			t.Errorf("%s: %+v", p, got[p])
		}
	}
	for p := range got {
		if strings.HasPrefix(p, "node_modules/") || strings.HasSuffix(p, ".tmp") || strings.Contains(p, "skip") {
			t.Errorf("excluded: %s", p)
		}
	}

	// The host's own writing shows once, under its name.
	b.write("/home/user/w/host", "x")
	got = collect(t, w, seen("host"))
	if len(got) != 1 || got["host"].Op != guest.EventCreated {
		t.Errorf("the host's write: %+v", got)
	}

	// Renames: the new paths are watched, the old ones are not.
	b.sh(`cd /home/user/w; mv new moved; rm last; chmod 600 sub/f1; mv sub/deep ../elsewhere/; mv sub/f2 sub/g2`)
	got = collect(t, w, seen("new", "moved", "moved/er/f", "last", "sub/f1", "sub/deep", "sub/f2", "sub/g2"))
	for p, op := range map[string]guest.EventOp{
		"new": guest.EventRemoved, "moved": guest.EventCreated, "last": guest.EventRemoved, "sub/f1": guest.EventModified,
		"sub/deep": guest.EventRemoved, "sub/f2": guest.EventRemoved, "sub/g2": guest.EventCreated,
	} {
		if got[p].Op != op {
			t.Errorf("%s: %+v, want %s", p, got[p], op)
		}
	}

	// A broken session loses nothing; a detached watch goes on.
	b.Break()
	b.sh(`cd /home/user/w; echo x >> ../elsewhere/deep/unseen; echo x > moved/er/g; echo x > broken`)
	got = collect(t, w, seen("moved/er/g", "broken"))
	if len(got) != 2 {
		t.Errorf("after a rename: %+v", got)
	}
	last := w.Last()
	w.Detach()
	b.sh("echo x > /home/user/w/detached")
	w, err = b.AttachWatch(b.ctx, w.ID(), last)
	if err != nil {
		t.Fatal(err)
	}
	collect(t, w, seen("detached"))

	// More events than are kept, while nobody reads.
	last = w.Last()
	w.Detach()
	b.sh(`cd /home/user/w; mkdir many; for n in 1 2 3; do seq -f "many/$n-%g" 2000 | xargs touch; sleep 0.2; done; touch end`)
	w, err = b.AttachWatch(b.ctx, w.ID(), last)
	if err != nil {
		t.Fatal(err)
	}
	e, err := w.Next(b.ctx)
	if err != nil || e.Op != guest.EventOverflow || e.Reason == "" {
		t.Errorf("%+v, %v", e, err)
	}
	collect(t, w, seen("end"))
	if err := w.Close(b.ctx); err != nil {
		t.Error(err)
	}
	if _, err := b.AttachWatch(b.ctx, w.ID(), 0); !fault.Is(err, fault.NotFound) {
		t.Errorf("a closed watch: %v", err)
	}
	if _, err := b.Client.Watch(b.ctx, guest.WatchSpec{Dir: "/home/user/none"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// echoServer serves HTTP on 8000 (IPv4) and echoes lines on 8001 (IPv6), where
// it answers the end of the input with the number of bytes.
const echoServer = `
import http.server, socket, threading
def echo():
    s = socket.socket(socket.AF_INET6); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("::1", 8001)); s.listen(64)
    def one(c):
        n = 0
        while b := c.recv(65536):
            n += len(b); c.sendall(b)
        c.sendall(b"\nend %d" % n); c.close()
    while True:
        c, _ = s.accept(); threading.Thread(target=one, args=(c,), daemon=True).start()
threading.Thread(target=echo, daemon=True).start()
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        b = b"hello from " + self.path.encode()
        self.send_response(200); self.send_header("Content-Length", str(len(b))); self.end_headers(); self.wfile.write(b)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), H).serve_forever()
`

func (b *box) serve() {
	b.t.Helper()
	b.write("/home/user/server.py", echoServer)
	b.sh("python3 /home/user/server.py >/dev/null 2>&1 &")
	for b.ctx.Err() == nil {
		conn, err := b.DialPort(b.ctx, 8000)
		if err == nil {
			_ = conn.Close()
			return
		}
		if !fault.Is(err, fault.Unavailable) {
			b.t.Fatal(err)
		}
	}
	b.t.Fatal("the server does not come up")
}

func (b *box) get(path string) (string, error) {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return b.DialPort(ctx, 8000) }}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(b.ctx, http.MethodGet, "http://guest"+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func TestDialPort(t *testing.T) {
	b := newBox(t)
	if _, err := b.DialPort(b.ctx, 8000); !fault.Is(err, fault.Unavailable) || fault.HintOf(err) == "" {
		t.Errorf("nobody listens: %v", err)
	}
	b.serve()
	for i := range 5 {
		if got, err := b.get(fmt.Sprintf("/%d", i)); err != nil || got != fmt.Sprintf("hello from /%d", i) {
			t.Errorf("%q, %v", got, err)
		}
	}

	// A half-close reaches the program, and its last words come back.
	var many sync.WaitGroup
	for range 8 {
		many.Go(func() {
			conn, err := b.DialPort(b.ctx, 8001)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
			go func() {
				_, _ = conn.Write(content)
				_ = conn.(interface{ CloseWrite() error }).CloseWrite()
			}()
			got, err := io.ReadAll(conn)
			want := append(bytes.Clone(content), fmt.Sprintf("\nend %d", len(content))...)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes came back, want %d: %v", len(got), len(want), err)
			}
		})
	}
	many.Wait()

	conn, err := b.DialPort(b.ctx, 8001)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	var timeout net.Error
	if _, err := conn.Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("a deadline gives %v", err)
	}
	_ = conn.SetReadDeadline(time.Time{})
	b.Break()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, guest.ErrSessionEnded) {
		t.Errorf("a broken session gives %v", err)
	}
}

func TestAllAfterSnapshotAndRestore(t *testing.T) {
	b := newBox(t)
	b.serve()
	b.sh("mkdir -p /home/user/w/sub")
	term, err := b.OpenTerminal(b.ctx, guest.TerminalSpec{})
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	typeLine(t, term, "PS1='> '; X=before; echo ready-$X")
	expect(t, term, "ready-before")
	w, err := b.Client.Watch(b.ctx, guest.WatchSpec{Dir: "/home/user/w"})
	if err != nil {
		t.Fatal(err)
	}
	b.sh("touch /home/user/w/one")
	collect(t, w, seen("one"))
	snapshot := t.TempDir()
	err = b.Between(b.ctx, func(ctx context.Context) error { return b.machine.Snapshot(ctx, snapshot) })
	if err != nil {
		t.Fatal(err)
	}
	child := startBox(t, b, snapshot)
	childTerm, err := child.AttachTerminal(child.ctx, term.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer childTerm.Close()
	childWatch, err := child.AttachWatch(child.ctx, w.ID(), w.Last())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct {
		name string
		*box
		term  *guest.Terminal
		watch *guest.Watch
	}{{"parent", b, term, w}, {"child", child, childTerm, childWatch}} {
		t.Run(m.name, func(t *testing.T) {
			typeLine(t, m.term, "echo $X-"+m.name)
			expect(t, m.term, "before-"+m.name)
			if got, err := m.get("/again"); err != nil || got != "hello from /again" {
				t.Errorf("%q, %v", got, err)
			}
			m.write("/home/user/w/sub/"+m.name, m.name)
			collect(t, m.watch, seen("sub/"+m.name))
			r, err := m.ReadFile(m.ctx, "/home/user/w/sub/"+m.name)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || string(got) != m.name {
				t.Errorf("%q, %v", got, err)
			}
			_ = r.Close()
			typeLine(t, m.term, "exit 3")
			_, _ = io.Copy(io.Discard, m.term)
			if res, err := m.term.Wait(m.ctx); err != nil || res.Exit.Code != 3 {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
}

// breaking breaks the session each time so many bytes have passed.
type breaking struct {
	bytes.Buffer
	client *guest.Client
	every  int
	next   int
	left   int
}

func (w *breaking) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if w.left > 0 && w.Len() >= w.next {
		w.left--
		w.next = w.Len() + w.every
		w.client.Break()
	}
	return n, err
}

func TestBrokenExecRunsOnceAndLosesNothing(t *testing.T) {
	b := newBox(t)
	out := &breaking{client: b.Client, every: 1 << 20, next: 1 << 20, left: 5}
	const lines = 1_000_000
	res, err := b.Run(b.ctx, guest.ExecSpec{
		Argv: []string{"/bin/sh", "-c", fmt.Sprintf("echo run >> /home/user/runs; seq %d", lines)}, Limits: guest.Limits{Wall: guestPatience},
	}, guest.IO{Stdout: out})
	if err != nil || res.Exit.Code != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	var want bytes.Buffer
	for i := range lines {
		fmt.Fprintln(&want, i+1)
	}
	if !bytes.Equal(out.Bytes(), want.Bytes()) {
		t.Errorf("%d bytes of output, want %d", out.Len(), want.Len())
	}
	if got := b.sh("cat /home/user/runs"); got != "run" {
		t.Errorf("the command ran %d times", strings.Count(got, "run"))
	}

	// With input under way, that the program gives back.
	content := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{2}).Read(content)
	out = &breaking{client: b.Client, every: 1 << 20, next: 1 << 20, left: 5}
	res, err = b.Run(b.ctx, guest.ExecSpec{Argv: []string{"cat"}, Limits: guest.Limits{Wall: guestPatience}},
		guest.IO{Stdin: bytes.NewReader(content), Stdout: out})
	if err != nil || res.Exit.Code != 0 || !bytes.Equal(out.Bytes(), content) {
		t.Errorf("%+v, %v, %d bytes came back of %d", res, err, out.Len(), len(content))
	}
}
