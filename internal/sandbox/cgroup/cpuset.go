package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// The cpuset controller is used where it is. A group of v1 must be given
// processors and memory nodes before a process can join it; one of v2 has its
// parent's until it is told otherwise.

// addCPUSet takes the controller of v1 into the tree if it can be used.
func (t *Tree) addCPUSet(root string) {
	mount := filepath.Join(root, "cpuset")
	dir := filepath.Join(mount, parent)
	if makeParent(dir) != nil {
		return
	}
	if copyFile(mount, dir, "cpuset.cpus") == nil && copyFile(mount, dir, "cpuset.mems") == nil {
		t.v1["cpuset"] = mount
	}
}

func copyFile(from, to, name string) error {
	b, err := os.ReadFile(filepath.Join(from, name))
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return fmt.Errorf("%s of %s is empty", name, from)
	}
	return os.WriteFile(filepath.Join(to, name), b, 0)
}

// openCPUSet lets processes join a new group of v1.
func (g *Group) openCPUSet() error {
	dir, ok := g.dirs["cpuset"]
	if !ok {
		return nil
	}
	return errors.Join(copyFile(filepath.Dir(dir), dir, "cpuset.cpus"), copyFile(filepath.Dir(dir), dir, "cpuset.mems"))
}

// Pin lets the processes of the group run on these processors only: by the
// cpuset controller, else one thread after the other, each of which hands it
// down to those it starts. Its errors are fault.Unsupported where there are no
// cgroups, and else fault.Unavailable.
func (g *Group) Pin(cores []int) error {
	if len(g.dirs) == 0 {
		return fault.Errorf(fault.Unsupported, "bind to processors: %w", ErrNone)
	}
	if err := g.pin(cores); err != nil {
		return fault.Errorf(fault.Unavailable, "bind to processors: %w", err)
	}
	return nil
}

func (g *Group) pin(cores []int) error {
	list := make([]string, len(cores))
	for i, c := range cores {
		list[i] = strconv.Itoa(c)
	}
	_, v1 := g.dirs["cpuset"]
	_, v2 := g.dirs[""]
	if v1 || v2 {
		err := os.WriteFile(g.file("cpuset", "cpuset.cpus", "cpuset.cpus"), []byte(strings.Join(list, ",")), 0)
		// A tree of v2 that was delegated without the controller has no such file.
		if err == nil || v1 || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return g.pinThreads(cores)
}

// pinThreads binds every thread. A thread that was not yet bound may start
// another meanwhile, so it looks until it finds none that is new.
func (g *Group) pinThreads(cores []int) error {
	var set unix.CPUSet
	for _, c := range cores {
		set.Set(c)
	}
	done := map[int]bool{}
	for news := true; news; {
		news = false
		for _, pid := range g.PIDs() {
			tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
			if err != nil {
				continue // has ended
			}
			for _, task := range tasks {
				tid, err := strconv.Atoi(task.Name())
				if err != nil || done[tid] {
					continue
				}
				if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
					return fmt.Errorf("bind thread %d: %w", tid, err)
				}
				done[tid], news = true, true
			}
		}
	}
	return nil
}
