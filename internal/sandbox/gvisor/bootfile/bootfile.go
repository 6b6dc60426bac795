// Package bootfile is what the gVisor driver tells its boot process besides
// gVisor's own configuration. Start with File. It must import nothing heavy:
// the boot process links it.
package bootfile

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

const name = "boot.json"

// File is the content.
type File struct {
	// Procs are the cgroup.procs files of the machine's cgroups on the host:
	// one for each hierarchy of cgroup v1, or the only one of v2.
	Procs []string `json:"procs"`
	// Memory is what the guest is told to have, in bytes.
	Memory int64 `json:"memory"`
	// CPUs is how many processors the guest sees.
	CPUs int `json:"cpus"`
	// Filter is the path of the compiled system call filter.
	Filter string `json:"filter"`
	// Persistent says that the machine outlives the process that starts it.
	Persistent bool `json:"persistent,omitempty"`
}

// The host's ends of a persistent machine's sockets. The boot process keeps them
// open under these numbers and never uses them: when the process that made the
// machine is gone, the next one takes them from there. They are passed like the
// guest's own, under the same numbers. Whoever breaks into the boot process has
// the guest's ends anyway.
const (
	KeptLink  = 905
	KeptWires = 906
)

// FilterCommand makes the boot binary write the compiled system call filter of
// the platform that follows to stdout.
const FilterCommand = "compile-filter"

// Write puts the file into a bundle directory.
func (f File) Write(bundle string) error {
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(bundle, name), b, 0o600)
}

// Read reads the file of a bundle directory.
func Read(bundle string) (File, error) {
	var f File
	b, err := os.ReadFile(filepath.Join(bundle, name))
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(b, &f)
}

// Join moves a process into the machine's cgroups.
func (f File) Join(pid int) error {
	for _, p := range f.Procs {
		if err := os.WriteFile(p, strconv.AppendInt(nil, int64(pid), 10), 0); err != nil {
			return fmt.Errorf("join cgroup: %w", err)
		}
	}
	return nil
}

// LogPath is the named pipe for guestd's stdout and stderr.
func LogPath(bundle string) string { return filepath.Join(bundle, "log") }

// Flags are the boot command's flags for the machine's size.
func (f File) Flags() []string {
	return []string{"--total-memory=" + strconv.FormatInt(f.Memory, 10), "--cpu-num=" + strconv.Itoa(f.CPUs)}
}
