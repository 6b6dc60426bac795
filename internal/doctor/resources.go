package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Bounds for free space and memory. The base template takes 0.6 GiB while it
// is built and half of that afterwards; each machine starts at 40 MiB.
const (
	diskNeeded, diskAdvised     = 2 << 30, 10 << 30
	memoryNeeded, memoryAdvised = 512 << 20, 2 << 30
	filesAdvised                = 100_000
)

func checkDisk(_ context.Context, h *Host) Finding {
	const remedy = "free space there, or give a larger place with --data-dir"
	space, err := h.Space(h.DataDir)
	if err != nil {
		return fail(fmt.Sprintf("%s: %v", h.DataDir, err), "give a usable place with --data-dir")
	}
	if err := h.Writable(h.DataDir); err != nil {
		return fail(fmt.Sprintf("%s cannot be written: %v", h.DataDir, err), "give another place with --data-dir, or make this one yours")
	}
	detail := fmt.Sprintf("%s free in %s", size(space.Bytes), h.DataDir)
	switch {
	case space.Bytes < diskNeeded:
		return fail(detail+": the base template does not fit", remedy)
	case space.Files >= 0 && space.Files < filesAdvised:
		return warn(fmt.Sprintf("%s, but only %d more files", detail, space.Files), remedy)
	case space.Bytes < diskAdvised:
		return warn(detail+": little for large templates and snapshots", remedy)
	}
	return ok(detail)
}

func checkMemory(_ context.Context, h *Host) Finding {
	available, found := h.meminfo("MemAvailable")
	if !found {
		return warn("/proc/meminfo is not readable", "mount /proc")
	}
	detail := size(available) + " available"
	switch {
	case available < memoryNeeded:
		return fail(detail, "free memory, or add some: a machine and its template need 512 MiB")
	case available < memoryAdvised:
		return warn(detail+": room for few machines", "free memory, or add some")
	}
	return ok(detail)
}

func checkSwap(_ context.Context, h *Host) Finding {
	if total, found := h.meminfo("SwapTotal"); found && total > 0 {
		return warn(size(total)+": a run under memory pressure gets slow, and its time is then not its own", "swapoff -a where results count")
	}
	return ok("none")
}

func checkCPUs(_ context.Context, h *Host) Finding {
	if h.CPUs < 2 {
		return warn("1: the host's own work disturbs the time of a run", "use at least 2 CPUs where results count")
	}
	return ok(strconv.Itoa(h.CPUs))
}

func checkSMT(_ context.Context, h *Host) Finding {
	if active, found := h.readInt("/sys/devices/system/cpu/smt/active"); found && active != 0 {
		return warn("on: two runs on one core share it, and their times", "echo off > /sys/devices/system/cpu/smt/control where results count")
	}
	return ok("off")
}

func checkTurbo(_ context.Context, h *Host) Finding {
	if off, found := h.readInt("/sys/devices/system/cpu/intel_pstate/no_turbo"); found {
		if off == 0 {
			return warn("on: the same program takes less time on a cool machine", "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo where results count")
		}
		return ok("off")
	}
	if on, found := h.readInt("/sys/devices/system/cpu/cpufreq/boost"); found {
		if on != 0 {
			return warn("on: the same program takes less time on a cool machine", "echo 0 > /sys/devices/system/cpu/cpufreq/boost where results count")
		}
		return ok("off")
	}
	return ok("not controlled from here")
}

func checkGovernor(_ context.Context, h *Host) Finding {
	governor, found := h.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	switch {
	case !found:
		return ok("not controlled from here")
	case governor != "performance":
		return warn(governor+": the clock rate follows the load", "cpupower frequency-set -g performance where results count")
	}
	return ok(governor)
}

// slowClocks cost a system call or worse at each reading, which a program that
// looks at the time pays for.
var slowClocks = map[string]bool{"hpet": true, "acpi_pm": true, "jiffies": true, "refined-jiffies": true, "pit": true}

func checkClocksource(_ context.Context, h *Host) Finding {
	source, found := h.read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	switch {
	case !found:
		return warn("not known", "mount /sys")
	case slowClocks[source]:
		return warn(source+" is slow to read", "boot with tsc=reliable if the processor has a constant time-stamp counter")
	}
	return ok(source)
}

func checkErofs(_ context.Context, h *Host) Finding {
	at, err := h.LookPath("mkfs.erofs")
	if err != nil {
		return fail("not installed: no template can be built", "apt-get install erofs-utils")
	}
	return ok(at)
}

func checkMmdebstrap(_ context.Context, h *Host) Finding {
	at, err := h.LookPath("mmdebstrap")
	if err != nil {
		return warn("not installed: templates come from an OCI image or a tar only", "apt-get install mmdebstrap")
	}
	if _, err := h.LookPath("newuidmap"); err != nil && h.UID != 0 {
		return warn(at+", but newuidmap is not installed", "apt-get install uidmap")
	}
	return ok(at)
}

// companion checks for a program that must lie beside assay.
func companion(name, why string) func(context.Context, *Host) Finding {
	return func(_ context.Context, h *Host) Finding {
		const remedy = "run \"make build\", or install assay, guestd, assay-boot and assay-box into one directory"
		at := path.Join(h.BinDir, name)
		info, err := fs.Stat(h.FS, strings.TrimPrefix(at, "/"))
		switch {
		case err != nil:
			return fail("no "+at+": "+why, remedy)
		case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
			return fail(at+" is no executable file", remedy)
		}
		return ok(at)
	}
}
