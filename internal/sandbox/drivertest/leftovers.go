package drivertest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// leftovers looks for what a machine left on the host, by means that no driver
// shares: processes, mounts, cgroups, network namespaces and files that carry
// its ID or lie in its directory.
func leftovers(id, dir string) []string {
	var left []string
	note := func(what, which string) { left = append(left, what+" "+which) }
	procs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	for _, p := range procs {
		for _, name := range []string{"cmdline", "cgroup", "environ"} {
			b, _ := os.ReadFile(filepath.Join(p, name)) // may have ended
			if strings.Contains(string(b), id) {
				note("process", p+" by its "+name+": "+strings.ReplaceAll(string(b), "\x00", " "))
				break
			}
		}
		// A process that holds a file of the machine.
		fds, _ := filepath.Glob(p + "/fd/*")
		for _, fd := range fds {
			if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, dir+"/") {
				note("open file", p+": "+to)
			}
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, id) || strings.Contains(line, dir+"/") {
			note("mount", line)
		}
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(d.Name(), id) {
			note("cgroup", path)
		}
		return nil // what has gone meanwhile is not left
	})
	for _, place := range []string{"/run/netns", "/var/run", "/run", "/tmp", "/dev/shm"} {
		entries, _ := os.ReadDir(place) // need not exist
		for _, e := range entries {
			if strings.Contains(e.Name(), id) {
				note("file", filepath.Join(place, e.Name()))
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		note("directory", err.Error())
	}
	for _, e := range entries {
		note("file", filepath.Join(dir, e.Name()))
	}
	return left
}
