package app

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/guest"
	"assay/internal/require"
	"assay/internal/sandbox"
)

// crashChild makes this test binary the process that is killed: it opens an
// engine and creates, forks and snapshots until then.
const crashChild = "ASSAY_CRASH_CHILD"

// crashWork says what it does, if it is something else.
const (
	crashWork = "ASSAY_CRASH_WORK"
	keepOne   = "keep-one"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashChild); dir != "" {
		work := busyEngine
		if os.Getenv(crashWork) == keepOne {
			work = keepingEngine
		}
		fmt.Fprintln(os.Stderr, "child:", work(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// crashKeeper is who adopts the persistent sandboxes of the killed process, which
// had so many bytes to give out.
const (
	crashKeeper = "crash"
	crashMemory = 64 << 30
)

// liveSandboxes is how many sandboxes there are when the process is killed.
const liveSandboxes = 30

// busyEngine works until it is killed. It says "full" when all sandboxes live.
func busyEngine(dir string) error {
	ctx := context.Background()
	e, err := OpenEngine(ctx, Config{DataDir: dir, BinDir: os.Getenv("ASSAY_BIN"), Pool: 2, Memory: crashMemory, Keeper: crashKeeper})
	if err != nil {
		return err
	}
	t, err := e.Template(ctx, "base", nil)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range 4 {
		wg.Go(func() {
			for {
				if err := oneStep(ctx, e, t); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	return <-errs
}

// oneStep does one random thing, and keeps the number of sandboxes near
// liveSandboxes.
func oneStep(ctx context.Context, e *Engine, t sandbox.Template) error {
	live := e.Manager.List()
	if len(live) >= liveSandboxes {
		fmt.Println("full")
		return live[rand.IntN(len(live)/2)].Destroy()
	}
	if len(live) < 4 || rand.IntN(3) == 0 {
		_, err := e.Manager.Create(ctx, sandbox.Spec{Template: &t, Persistent: rand.IntN(3) == 0})
		return err
	}
	s := live[rand.IntN(len(live))]
	if rand.IntN(2) == 0 {
		_, err := s.Fork(ctx, 2, sandbox.Spec{Persistent: rand.IntN(3) == 0})
		return ignoreEnded(s, err)
	}
	_, err := s.Snapshot(ctx, time.Minute)
	return ignoreEnded(s, err)
}

// ignoreEnded forgives that another worker ended the sandbox meanwhile.
func ignoreEnded(s *sandbox.Sandbox, err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-s.Ended():
		return nil
	case <-time.After(10 * time.Second): // the end may be under way
		return err
	}
}

func TestKilledEngineLeavesNothing(t *testing.T) {
	dir := testData(t)
	before := map[string]bool{}
	for _, l := range leftovers(t, dir) {
		before[l] = true
	}
	left := func() (list []string) {
		for _, l := range leftovers(t, dir) {
			if !before[l] {
				list = append(list, l)
			}
		}
		return list
	}
	for round := range 2 {
		child, line := startChild(t, dir, "")
		if line != "full" {
			t.Fatalf("round %d: the child never had %d sandboxes: %q", round, liveSandboxes, line)
		}
		// A random point of whatever its workers are doing now.
		<-time.After(time.Duration(rand.IntN(300)) * time.Millisecond)
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait() // it was killed
		if len(left()) == 0 {
			t.Fatalf("round %d: nothing was left to reclaim: the check sees nothing", round)
		}

		e, err := OpenEngine(t.Context(), Config{DataDir: dir, BinDir: os.Getenv("ASSAY_BIN"), Memory: crashMemory, Keeper: crashKeeper})
		if err != nil {
			t.Fatalf("round %d: open after the crash: %v", round, err)
		}
		t.Logf("round %d: reclaimed %d machines, adopted %d", round, e.Manager.Reclaimed(), e.Manager.Adopted())
		if n := e.Manager.Reclaimed() + e.Manager.Adopted(); n < liveSandboxes {
			t.Errorf("round %d: reclaimed or adopted %d machines, want at least %d", round, n, liveSandboxes)
		}
		if n := len(e.Manager.List()); n != e.Manager.Adopted() {
			t.Errorf("round %d: %d sandboxes live, %d were adopted", round, n, e.Manager.Adopted())
		}
		for _, s := range e.Manager.List() {
			if !s.Info().Persistent {
				t.Errorf("round %d: sandbox %s was adopted and is not persistent", round, s.Info().ID)
			}
			res, err := s.Exec(t.Context(), sandbox.ExecSpec{Argv: []string{"/bin/true"}, Limits: sandbox.Limits{Wall: time.Minute}}, guest.IO{})
			if err != nil || res.Exit.Cause != guest.Exited || res.Exit.Code != 0 {
				t.Errorf("round %d: an adopted sandbox does not work: %+v, %v", round, res.Exit, err)
			}
			if err := s.Destroy(); err != nil {
				t.Errorf("round %d: %v", round, err)
			}
		}
		if err := e.Close(); err != nil {
			t.Errorf("round %d: close: %v", round, err)
		}
		for _, l := range left() {
			t.Errorf("round %d: left behind: %s", round, l)
		}
	}
}

// startChild starts the process that will be killed, and gives what it says when
// it has something to lose.
func startChild(t *testing.T, dir, work string) (child *exec.Cmd, line string) {
	t.Helper()
	child = exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), crashChild+"="+dir, crashWork+"="+work)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill() })
	lines := bufio.NewScanner(out)
	lines.Scan()
	return child, lines.Text()
}

// leftovers looks for anything of machines on this host without asking the
// engine: processes, mounts, cgroups, network namespaces and directories.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		b, err := os.ReadFile(p)
		if err == nil && strings.Contains(string(b), dir) && !strings.Contains(string(b), "-test.") {
			found = append(found, "process "+filepath.Dir(p)+": "+strings.ReplaceAll(string(b[:min(len(b), 80)]), "\x00", " "))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, dir) {
			found = append(found, "mount "+line)
		}
	}
	machines, err := filepath.Glob(filepath.Join(dir, "engine", "run", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range machines {
		found = append(found, "file "+m)
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil //nolint:nilerr // a group that vanished is not left behind
		}
		if filepath.Base(filepath.Dir(path)) == "assay" && !otherEngine(path) {
			found = append(found, "cgroup "+path)
		}
		return nil
	})
	netns, _ := filepath.Glob("/run/netns/assay*")
	return append(found, netns...)
}

// otherEngine reports whether a cgroup holds processes of an engine that this
// test did not start: other tests run machines too.
func otherEngine(group string) bool {
	b, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	return err == nil && len(b) > 0
}

// testData is a data directory with the base template, shared by the tests of
// a run: "make test" builds it.
func testData(t testing.TB) string {
	t.Helper()
	require.Root(t)
	require.Binaries(t)
	shared := os.Getenv("ASSAY_TEST_DATA")
	require.Thing(t, "templates", shared != "", "ASSAY_TEST_DATA does not name a data directory with the base template: run make test")
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(shared, "templates"), filepath.Join(dir, "templates")); err != nil {
		t.Fatal(err)
	}
	return dir
}
