package cgroup

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// unified is the directory of v2 beside the controllers of v1. It limits
// nothing there, but its groups have the kernel's count of waiting.
const unified = "unified"

// addPressure takes it into the tree if it can be used.
func (t *Tree) addPressure(root string) {
	mount := filepath.Join(root, unified)
	if _, err := os.Stat(filepath.Join(mount, "cpu.pressure")); err != nil {
		return
	}
	if makeParent(filepath.Join(mount, parent)) == nil {
		t.v1[unified] = mount
	}
}

// Waited is for how long at least one thread of the group was ready to run and
// did not. It is 0 where the kernel does not count it.
func (g *Group) Waited() time.Duration {
	dir, ok := g.dirs[""]
	if !ok {
		if dir, ok = g.dirs[unified]; !ok {
			return 0
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "cpu.pressure"))
	if err != nil {
		return 0
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	_, total, _ := bytes.Cut(line, []byte("total="))
	us, _ := strconv.ParseInt(string(bytes.TrimSpace(total)), 10, 64)
	return time.Duration(us) * time.Microsecond
}
