// Package box is what the QEMU driver tells the program that shuts QEMU in
// (cmd/assay-box): where its root is made, as which user it runs, which cgroups
// it joins. Start with Box. It must import nothing heavy: that program links it.
package box

import (
	"encoding/json"
	"errors"
)

// Box is one QEMU's.
type Box struct {
	// Root is an empty directory, over which the root that QEMU sees is mounted,
	// in QEMU's own mount namespace.
	Root string `json:"root"`
	// User is QEMU's user and group; 0 leaves both as they are.
	User int `json:"user"`
	// Procs are the cgroup.procs files of the machine's cgroups on the host.
	Procs []string `json:"procs"`
	// Devices are device files that QEMU needs: /dev/kvm.
	Devices []string `json:"devices,omitempty"`
}

// Args are the arguments of the program that shuts another one in.
func (b Box) Args(program string, args ...string) ([]string, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	return append([]string{string(text), program}, args...), nil
}

// Parse reads them again.
func Parse(args []string) (b Box, command []string, err error) {
	if len(args) < 2 {
		return b, nil, errors.New("a box and a program are needed")
	}
	return b, args[1:], json.Unmarshal([]byte(args[0]), &b)
}
