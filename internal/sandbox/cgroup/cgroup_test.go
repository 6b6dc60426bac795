package cgroup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/fault"
)

// tree makes what a host shows below /sys/fs/cgroup, as plain files.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		put(t, filepath.Join(root, name), text)
	}
	return root
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

var v1Files = map[string]string{
	"memory/cgroup.procs": "", "cpuacct/cgroup.procs": "", "pids/cgroup.procs": "", "cpu/cgroup.procs": "",
}

// v2Files has the machines' directory already: a plain directory does not grow
// control files by itself.
var v2Files = map[string]string{
	"cgroup.controllers": "cpuset cpu io memory pids\n", "cgroup.subtree_control": "", "assay/cgroup.subtree_control": "",
}

func without(files map[string]string, name string) map[string]string {
	out := map[string]string{}
	for k, v := range files {
		if k != name {
			out[k] = v
		}
	}
	return out
}

func TestFind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		files map[string]string
		ok    bool
	}{
		{"v1", v1Files, true},
		{"v1-without-cpu", without(v1Files, "cpu/cgroup.procs"), true},
		{"v1-without-memory", without(v1Files, "memory/cgroup.procs"), false},
		{"v1-without-pids", without(v1Files, "pids/cgroup.procs"), false},
		{"v1-without-cpuacct", without(v1Files, "cpuacct/cgroup.procs"), false},
		{"v2", v2Files, true},
		{"v2-without-memory", map[string]string{"cgroup.controllers": "cpu pids\n"}, false},
		{"v2-without-cpu", map[string]string{"cgroup.controllers": "memory pids cpuset\n"}, false},
		{"v2-no-controllers", map[string]string{"cgroup.controllers": ""}, false},
		{"nothing", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := find(tree(t, tt.files))
			if tt.ok != (err == nil) {
				t.Fatalf("find: %v", err)
			}
			if err != nil && (!fault.Is(err, fault.Unsupported) || fault.HintOf(err) == "") {
				t.Errorf("%v without kind or hint", err)
			}
		})
	}
	if _, err := find(filepath.Join(t.TempDir(), "none")); !fault.Is(err, fault.Unsupported) {
		t.Errorf("find below nothing: %v", err)
	}
}

func TestFindEnablesV2(t *testing.T) {
	t.Parallel()
	root := tree(t, v2Files)
	if _, err := find(root); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", parent} {
		if got := read(t, filepath.Join(root, dir, "cgroup.subtree_control")); got != "+memory +pids +cpu +cpuset" {
			t.Errorf("%q enables %q", dir, got)
		}
	}
	if _, err := find(root); err != nil { // a second time
		t.Error(err)
	}
}

func TestMake(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  map[string]string
		procs []string
	}{
		{"v1", v1Files, map[string]string{
			"memory/assay/m/memory.limit_in_bytes": "1000", "memory/assay/m/memory.swappiness": "0", "pids/assay/m/pids.max": "7",
		}, []string{"cpu/assay/m", "cpuacct/assay/m", "memory/assay/m", "pids/assay/m"}},
		{"v2", v2Files, map[string]string{
			"assay/m/memory.max": "1000", "assay/m/memory.swap.max": "0", "assay/m/pids.max": "7",
		}, []string{"assay/m"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := tree(t, tt.files)
			tr, err := find(root)
			if err != nil {
				t.Fatal(err)
			}
			// In a plain directory control files are ordinary ones, which os.WriteFile
			// makes without permissions.
			if os.Geteuid() != 0 {
				t.Skip("only root reads files without permissions")
			}
			g, err := tr.Make("m", Limits{Memory: 1000, Processes: 7})
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range tt.want {
				if got := read(t, filepath.Join(root, name)); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			var procs []string
			for _, p := range g.Procs() {
				rel, _ := filepath.Rel(root, p)
				procs = append(procs, strings.TrimSuffix(rel, "/cgroup.procs"))
			}
			slices.Sort(procs)
			if !slices.Equal(procs, tt.procs) {
				t.Errorf("procs in %v, want %v", procs, tt.procs)
			}
			if _, err := tr.Make("m", Limits{Memory: 1, Processes: 1}); err == nil {
				t.Error("made twice")
			}
			for name, want := range tt.want {
				if got := read(t, filepath.Join(root, name)); got != want {
					t.Errorf("after a second make %s is %q, want %q", name, got, want)
				}
			}
		})
	}
}

// TestMakeFails: what was made before the failure is removed.
func TestMakeFails(t *testing.T) {
	t.Parallel()
	root := tree(t, v1Files)
	tr, err := find(root)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(root, "pids/assay/m/kept"), "") // of somebody else
	if _, err := tr.Make("m", Limits{}); !errors.Is(err, os.ErrExist) {
		t.Errorf("make: %v", err)
	}
	for _, c := range []string{"memory", "cpuacct", "cpu"} {
		if _, err := os.Stat(filepath.Join(root, c, "assay/m")); err == nil {
			t.Errorf("left in %s", c)
		}
	}
}

func TestCounters(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		files map[string]string
		add   map[string]string
	}{
		{"v1", v1Files, map[string]string{
			"cpuacct/assay/m/cpuacct.usage": "1500000000\n", "memory/assay/m/memory.usage_in_bytes": "4096\n",
			"memory/assay/m/memory.max_usage_in_bytes": "8192\n", "memory/assay/m/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
			"memory/assay/m/cgroup.procs": "11\n12\n", "pids/assay/m/cgroup.procs": "12\n13\n",
		}},
		{"v2", v2Files, map[string]string{
			"assay/m/cpu.stat": "usage_usec 1500000\nuser_usec 1\nsystem_usec 2\n", "assay/m/memory.current": "4096\n",
			"assay/m/memory.peak": "8192\n", "assay/m/memory.events": "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\n",
			"assay/m/cgroup.procs": "11\n12\n13\n",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := tree(t, tt.files)
			tr, err := find(root)
			if err != nil {
				t.Fatal(err)
			}
			g := tr.At("m")
			if _, err := g.CPU(); err == nil {
				t.Error("CPU of a group that is not there")
			}
			if _, _, err := g.Memory(); err == nil {
				t.Error("memory of a group that is not there")
			}
			if g.OutOfMemory() || len(g.PIDs()) > 0 {
				t.Error("a group that is not there has processes")
			}
			for name, text := range tt.add {
				put(t, filepath.Join(root, name), text)
			}
			if cpu, err := g.CPU(); err != nil || cpu != 1500*time.Millisecond {
				t.Errorf("CPU %v, %v", cpu, err)
			}
			if now, peak, err := g.Memory(); err != nil || now != 4096 || peak != 8192 {
				t.Errorf("memory %d, %d, %v", now, peak, err)
			}
			if !g.OutOfMemory() {
				t.Error("not out of memory")
			}
			pids := g.PIDs()
			slices.Sort(pids)
			if !slices.Equal(pids, []int{11, 12, 13}) {
				t.Errorf("processes %v", pids)
			}
		})
	}
}

func TestMemoryWithoutPeak(t *testing.T) {
	t.Parallel()
	root := tree(t, v2Files)
	tr, err := find(root)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(root, "assay/m/memory.current"), "4096\n")
	if now, peak, err := tr.At("m").Memory(); err != nil || now != 4096 || peak != 0 {
		t.Errorf("memory %d, %d, %v", now, peak, err)
	}
	put(t, filepath.Join(root, "assay/m/memory.current"), "many\n")
	if _, _, err := tr.At("m").Memory(); err == nil {
		t.Error("no error of a number that is none")
	}
	put(t, filepath.Join(root, "assay/m/memory.events"), "oom_kill\nx\n\noom_kill 0\n")
	if tr.At("m").OutOfMemory() {
		t.Error("out of memory without a kill")
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	root := tree(t, v1Files)
	tr, err := find(root)
	if err != nil {
		t.Fatal(err)
	}
	g := tr.At("m")
	if err := g.Remove(t.Context()); err != nil {
		t.Errorf("remove what is not there: %v", err)
	}
	for _, c := range []string{"memory", "cpu"} { // the others are gone already
		if err := os.Mkdir(filepath.Join(root, c, "assay/m"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Remove(t.Context()); err != nil {
		t.Errorf("remove: %v", err)
	}
	for _, c := range v1Controllers {
		if _, err := os.Stat(filepath.Join(root, c, "assay/m")); err == nil {
			t.Errorf("left in %s", c)
		}
	}
	// A directory that holds a file cannot be removed, at once and with a reason.
	put(t, filepath.Join(root, "memory/assay/m/sub/kept"), "")
	if err := g.Remove(t.Context()); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Errorf("remove a group with something in it: %v", err)
	}
}

// TestHost uses the cgroups of this host, where there are any.
func TestHost(t *testing.T) {
	tr, err := Find()
	if err != nil {
		t.Skipf("no cgroups here: %v", err)
	}
	g, err := tr.Make("cgroup-test", Limits{Memory: 64 << 20, Processes: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	p, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := p.Wait()
		ended <- err
	}()
	for _, file := range g.Procs() {
		if err := os.WriteFile(file, []byte(strconv.Itoa(p.Pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
	if pids := g.PIDs(); !slices.Equal(pids, []int{p.Pid}) {
		t.Errorf("processes %v, want %d", pids, p.Pid)
	}
	if _, _, err := g.Memory(); err != nil {
		t.Error(err)
	}
	if _, err := g.CPU(); err != nil {
		t.Error(err)
	}
	if g.OutOfMemory() {
		t.Error("out of memory")
	}
	if err := g.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, file := range g.Procs() {
		if _, err := os.Stat(filepath.Dir(file)); err == nil {
			t.Errorf("left: %s", filepath.Dir(file))
		}
	}
}
