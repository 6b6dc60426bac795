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
