package doctor

import (
	"context"
	"fmt"
	"path"
	"strings"
)

// cgroupControllers are needed: the wall for memory, the quota and count of
// CPU time, the bound on processes.
var cgroupControllers = []string{"memory", "cpu", "cpuacct", "pids"}

// hierarchy is where one controller is mounted.
type hierarchy struct {
	version int // 1 or 2
	dir     string
}

// hierarchies finds the controllers Assay needs. cpuacct is part of cpu in
// version 2.
func (h *Host) hierarchies() map[string]hierarchy {
	found := map[string]hierarchy{}
	mounts, readable := h.read("/proc/self/mountinfo")
	if !readable {
		return found
	}
	for line := range strings.Lines(mounts) {
		left, right, isMount := strings.Cut(strings.TrimSpace(line), " - ")
		fields, tail := strings.Fields(left), strings.Fields(right)
		if !isMount || len(fields) < 5 || len(tail) < 3 {
			continue
		}
		dir := fields[4]
		switch tail[0] {
		case "cgroup":
			for _, c := range strings.Split(tail[2], ",") {
				found[c] = hierarchy{1, dir}
			}
		case "cgroup2":
			controllers, _ := h.read(path.Join(dir, "cgroup.controllers"))
			for _, c := range strings.Fields(controllers) {
				// A controller is in one hierarchy only, so no v1 entry is lost.
				found[c] = hierarchy{2, dir}
				if c == "cpu" {
					found["cpuacct"] = hierarchy{2, dir}
				}
			}
		}
	}
	return found
}

func checkCgroups(_ context.Context, h *Host) Finding {
	have := h.hierarchies()
	var missing []string
	versions := map[int]bool{}
	for _, c := range cgroupControllers {
		if at, there := have[c]; there {
			versions[at.version] = true
		} else {
			missing = append(missing, c)
		}
	}
	if len(missing) > 0 {
		return h.weaker("controllers missing: "+strings.Join(missing, ", "),
			"mount cgroup v2 at /sys/fs/cgroup (mount -t cgroup2 none /sys/fs/cgroup), or boot with cgroup_enable=memory")
	}
	names := "v2"
	if versions[1] {
		names = "v1"
	}
	if len(versions) > 1 {
		names = "v1 and v2"
	}
	return ok(names + ": " + strings.Join(cgroupControllers, ", "))
}

func checkCgroupWrite(_ context.Context, h *Host) Finding {
	have := h.hierarchies()
	tried := map[string]bool{}
	for _, c := range cgroupControllers {
		at, there := have[c]
		if !there {
			continue
		}
		dir := path.Join(at.dir, h.ownCgroup(c, at.version))
		if tried[dir] {
			continue
		}
		tried[dir] = true
		if err := h.MakeCgroup(dir); err != nil {
			remedy := "mount the cgroup filesystem writable (a container needs --privileged, or a delegated cgroup)"
			if h.UID != 0 {
				remedy = "run assay as root, or in a delegated cgroup (systemd-run --user --scope -p Delegate=yes assay …)"
			}
			return h.weaker(fmt.Sprintf("no cgroup can be made for %s: %v", c, err), remedy)
		}
	}
	if len(tried) == 0 {
		return h.weaker("no controller to write to", "see the check cgroups")
	}
	return ok("cgroups can be made")
}

// ownCgroup is the part of a hierarchy where this process may make cgroups:
// all of it for root, the cgroup it is in for others.
func (h *Host) ownCgroup(controller string, version int) string {
	if h.UID == 0 {
		return "/"
	}
	text, _ := h.read("/proc/self/cgroup")
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if version == 2 && parts[0] == "0" {
			return parts[2]
		}
		for _, c := range strings.Split(parts[1], ",") {
			if version == 1 && c == controller {
				return parts[2]
			}
		}
	}
	return "/"
}

// weaker is a failure for root, who relies on the host's wall, and a warning
// for others, who do without it and were told so by the check user.
func (h *Host) weaker(detail, remedy string) Finding {
	if h.UID == 0 {
		return fail(detail, remedy)
	}
	return warn(detail, remedy)
}
