package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/require"
	"assay/internal/supervisor"
)

// patience bounds every wait of these tests.
const patience = 2 * time.Minute

// sandboxHost is a data directory of a test's own, with the real programs.
type sandboxHost struct {
	t     *testing.T
	assay string
	dir   string
}

// newSandboxHost shares the base template that "make test" builds. What the
// test leaves is removed at its end, and must then be gone by itself.
func newSandboxHost(t *testing.T) *sandboxHost {
	t.Helper()
	require.Root(t)
	bin := require.Binaries(t)
	shared := os.Getenv("ASSAY_TEST_DATA")
	require.Thing(t, "templates", shared != "", "ASSAY_TEST_DATA does not name a data directory with the base template: run make test")
	h := &sandboxHost{t: t, assay: filepath.Join(bin, "assay"), dir: t.TempDir()}
	if err := os.Symlink(filepath.Join(shared, "templates"), filepath.Join(h.dir, "templates")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var ids []string
		for _, sb := range h.list() {
			ids = append(ids, sb.ID)
		}
		h.ok("", "rm", "--all")
		h.awaitEnd()
		for _, l := range h.leftovers(ids) {
			t.Errorf("left behind: %s", l)
		}
	})
	return h
}

func (h *sandboxHost) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	h.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, h.assay, append([]string{"sandbox"}, args...)...)
	cmd.Env = append(os.Environ(), "ASSAY_DATA_DIR="+h.dir)
	return cmd
}

// run runs "assay sandbox args".
func (h *sandboxHost) run(stdin string, args ...string) (code int, stdout, stderr string) {
	h.t.Helper()
	cmd := h.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		h.t.Fatalf("assay sandbox %q: %v", args, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// ok is run that must succeed; it gives stdout without the last newline.
func (h *sandboxHost) ok(stdin string, args ...string) string {
	h.t.Helper()
	code, stdout, stderr := h.run(stdin, args...)
	if code != 0 {
		h.t.Fatalf("assay sandbox %q: code %d, stderr %q", args, code, stderr)
	}
	return strings.TrimSuffix(stdout, "\n")
}

func (h *sandboxHost) list() []supervisor.Sandbox {
	h.t.Helper()
	var list []supervisor.Sandbox
	if err := json.Unmarshal([]byte(h.ok("", "ls", "--json")), &list); err != nil {
		h.t.Fatal(err)
	}
	return list
}

// supervisors are the processes that serve the directory.
func (h *sandboxHost) supervisors() (pids []int) {
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, p := range procs {
		b, err := os.ReadFile(p)
		if err == nil && bytes.Contains(b, []byte("\x00supervise\x00")) && bytes.Contains(b, []byte(h.dir)) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(p)))
			if err != nil {
				h.t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// signal sends a signal to the one supervisor.
func (h *sandboxHost) signal(sig syscall.Signal) {
	h.t.Helper()
	pids := h.supervisors()
	if len(pids) != 1 {
		h.t.Fatalf("supervisors %v, want one", pids)
	}
	if err := syscall.Kill(pids[0], sig); err != nil {
		h.t.Fatal(err)
	}
}

// awaitEnd waits until no supervisor holds the lock.
func (h *sandboxHost) awaitEnd() {
	h.t.Helper()
	f, err := os.Open(filepath.Join(h.dir, "supervisor.lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	ended := make(chan error, 1)
	go func() { ended <- unix.Flock(int(f.Fd()), unix.LOCK_EX) }()
	select {
	case err := <-ended:
		if err != nil {
			h.t.Fatal(err)
		}
	case <-time.After(patience):
		h.t.Fatal("the supervisor did not end by itself")
	}
	for len(h.supervisors()) > 0 { // the lock is given up a moment before
		<-time.After(10 * time.Millisecond)
	}
}

// leftovers looks for anything of the directory's sandboxes without asking
// Assay: processes, mounts, cgroups, files.
func (h *sandboxHost) leftovers(ids []string) (found []string) {
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, p := range procs {
		if b, err := os.ReadFile(p); err == nil && bytes.Contains(b, []byte(h.dir)) {
			found = append(found, "process "+filepath.Dir(p)+": "+strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		h.t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, h.dir) {
			found = append(found, "mount "+line)
		}
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		for _, id := range ids {
			if err == nil && d.IsDir() && strings.Contains(filepath.Base(path), id) {
				found = append(found, "cgroup "+path)
			}
		}
		return nil
	})
	for _, pattern := range []string{"supervisor.lock", "supervisor.sock", "engine/run/*"} {
		files, err := filepath.Glob(filepath.Join(h.dir, pattern))
		if err != nil {
			h.t.Fatal(err)
		}
		for _, f := range files {
			if own := filepath.Base(f); filepath.Dir(f) == filepath.Join(h.dir, "engine", "run") && (own == "lock" || own == "pass") {
				continue // the journal's own: they stay
			}
			found = append(found, "file "+f)
		}
	}
	return found
}

func TestSandboxExec(t *testing.T) {
	t.Parallel()
	h := newSandboxHost(t)
	id := h.ok("", "create", "--metadata", "for=test", "--metadata", "a=b=c")
	tests := []struct {
		name, stdin string
		args        []string
		code        int
		stdout      string
	}{
		{"output", "", []string{id, "--", "sh", "-c", "echo out; echo err >&2"}, 0, "out\n"},
		{"code", "", []string{id, "--", "sh", "-c", "exit 7"}, 7, ""},
		{"signal", "", []string{id, "--", "sh", "-c", "kill -9 $$"}, 137, ""},
		{"stdin", "some\nlines\n", []string{id, "--", "cat"}, 0, "some\nlines\n"},
		{"stdin_not_read", strings.Repeat("x", 4<<20), []string{id, "--", "true"}, 0, ""},
		{"wall", "", []string{"--wall", "300ms", id, "--", "sleep", "60"}, 124, ""},
		{"output_limit", "", []string{"--output", "1KiB", id, "--", "yes"}, 125, ""},
		{"pids_ok", "", []string{"--pids", "64", id, "--", "echo", "fine"}, 0, "fine\n"},
		{"env", "", []string{"-e", "WORD=a,b", id, "--", "sh", "-c", "echo $WORD $HOME"}, 0, "a,b /home/user\n"},
		{"dir_and_root", "", []string{"--user", "root", "--dir", "/usr", id, "--", "sh", "-c", "pwd; id -u"}, 0, "/usr\n0\n"},
		{"beginning_of_id", "", []string{id[:8], "--", "echo", "me"}, 0, "me\n"},
		{"zero_limit", "", []string{"--cpu", "0s", id, "--", "true"}, 2, ""},
		{"negative_limit", "", []string{"--memory=-1MB", id, "--", "true"}, 2, ""},
		{"no_such_sandbox", "", []string{"nosuch", "--", "true"}, 3, ""},
		{"no_command", "", []string{id, "--"}, 2, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := h.run(tt.stdin, append([]string{"exec"}, tt.args...)...)
			if code != tt.code {
				t.Errorf("code %d, stderr %q; want %d", code, stderr, tt.code)
			}
			if diff := cmp.Diff(tt.stdout, stdout); diff != "" && tt.code != 125 {
				t.Errorf("stdout (-want +got):\n%s", diff)
			}
		})
	}
	list := h.list()
	if len(list) != 1 || list[0].ID != id || list[0].Metadata["a"] != "b=c" || list[0].State != supervisor.StateRunning {
		t.Errorf("ls gives %+v; want the one sandbox with its metadata", list)
	}
}

func TestSandboxExecInterrupted(t *testing.T) {
	t.Parallel()
	h := newSandboxHost(t)
	id := h.ok("", "create")
	cmd := h.command("exec", id, "--", "sh", "-c", "echo started; exec sleep 600")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "started\n" {
		t.Fatalf("read %q, %v", line, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the code is looked at
	if code := cmd.ProcessState.ExitCode(); code != interruptedCode {
		t.Errorf("code %d, want %d", code, interruptedCode)
	}
	if code, stdout, _ := h.run("", "exec", id, "--", "pgrep", "-x", "sleep"); code != 1 {
		t.Errorf("the command runs on: %q", stdout)
	}
}

// TestPersistentSandboxOutlivesItsSupervisor: after an orderly end and after a
// kill the next command finds it as it was, and the other one is gone.
func TestPersistentSandboxOutlivesItsSupervisor(t *testing.T) {
	t.Parallel()
	h := newSandboxHost(t)
	id := h.ok("", "create", "--persistent", "--metadata", "a=b")
	h.ok("kept", "exec", id, "--", "sh", "-c", "cat >/tmp/note")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		other := h.ok("", "create")
		h.signal(sig)
		h.awaitEnd()
		code, stdout, stderr := h.run("", "exec", id, "--", "cat", "/tmp/note")
		if code != 0 || stdout != "kept" || !strings.Contains(stderr, "adopted 1 persistent sandbox") {
			t.Fatalf("after %v: code %d, %q, stderr %q", sig, code, stdout, stderr)
		}
		list := h.list()
		if len(list) != 1 || list[0].ID != id || !list[0].Persistent || list[0].Metadata["a"] != "b" {
			t.Errorf("after %v: %+v", sig, list)
		}
		if code, _, stderr := h.run("", "exec", other, "--", "true"); code == 0 {
			t.Errorf("after %v a sandbox that is not persistent lives: %q", sig, stderr)
		}
		if got := h.ok("", "info", id); !strings.Contains(got, "the next supervisor adopts it") {
			t.Errorf("info says %q", got)
		}
	}
	if code, _, stderr := h.run("", "create", "--persistent", "--allow", "www.example.org"); code != exitCodes[fault.Unsupported] || !strings.Contains(stderr, "has no network") {
		t.Errorf("persistent with a network: code %d, %q", code, stderr)
	}
}

// TestEndUnderACommand ends the machine, or the supervisor, of a command that
// runs: the one is an exit, the other a failure of ours.
func TestEndUnderACommand(t *testing.T) {
	t.Parallel()
	h := newSandboxHost(t)
	tests := []struct {
		name   string
		end    func(id string)
		code   int
		stderr string
	}{
		{"sandbox_removed", func(id string) { h.ok("", "rm", id) }, 125, "ended by killed"},
		{"supervisor_terminated", func(string) { h.signal(syscall.SIGTERM) }, exitCodes[fault.Unavailable], "the supervisor is ending"},
		{"supervisor_killed", func(string) { h.signal(syscall.SIGKILL) }, exitCodes[fault.Unavailable], "supervisor broke"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id := h.ok("", "create")
			cmd := h.command("exec", id, "--", "sh", "-c", "echo started; exec sleep 600")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var errs bytes.Buffer
			cmd.Stderr = &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "started\n" {
				t.Fatalf("read %q, %v", line, err)
			}
			tt.end(id)
			_ = cmd.Wait() // the code is looked at
			if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(errs.String(), tt.stderr) {
				t.Errorf("code %d, stderr %q; want %d and %q", code, errs.String(), tt.code, tt.stderr)
			}
		})
	}
}

func TestSandboxIdleLimit(t *testing.T) {
	t.Parallel()
	h := newSandboxHost(t)
	id := h.ok("", "create", "--idle", "3s")
	code, _, stderr := h.run("", "watch", id) // a watch is no use of the sandbox
	if code != 4 || !strings.Contains(stderr, "has ended: idle limit reached") {
		t.Errorf("watch until the idle limit: code %d, stderr %q", code, stderr)
	}
}

func TestSandboxCopy(t *testing.T) {
	t.Parallel()
	h := newSandboxHost(t)
	id := h.ok("", "create")
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(outside, "mine")
	src := filepath.Join(dir, "src")
	write(filepath.Join(src, "a.txt"), "a")
	write(filepath.Join(src, "sub", "b.txt"), strings.Repeat("b", 3<<20))
	for name, target := range map[string]string{"in": "sub/b.txt", "leads-out": "../outside"} {
		if err := os.Symlink(target, filepath.Join(src, name)); err != nil {
			t.Fatal(err)
		}
	}

	code, _, stderr := h.run("", "cp", src, id+":tree")
	if code != 1 || !strings.Contains(stderr, `"leads-out"`) {
		t.Errorf("copy in: code %d, stderr %q; want 1 and the link named", code, stderr)
	}
	if got := h.ok("", "exec", id, "--", "sh", "-c", "cd tree; ls; cat a.txt; readlink in; wc -c <sub/b.txt"); got != "a.txt\nin\nsub\nasub/b.txt\n3145728" {
		t.Errorf("in the sandbox: %q", got)
	}
	h.ok("", "cp", filepath.Join(src, "a.txt"), id+":/tmp/one.txt")
	h.ok("", "cp", filepath.Join(src, "a.txt"), id+":/tmp")
	if got := h.ok("", "exec", id, "--", "cat", "/tmp/one.txt", "/tmp/a.txt"); got != "aa" {
		t.Errorf("files in the sandbox hold %q", got)
	}

	// A hostile tree: links out of it, one of them where a file of the host
	// would be written through it, and what is no file at all.
	h.ok("", "exec", id, "--", "sh", "-c", `mkdir -p evil/d && cd evil &&
		ln -s `+outside+` passwd && ln -s ../../../../../.. up && ln -s d/../../.. sneaky &&
		ln -s d inside && echo x >d/file && mkfifo fifo && chmod 4755 d/file && mkdir -m 0 locked`)
	dst := filepath.Join(dir, "dst")
	code, _, stderr = h.run("", "cp", id+":evil", dst)
	if code != 1 {
		t.Errorf("copy of a hostile tree: code %d, stderr %q; want 1", code, stderr)
	}
	for _, name := range []string{"passwd", "up", "sneaky", "fifo"} {
		if _, err := os.Lstat(filepath.Join(dst, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s came out: %v", name, err)
		}
	}
	if info, err := os.Stat(filepath.Join(dst, "inside", "file")); err != nil || info.Mode() != 0o755 {
		t.Errorf("inside/file: %v, %v; want mode 0755 and no more", info, err)
	}
	// Where the target has links of its own, nothing is written through them.
	if err := os.Remove(filepath.Join(dst, "inside")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dst, "d")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(dst, "d")); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr = h.run("", "cp", id+":evil/.", dst); code == 0 {
		t.Errorf("a link in the target was followed: %q", stderr)
	}
	if _, err := os.Lstat(filepath.Join(dir, "file")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was written outside the target: %v", err)
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "mine" {
		t.Errorf("outside holds %q, %v", b, err)
	}
	for _, tt := range []struct {
		name     string
		from, to string
		code     int
	}{
		{"link_by_name", id + ":evil/passwd", dir, 2},
		{"fifo", id + ":evil/fifo", dir, 2},
		{"missing", id + ":nothing", dir, 3},
		{"missing_here", filepath.Join(dir, "nothing"), id + ":", 3},
		{"missing_sandbox", src, "nosuch:x", 3},
		{"two_hosts", src, dst, 2},
	} {
		if code, _, stderr := h.run("", "cp", tt.from, tt.to); code != tt.code {
			t.Errorf("%s: code %d, stderr %q; want %d", tt.name, code, stderr, tt.code)
		}
	}
}

// counting is a program that counts in a file, quickly.
const counting = `n=0; while :; do n=$((n+1)); echo $n >/tmp/n.new; mv /tmp/n.new /tmp/n; sleep 0.02; done`

func TestSandboxSnapshotAndFork(t *testing.T) {
	t.Parallel()
	h := newSandboxHost(t)
	id := h.ok("", "create")
	h.ok("", "exec", "--leave", id, "--", "sh", "-c", "("+counting+") >/dev/null 2>&1 & until [ -s /tmp/n ]; do sleep 0.01; done")
	count := func(id string) int {
		t.Helper()
		n, err := strconv.Atoi(h.ok("", "exec", id, "--", "cat", "/tmp/n"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	goesOn := func(id string, from int) {
		t.Helper()
		if n := count(id); n < from {
			t.Errorf("counter of %s is at %d, it was at %d", id, n, from)
		}
		h.ok("", "exec", "--wall", "30s", id, "--", "sh", "-c", "a=$(cat /tmp/n); until [ $(cat /tmp/n) -gt $a ]; do sleep 0.02; done")
	}

	before := count(id)
	snap := h.ok("", "snapshot", id, "--keep", "24h")
	restored := h.ok("", "create", "--snapshot", snap)
	goesOn(id, before)
	goesOn(restored, before)
	if list := h.ok("", "ls", "--snapshots"); !strings.Contains(list, snap) || !strings.Contains(list, "in 23h59m") {
		t.Errorf("ls --snapshots gives %q", list)
	}

	before = count(id)
	var children []supervisor.Child
	if err := json.Unmarshal([]byte(h.ok("", "fork", id, "-n", "4", "--json")), &children); err != nil {
		t.Fatal(err)
	}
	if len(children) != 4 {
		t.Fatalf("%d children, want 4", len(children))
	}
	names := map[string]bool{}
	for _, c := range children {
		if c.Error != nil {
			t.Fatalf("child: %+v", c.Error)
		}
		goesOn(c.Sandbox.ID, before)
		names[h.ok("", "exec", c.Sandbox.ID, "--", "hostname")] = true
	}
	if len(names) != 4 {
		t.Errorf("the children's host names are %v; want four", names)
	}
	goesOn(id, before)

	h.ok("", "rm", "--snapshot", snap)
	if code, _, _ := h.run("", "create", "--snapshot", snap); code != 3 {
		t.Errorf("create from a removed snapshot: code %d, want 3", code)
	}
	if code, _, _ := h.run("", "fork", id, "-n", "0"); code != 2 {
		t.Errorf("fork of none: code %d, want 2", code)
	}
}

func TestSandboxStates(t *testing.T) {
	t.Parallel()
	h := newSandboxHost(t)
	id := h.ok("", "create", "--ttl", "10m")
	want := func(code int, args ...string) {
		t.Helper()
		got, _, stderr := h.run("", args...)
		if got != code || code != 0 && (!strings.HasPrefix(stderr, "assay: error: ") || !strings.Contains(stderr, "assay: hint: ")) {
			t.Errorf("assay sandbox %q: code %d, stderr %q; want %d with an error and a hint", args, got, stderr, code)
		}
	}
	h.ok("", "pause", id)
	want(4, "exec", id, "--", "true")
	want(4, "cp", id+":/etc/hostname", t.TempDir())
	want(4, "shell", id)
	want(4, "watch", id)
	want(4, "snapshot", id)
	if out := h.ok("", "ls"); !strings.Contains(out, "paused") {
		t.Errorf("ls of a paused sandbox: %q", out)
	}
	h.ok("", "resume", id)
	h.ok("", "exec", id, "--", "true")
	h.ok("", "extend", id, "5h")
	if out := h.ok("", "ls"); !strings.Contains(out, "in 4h59m") {
		t.Errorf("ls after extend: %q", out)
	}
	want(2, "extend", id, "0s")
	want(2, "create", "--ttl=-5m")
	want(3, "create", "--template", "nosuch")
	want(3, "create", "--snapshot", "nosuch")
	want(2, "rm")
	want(3, "rm", "nosuch")
	h.ok("", "rm", id)
	want(4, "exec", id, "--", "true")
	want(4, "info", id)
	h.ok("", "rm", id) // again is fine
	if log := h.ok("", "events", id); !strings.Contains(log, "created") || !strings.Contains(log, "destroyed") {
		t.Errorf("events after the end: %q", log)
	}
	short := h.ok("", "create", "--ttl", "10s")
	code, _, stderr := h.run("", "watch", short)
	if code != 4 || !strings.Contains(stderr, "has ended: deadline reached") {
		t.Errorf("watch until the deadline: code %d, stderr %q", code, stderr)
	}
}

func TestOneSupervisorForManyFirstCommands(t *testing.T) {
	t.Parallel()
	h := newSandboxHost(t)
	ids := make([]string, 4)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() { ids[i] = h.ok("", "create") })
	}
	all.Wait()
	if pids := h.supervisors(); len(pids) != 1 {
		t.Errorf("supervisors %v, want one", pids)
	}
	if n := len(h.list()); n != len(ids) {
		t.Errorf("%d sandboxes, want %d", n, len(ids))
	}
}

func TestKilledSupervisorIsReplaced(t *testing.T) {
	t.Parallel()
	h := newSandboxHost(t)
	ids := []string{h.ok("", "create"), h.ok("", "create"), h.ok("", "create")}
	h.signal(syscall.SIGKILL)
	h.awaitEnd()
	code, stdout, stderr := h.run("", "create")
	if code != 0 || !strings.Contains(stderr, "removed 3 machines") {
		t.Fatalf("create after the kill: code %d, stderr %q", code, stderr)
	}
	for _, id := range ids {
		if code, _, stderr := h.run("", "exec", id, "--", "true"); code != 4 || !strings.Contains(stderr, "its supervisor died") {
			t.Errorf("exec in a sandbox of the dead: code %d, stderr %q", code, stderr)
		}
	}
	h.ok("", "exec", strings.TrimSpace(stdout), "--", "true")
	h.ok("", "rm", "--all")
	h.awaitEnd()
	for _, l := range h.leftovers(ids) {
		t.Errorf("left behind: %s", l)
	}
}
