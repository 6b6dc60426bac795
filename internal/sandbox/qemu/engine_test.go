package qemu

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
	"assay/internal/sandbox/drivertest"
)

// crashChild makes this test binary the process that is killed: it opens an
// engine in the directory, makes a sandbox and a fork of it, and waits.
const crashChild = "ASSAY_QEMU_CRASH_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashChild); dir != "" {
		fmt.Fprintln(os.Stderr, "child:", busyEngine(dir))
		os.Exit(1)
	}
	if os.Getenv(ordinaryChild) != "" {
		_, err := New(Options{})
		fmt.Println(err, fault.HintOf(err))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// newEngine opens an engine over a driver, in a directory.
func newEngine(ctx context.Context, d sandbox.Driver, dir string) (*sandbox.Manager, error) {
	return sandbox.Open(ctx, sandbox.Options{Driver: d, Dir: dir, CPUs: 2, Memory: 8 << 30})
}

func baseTemplate(image, dir string) *sandbox.Template {
	return &sandbox.Template{Name: "base", Digest: "sha256:engine-test", Image: image, Shape: drivertest.DefaultShape, Snapshots: filepath.Join(dir, "warm")}
}

// busyEngine works until it is killed. It says "full" when all machines live.
func busyEngine(dir string) error {
	ctx := context.Background()
	bin := os.Getenv("ASSAY_BIN")
	d, err := New(Options{Guestd: filepath.Join(bin, "guestd"), BoxBinary: filepath.Join(bin, "assay-box"), CacheDir: dir, Accel: TCG})
	if err != nil {
		return err
	}
	m, err := newEngine(ctx, d, dir)
	if err != nil {
		return err
	}
	s, err := m.Create(ctx, sandbox.Spec{Template: baseTemplate(os.Getenv("ASSAY_TEST_IMAGE"), dir), Cold: true})
	if err != nil {
		return err
	}
	forked, err := s.Fork(ctx, 2, sandbox.Spec{})
	if err != nil {
		return err
	}
	for _, f := range forked {
		if f.Err != nil {
			return f.Err
		}
	}
	fmt.Println("full")
	select {}
}

// TestKilledEngineLeavesNothing: when the process that made machines is killed,
// its machines die with it, and the next start removes what is left of them.
func TestKilledEngineLeavesNothing(t *testing.T) {
	cfg := setup(t)
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), crashChild+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "full" {
		_ = child.Process.Kill()
		t.Fatalf("the child never had its machines: %q", lines.Text())
	}
	found, err := filepath.Glob(filepath.Join(dir, "run", "*", "*.json"))
	if err != nil || len(found) != 3 {
		t.Fatalf("%d machines in the journal, want 3: %v", len(found), err)
	}
	var ids []string
	for _, f := range found {
		ids = append(ids, strings.TrimSuffix(filepath.Base(f), ".json"))
	}
	if n := len(processes(t, ids)); n != 3 {
		t.Fatalf("%d processes of 3 machines: the check sees nothing", n)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	deadline := time.Now().Add(10 * time.Second)
	for left := processes(t, ids); len(left) > 0; left = processes(t, ids) {
		if time.Now().After(deadline) {
			t.Fatalf("they outlive the process that made them: %v", left)
		}
		<-time.After(5 * time.Millisecond)
	}
	m, err := newEngine(t.Context(), cfg.Driver, dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := m.Reclaimed(); n != 3 {
		t.Errorf("%d machines reclaimed, want 3", n)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	for _, id := range ids {
		if groups, _ := filepath.Glob("/sys/fs/cgroup/*/assay/" + id); len(groups) > 0 {
			t.Errorf("left behind: %v", groups)
		}
		if files, _ := filepath.Glob(filepath.Join(dir, "run", "*", id+"*")); len(files) > 0 {
			t.Errorf("left behind: %v", files)
		}
	}
}

// processes are those of the host that name one of the machines.
func processes(t *testing.T, ids []string) (list []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		b, _ := os.ReadFile(p) // may have ended
		for _, id := range ids {
			if strings.Contains(string(b), id) {
				list = append(list, filepath.Dir(p))
			}
		}
	}
	return list
}

// TestBox: QEMU has no rights, no network and nothing of the host to see.
func TestBox(t *testing.T) {
	cfg := setup(t)
	m, err := cfg.Driver.Boot(t.Context(), config(t, cfg))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Destroy(context.Background()) })
	if _, err := guest.NewClient(m.Link()).Hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	pids := m.Processes()
	if len(pids) != 1 {
		t.Fatalf("processes %v, want QEMU alone", pids)
	}
	proc := fmt.Sprintf("/proc/%d/", pids[0])
	status, err := os.ReadFile(proc + "status")
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]string{}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		has[key] = strings.Join(strings.Fields(value), " ")
	}
	none := "0000000000000000"
	for key, want := range map[string]string{
		"CapEff": none, "CapPrm": none, "CapInh": none, "CapAmb": none, "NoNewPrivs": "1", "Seccomp": "2", "Groups": "",
	} {
		if has[key] != want {
			t.Errorf("%s is %q, want %q", key, has[key], want)
		}
	}
	var uid int
	if _, err := fmt.Sscan(has["Uid"], &uid); err != nil || uid < firstUser || uid >= firstUser+users {
		t.Errorf("it runs as user %q", has["Uid"])
	}
	for _, ns := range []string{"net", "mnt", "pid", "ipc", "uts"} {
		mine, _ := os.Readlink("/proc/self/ns/" + ns)
		its, err := os.Readlink(proc + "ns/" + ns)
		if err != nil || its == mine {
			t.Errorf("it shares namespace %s with the host, %v", ns, err)
		}
	}
	for _, path := range []string{"/etc/shadow", "/root", "/home", "/var", "/tmp", "/run", "/sys", "/dev/kvm", "/dev/vda"} {
		if _, err := os.Lstat(proc + "root" + path); err == nil {
			t.Errorf("it sees the host's %s", path)
		}
	}
	if err := unix.Access(proc+"root/usr", unix.W_OK); err == nil {
		t.Error("its /usr can be written to")
	}
}

// TestBoardWithoutMicrovm: the other board makes the same machines. The suite
// runs on the first one; this is the way of one machine from its boot to its
// end. What was frozen on one board is not restored on the other.
func TestBoardWithoutMicrovm(t *testing.T) {
	cfg := setupOn(t, Q35)
	dir := t.TempDir()
	m, err := newEngine(t.Context(), cfg.Driver, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	template := baseTemplate(cfg.Image, dir)
	if _, err := m.Prepare(t.Context(), *template); err != nil {
		t.Fatal(err)
	}
	s, err := m.Create(t.Context(), sandbox.Spec{Template: template})
	if err != nil {
		t.Fatal(err)
	}
	if mode := s.Info().BootMode; mode != sandbox.BootSnapshot || !strings.Contains(s.Info().DriverIdentity, Q35) {
		t.Errorf("it came from %s of %q", mode, s.Info().DriverIdentity)
	}
	say(t, s, "echo kept > /tmp/kept; echo said", "said\n")
	snap, err := s.Snapshot(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	again, err := m.Create(t.Context(), sandbox.Spec{Snapshot: snap.ID})
	if err != nil {
		t.Fatal(err)
	}
	say(t, again, "cat /tmp/kept", "kept\n")
	say(t, s, "cat /tmp/kept", "kept\n")

	other, err := newEngine(t.Context(), setupOn(t, Microvm).Driver, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	})
	_, err = other.Create(t.Context(), sandbox.Spec{Snapshot: snap.ID})
	refused(t, err, fault.Invalid, Q35, "make a new one here")
}

// say runs a shell command that must print so much.
func say(t *testing.T, s *sandbox.Sandbox, command, want string) {
	t.Helper()
	var out bytes.Buffer
	res, err := s.Exec(t.Context(), sandbox.ExecSpec{Argv: []string{"/bin/sh", "-c", command}}, guest.IO{Stdout: &out})
	if err != nil || res.Exit.Cause != guest.Exited || out.String() != want {
		t.Errorf("%q: %q, %+v, %v, want %q", command, out.String(), res.Exit, err, want)
	}
}
