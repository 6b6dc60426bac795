package sandbox

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// HostIdentity names what of this host a snapshot of any driver depends on: its
// kernel and its processors' features. Drivers put it into Driver.Identity.
func HostIdentity() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", fmt.Errorf("read kernel version: %w", err)
	}
	flags := ""
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "flags" {
				flags = strings.TrimSpace(v)
				break
			}
		}
	}
	return fmt.Sprintf("linux %s %s; cpu %s", unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:]), flags), nil
}
