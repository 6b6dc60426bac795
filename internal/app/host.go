package app

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"assay/internal/judge"
)

// hostInfo reads what this host's speed depends on, below root ("/" but in
// tests). What cannot be read stays empty: a virtual machine shows little.
func hostInfo(root string) judge.HostInfo {
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(data))
	}
	h := judge.HostInfo{Processors: runtime.NumCPU(), Governor: read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")}
	cpu := read("proc/cpuinfo")
	h.CPU, h.Microcode = field(cpu, "model name"), field(cpu, "microcode")
	for flag := range strings.FieldsSeq(field(cpu, "flags")) {
		h.Virtual = h.Virtual || flag == "hypervisor"
	}
	h.Kernel = read("proc/sys/kernel/osrelease")
	switch {
	case read("sys/devices/system/cpu/intel_pstate/no_turbo") == "1", read("sys/devices/system/cpu/cpufreq/boost") == "0":
		h.Turbo = "off"
	case read("sys/devices/system/cpu/intel_pstate/no_turbo") == "0", read("sys/devices/system/cpu/cpufreq/boost") == "1":
		h.Turbo = "on"
	}
	switch read("sys/devices/system/cpu/smt/active") {
	case "0":
		h.SMT = "off"
	case "1":
		h.SMT = "on"
	}
	h.Machine = machineName()
	data, err := json.Marshal(h)
	if err == nil {
		sum := sha256.Sum256(data)
		h.Fingerprint = hex.EncodeToString(sum[:8])
	}
	return h
}

// field gives the value of the first "name : value" line.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func machineName() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Machine[:])
}
