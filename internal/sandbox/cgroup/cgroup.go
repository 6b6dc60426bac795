// Package cgroup keeps the host's cgroups of one machine, on cgroup v1 and v2:
// the wall around all that the machine is. Start with Find and Tree.Make.
//
// It knows nothing of drivers: a driver puts its processes in by writing their
// IDs to the files that Group.Procs names.
package cgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// parent is the directory below which all machines' groups lie.
const parent = "assay"

// Tree is the host's cgroup file system, as far as it can be used.
type Tree struct {
	v2 string            // mount point of v2, with its controllers
	v1 map[string]string // controller → mount point
}

// None is the tree of a host whose cgroups cannot be used: its groups hold
// nothing, limit nothing and count nothing.
func None() *Tree { return &Tree{} }

// Usable reports whether groups of the tree hold anything.
func (t *Tree) Usable() bool { return t.v2 != "" || len(t.v1) > 0 }

// v1Controllers are what is used of cgroup v1; memory, cpuacct and pids must
// be there, the others are used where they are.
var v1Controllers = []string{"memory", "cpuacct", "pids", "cpu"}

// Find looks for usable cgroups below /sys/fs/cgroup. It fails with
// fault.Unsupported and the remedy when there are none to be written.
func Find() (*Tree, error) { return find("/sys/fs/cgroup") }

func find(root string) (*Tree, error) {
	if b, err := os.ReadFile(filepath.Join(root, "cgroup.controllers")); err == nil {
		have := strings.Fields(string(b))
		for _, c := range []string{"memory", "pids", "cpu"} {
			if !contains(have, c) {
				return nil, unusable("controller %s is missing in %s", c, root)
			}
		}
		enable := "+memory +pids +cpu"
		if contains(have, "cpuset") {
			enable += " +cpuset"
		}
		t := &Tree{v2: root}
		return t, t.prepareV2(enable)
	}
	t := &Tree{v1: map[string]string{}}
	for _, c := range v1Controllers {
		if _, err := os.Stat(filepath.Join(root, c, "cgroup.procs")); err == nil {
			t.v1[c] = filepath.Join(root, c)
		}
	}
	for _, c := range []string{"memory", "cpuacct", "pids"} {
		dir, ok := t.v1[c]
		if !ok {
			return nil, unusable("controller %s is missing in %s", c, root)
		}
		if err := makeParent(filepath.Join(dir, parent)); err != nil {
			return nil, err
		}
	}
	if dir, ok := t.v1["cpu"]; ok {
		if err := makeParent(filepath.Join(dir, parent)); err != nil {
			return nil, err
		}
	}
	t.addCPUSet(root)
	t.addPressure(root)
	return t, nil
}

// makeParent makes the directory of all groups, which must be ours to write.
func makeParent(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return unusable("%v", err)
	}
	if err := unix.Access(dir, unix.W_OK); err != nil {
		return unusable("%s: %v", dir, err)
	}
	return nil
}

func unusable(format string, args ...any) error {
	return fault.Errorf(fault.Unsupported, "cgroups cannot be used: "+format, args...).
		WithHint("run as root on a host with the memory, cpu and pids controllers, or have them delegated")
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// prepareV2 enables the controllers from the root down to the machines.
func (t *Tree) prepareV2(enable string) error {
	dir := filepath.Join(t.v2, parent)
	if err := makeParent(dir); err != nil {
		return err
	}
	for _, d := range []string{t.v2, dir} {
		if err := os.WriteFile(filepath.Join(d, "cgroup.subtree_control"), []byte(enable), 0); err != nil {
			return unusable("%v", err)
		}
	}
	return nil
}

// ErrNone is given for what only a usable tree can count.
var ErrNone = errors.New("no cgroups on this host")

// Limits are the bounds of a machine as a whole.
type Limits struct {
	Memory    int64 // bytes; reaching it ends the machine
	Processes int
}

// Group is one machine's place.
type Group struct {
	dirs map[string]string // controller → directory; "" for v2
}

// At names the group of a machine without making it.
func (t *Tree) At(id string) *Group {
	g := &Group{dirs: map[string]string{}}
	if t.v2 != "" {
		g.dirs[""] = filepath.Join(t.v2, parent, id)
	}
	for c, mount := range t.v1 {
		g.dirs[c] = filepath.Join(mount, parent, id)
	}
	return g
}

// Make makes the group of a machine. A group left by an earlier life is an
// error; Remove it first.
func (t *Tree) Make(id string, l Limits) (*Group, error) {
	g := t.At(id)
	for _, dir := range g.dirs {
		if err := os.Mkdir(dir, 0o755); err != nil {
			_ = g.rmdir()
			return nil, fmt.Errorf("make cgroup: %w", err)
		}
	}
	if len(g.dirs) == 0 {
		return g, nil
	}
	if err := g.openCPUSet(); err != nil {
		_ = g.rmdir()
		return nil, fmt.Errorf("set up cgroup: %w", err)
	}
	set := [][2]string{
		{g.file("memory", "memory.limit_in_bytes", "memory.max"), strconv.FormatInt(l.Memory, 10)},
		{g.file("pids", "pids.max", "pids.max"), strconv.Itoa(l.Processes)},
	}
	for _, kv := range set {
		if err := os.WriteFile(kv[0], []byte(kv[1]), 0); err != nil {
			_ = g.rmdir()
			return nil, fmt.Errorf("set cgroup limit: %w", err)
		}
	}
	// Swapped-out memory would be memory beyond the limit. Hosts without swap
	// accounting have no such file, and nothing to set.
	_ = os.WriteFile(g.file("memory", "memory.swappiness", "memory.swap.max"), []byte("0"), 0)
	return g, nil
}

// file is a control file by its v1 controller and name, or its v2 name.
func (g *Group) file(controller, v1, v2 string) string {
	if dir, ok := g.dirs[""]; ok {
		return filepath.Join(dir, v2)
	}
	return filepath.Join(g.dirs[controller], v1)
}

// Procs are the files a process ID is written to, to move it in.
func (g *Group) Procs() []string {
	var list []string
	for _, dir := range g.dirs {
		list = append(list, filepath.Join(dir, "cgroup.procs"))
	}
	return list
}

// Usage is what the host counts of a group.
type Usage struct {
	// CPU is Group.CPU, Waited Group.Waited.
	CPU, Waited time.Duration
	// Memory and MemoryPeak are Group.Memory, in bytes.
	Memory, MemoryPeak int64
}

// Usage is all that the host counts. Its errors are fault.Unavailable.
func (g *Group) Usage() (u Usage, err error) {
	if u.CPU, err = g.CPU(); err == nil {
		u.Memory, u.MemoryPeak, err = g.Memory()
	}
	if err != nil {
		return Usage{}, fault.Errorf(fault.Unavailable, "read usage: %w", err)
	}
	u.Waited = g.Waited()
	return u, nil
}

// CPU is the processor time of all processes that were ever in the group.
func (g *Group) CPU() (time.Duration, error) {
	if len(g.dirs) == 0 {
		return 0, ErrNone
	}
	b, err := os.ReadFile(g.file("cpuacct", "cpuacct.usage", "cpu.stat"))
	if err != nil {
		return 0, err
	}
	if _, ok := g.dirs[""]; ok {
		return time.Duration(keyed(b, "usage_usec")) * time.Microsecond, nil
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	return time.Duration(n), err
}

// Memory is what the group holds now and the most it ever held, in bytes. The
// peak is 0 where the kernel does not count it.
func (g *Group) Memory() (now, peak int64, err error) {
	if len(g.dirs) == 0 {
		return 0, 0, ErrNone
	}
	b, err := os.ReadFile(g.file("memory", "memory.usage_in_bytes", "memory.current"))
	if err != nil {
		return 0, 0, err
	}
	if now, err = strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64); err != nil {
		return 0, 0, err
	}
	if b, err := os.ReadFile(g.file("memory", "memory.max_usage_in_bytes", "memory.peak")); err == nil {
		peak, _ = strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	}
	return now, peak, nil
}

// OutOfMemory reports whether the kernel killed a process of the group because
// of its memory limit.
func (g *Group) OutOfMemory() bool {
	if len(g.dirs) == 0 {
		return false
	}
	b, err := os.ReadFile(g.file("memory", "memory.oom_control", "memory.events"))
	return err == nil && keyed(b, "oom_kill") > 0
}

func keyed(b []byte, key string) int64 {
	for line := range bytes.Lines(b) {
		k, v, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if ok && string(k) == key {
			n, _ := strconv.ParseInt(string(v), 10, 64)
			return n
		}
	}
	return 0
}

// PIDs are the processes in the group now, in every hierarchy.
func (g *Group) PIDs() []int {
	seen := map[int]bool{}
	var list []int
	for _, p := range g.Procs() {
		b, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		for _, f := range bytes.Fields(b) {
			if n, err := strconv.Atoi(string(f)); err == nil && !seen[n] {
				seen[n] = true
				list = append(list, n)
			}
		}
	}
	return list
}

// Remove kills what is in the group and takes the group away. It is fine when
// the group, or part of it, is gone already.
func (g *Group) Remove(ctx context.Context) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		for _, pid := range g.PIDs() {
			p, err := os.FindProcess(pid)
			if err == nil {
				_ = p.Kill() // gone already is as good
				_ = p.Release()
			}
		}
		err := g.rmdir()
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) {
			return fmt.Errorf("remove cgroup: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("remove cgroup: %w", errors.Join(context.Cause(ctx), err))
		case <-time.After(wait):
		}
	}
}

func (g *Group) rmdir() error {
	var errs []error
	for _, dir := range g.dirs {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
