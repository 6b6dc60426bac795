package gvisor

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"assay/internal/guest"
	"assay/internal/sandbox"
)

// wakeUps is how often the second thread of a process, its scheduler's monitor,
// has gone to sleep by itself.
func wakeUps(t *testing.T, pid int) int {
	t.Helper()
	tasks, err := os.Open(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer tasks.Close()
	first, err := tasks.Readdirnames(2)
	if err != nil || len(first) != 2 {
		t.Fatalf("threads of %d: %v, %v", pid, first, err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%s/status", first[1]))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "\nvoluntary_ctxt_switches:\t")
	count, _, _ := strings.Cut(after, "\n")
	n, err := strconv.Atoi(count)
	if err != nil {
		t.Fatalf("%q: %v", status, err)
	}
	return n
}

// TestMonitorSleeps: a program that computes shares its processor with the
// scheduler of the machine's kernel, which must not wake 3,000 times a second.
func TestMonitorSleeps(t *testing.T) {
	e := newEngine(t, nil)
	s := e.create(sandbox.Spec{Dedicated: true, Cores: 1})
	boot, most := 0, 1 // the others, in which programs run, have few threads
	for _, pid := range s.HostProcesses() {
		if tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)); err == nil && len(tasks) > most {
			boot, most = pid, len(tasks)
		}
	}
	before := wakeUps(t, boot)
	res, err := s.Exec(t.Context(), sandbox.ExecSpec{
		Argv: probe("spin", "1s"), Isolated: true, Limits: sandbox.Limits{CPU: 20 * time.Second, Wall: time.Minute},
	}, guest.IO{})
	if err != nil || res.Exit.Cause != guest.Exited {
		t.Fatalf("%+v, %v", res.Exit, err)
	}
	n := wakeUps(t, boot) - before
	t.Logf("%d wake-ups in %v of processor time, %v of wall clock", n, res.Usage.Counted, res.Usage.Wall)
	if most := int(1000 * max(res.Usage.Wall, time.Second).Seconds()); n > most {
		t.Errorf("the monitor woke %d times, want at most %d", n, most)
	}
}
