package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Oldest kernels: below the first gVisor does not start, below the second
// cgroup v2 and clone3 lack what the engine uses to kill and count.
var (
	kernelNeeded  = [2]int{4, 15}
	kernelAdvised = [2]int{5, 14}
)

func checkUser(_ context.Context, h *Host) Finding {
	if h.UID == 0 {
		return ok("root")
	}
	return warn(fmt.Sprintf("uid %d, not root: no cgroup of the host around a machine, only the limits inside, and no persistent sandboxes", h.UID),
		"run assay as root where results count")
}

func checkKernel(_ context.Context, h *Host) Finding {
	const remedy = "boot Linux 5.14 or later"
	release, found := h.read("/proc/sys/kernel/osrelease")
	if !found {
		return fail("no Linux kernel found under /proc", "mount /proc; Assay runs on Linux only")
	}
	detail := release + " " + h.Arch
	if h.Arch != "amd64" && h.Arch != "arm64" {
		return fail(detail, "use an x86-64 or 64-bit ARM host")
	}
	v, parsed := kernelVersion(release)
	switch {
	case !parsed:
		return warn(detail+": version not understood", remedy)
	case slices.Compare(v[:], kernelNeeded[:]) < 0:
		return fail(detail+": too old", remedy)
	case slices.Compare(v[:], kernelAdvised[:]) < 0:
		return warn(detail+": old", remedy)
	}
	return ok(detail)
}

// kernelVersion reads "6.18.44-something" as 6, 18.
func kernelVersion(release string) (v [2]int, ok bool) {
	for i := range v {
		digits := release
		if end := strings.IndexFunc(release, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
			digits, release = release[:end], release[end+1:]
		}
		n, err := strconv.Atoi(digits)
		if err != nil {
			return v, false
		}
		v[i] = n
	}
	return v, true
}

// namespacesForMachines is what gVisor advises for a host with many machines;
// one machine needs two.
const namespacesForMachines, namespacesForOne = 256, 2

func checkUserNamespaces(ctx context.Context, h *Host) Finding {
	if _, err := fs.Stat(h.FS, "proc/self/ns/user"); err != nil {
		return fail("the kernel has none", "boot a kernel with CONFIG_USER_NS=y")
	}
	const limit = "/proc/sys/user/max_user_namespaces"
	if n, found := h.readInt(limit); found && n < namespacesForOne {
		return fail(fmt.Sprintf("user.max_user_namespaces is %d", n), "sysctl -w user.max_user_namespaces=15000")
	}
	if n, found := h.readInt("/proc/sys/kernel/unprivileged_userns_clone"); found && n == 0 && h.UID != 0 {
		return fail("only root may make them", "sysctl -w kernel.unprivileged_userns_clone=1, or run assay as root")
	}
	if err := h.MakeUserNamespace(ctx); err != nil {
		remedy := "allow user namespaces for this process: a container's seccomp profile or a security module refuses them"
		if n, found := h.readInt("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"); found && n != 0 && h.UID != 0 {
			remedy = "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give assay an AppArmor profile with the userns rule"
		}
		return fail(fmt.Sprintf("making one fails: %v", err), remedy)
	}
	if n, found := h.readInt(limit); found && n < namespacesForMachines {
		return warn(fmt.Sprintf("user.max_user_namespaces is %d: enough for %d machines", n, n/namespacesForOne), "sysctl -w user.max_user_namespaces=15000")
	}
	return ok("works")
}

func checkSeccomp(_ context.Context, h *Host) Finding {
	actions, found := h.read("/proc/sys/kernel/seccomp/actions_avail")
	if !found {
		return fail("the kernel has no seccomp filters", "boot a kernel with CONFIG_SECCOMP_FILTER=y")
	}
	have := strings.Fields(actions)
	for _, need := range []string{"trap", "errno", "kill_process"} {
		if !slices.Contains(have, need) {
			return fail("action "+need+" is missing", "boot Linux 5.14 or later")
		}
	}
	return ok("filters available")
}

func checkPtrace(_ context.Context, h *Host) Finding {
	const remedy = "sysctl -w kernel.yama.ptrace_scope=1"
	switch scope, found := h.readInt("/proc/sys/kernel/yama/ptrace_scope"); {
	case !found:
		return ok("not restricted")
	case scope >= 3:
		return fail("kernel.yama.ptrace_scope is 3: nobody may trace a child", "set kernel.yama.ptrace_scope=1 in /etc/sysctl.d and reboot: 3 cannot be taken back")
	case scope == 2 && h.UID != 0:
		return fail("kernel.yama.ptrace_scope is 2: only root may trace a child", remedy)
	default:
		return ok(fmt.Sprintf("kernel.yama.ptrace_scope is %d", scope))
	}
}

func checkKVM(_ context.Context, h *Host) Finding {
	const dev = "/dev/kvm"
	if _, err := fs.Stat(h.FS, "dev/kvm"); err != nil {
		return warn("no "+dev+": gVisor uses its systrap platform, QEMU emulates", "use a host with hardware virtualisation (load kvm_intel or kvm_amd; switch on nesting in a virtual machine)")
	}
	if err := h.MakeVM(); err != nil {
		remedy := "check the host's log for kvm"
		if errors.Is(err, fs.ErrPermission) {
			remedy = "add this user to the group kvm, then log in again"
		}
		return warn(fmt.Sprintf("%s cannot be used, and QEMU emulates: %v", dev, err), remedy)
	}
	return ok(dev + " can be used")
}

const (
	pidMaxAdvised   = 32768
	mapCountAdvised = 262144
)

func checkPidMax(_ context.Context, h *Host) Finding {
	n, found := h.readInt("/proc/sys/kernel/pid_max")
	switch {
	case !found:
		return warn("kernel.pid_max is not readable", "mount /proc")
	case n < pidMaxAdvised:
		return warn(fmt.Sprintf("kernel.pid_max is %d: few processes for many machines", n), "sysctl -w kernel.pid_max=4194304")
	}
	return ok(strconv.FormatInt(n, 10))
}

func checkMapCount(_ context.Context, h *Host) Finding {
	n, found := h.readInt("/proc/sys/vm/max_map_count")
	switch {
	case !found:
		return ok("no bound known")
	case n < mapCountAdvised:
		return warn(fmt.Sprintf("vm.max_map_count is %d: a program with many mappings may fail in its machine", n), fmt.Sprintf("sysctl -w vm.max_map_count=%d", mapCountAdvised))
	}
	return ok(strconv.FormatInt(n, 10))
}

func checkOvercommit(_ context.Context, h *Host) Finding {
	if n, found := h.readInt("/proc/sys/vm/overcommit_memory"); found && n == 2 {
		return warn("vm.overcommit_memory is 2: machines reserve far more address space than they use and may be refused", "sysctl -w vm.overcommit_memory=0")
	}
	return ok("not strict")
}
