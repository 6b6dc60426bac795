package cgroup

import (
	"errors"
	"maps"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// TestPinWrites: what the controller is told, and that a group of v1 can be
// joined at all.
func TestPinWrites(t *testing.T) {
	t.Parallel()
	v1 := maps.Clone(v1Files)
	maps.Copy(v1, map[string]string{"cpuset/cgroup.procs": "", "cpuset/cpuset.cpus": "0-3\n", "cpuset/cpuset.mems": "0\n"})
	root := tree(t, v1)
	tr, err := find(root)
	if err != nil {
		t.Fatal(err)
	}
	g, err := tr.Make("m", Limits{Memory: 1 << 20, Processes: 8})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "cpuset", parent, "m")
	if cpus, mems := read(t, filepath.Join(dir, "cpuset.cpus")), read(t, filepath.Join(dir, "cpuset.mems")); cpus != "0-3\n" || mems != "0\n" {
		t.Errorf("a new group has %q and %q", cpus, mems)
	}
	if err := g.Pin([]int{1, 3}); err != nil || read(t, filepath.Join(dir, "cpuset.cpus")) != "1,3" {
		t.Errorf("pinned: %v, %q", err, read(t, filepath.Join(dir, "cpuset.cpus")))
	}
	if err := None().At("m").Pin([]int{0}); !errors.Is(err, ErrNone) || !fault.Is(err, fault.Unsupported) {
		t.Errorf("without cgroups: %v", err)
	}
	// A cpuset that nothing may run in is not used.
	v1["cpuset/cpuset.mems"] = "\n"
	if tr, err = find(tree(t, v1)); err != nil || tr.v1["cpuset"] != "" {
		t.Errorf("an empty cpuset: %v, used at %q", err, tr.v1["cpuset"])
	}
}

// TestPinThreads binds a process with threads that start others.
func TestPinThreads(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", "while :; do sleep 0.01 & wait; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(cmd.Process.Kill(), cmd.Wait()) }()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(cmd.Process.Pid, &before); err != nil {
		t.Fatal(err)
	}
	if before.Count() < 2 {
		t.Skipf("this host lets processes run on %d processor", runtime.NumCPU())
	}
	dir := t.TempDir()
	put(t, filepath.Join(dir, "cgroup.procs"), strconv.Itoa(cmd.Process.Pid))
	g := &Group{dirs: map[string]string{"memory": dir}}
	last := 0
	for i := range 1024 {
		if before.IsSet(i) {
			last = i
		}
	}
	if err := g.Pin([]int{last}); err != nil {
		t.Fatal(err)
	}

	var after unix.CPUSet
	if err := unix.SchedGetaffinity(cmd.Process.Pid, &after); err != nil || after.Count() != 1 || !after.IsSet(last) {
		t.Errorf("bound to %v, %v", after, err)
	}
}
