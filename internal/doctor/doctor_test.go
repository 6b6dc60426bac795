package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"assay/internal/fault"
)

// goodFiles are the files of a host that lacks nothing.
const goodFiles = `
-- proc/sys/kernel/osrelease --
6.12.9-amd64
-- proc/self/ns/user --

-- proc/sys/user/max_user_namespaces --
15000
-- proc/sys/kernel/seccomp/actions_avail --
kill_process kill_thread trap errno user_notif trace log allow
-- proc/sys/kernel/yama/ptrace_scope --
1
-- proc/sys/kernel/pid_max --
4194304
-- proc/sys/vm/max_map_count --
1048576
-- proc/sys/vm/overcommit_memory --
0
-- proc/meminfo --
MemTotal:       16000000 kB
MemAvailable:    8000000 kB
SwapTotal:             0 kB
-- proc/self/mountinfo --
31 23 0:28 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate
-- proc/self/cgroup --
0::/user.slice/me
-- sys/fs/cgroup/cgroup.controllers --
cpuset cpu io memory pids
-- dev/kvm --

-- sys/devices/system/cpu/smt/active --
0
-- sys/devices/system/cpu/intel_pstate/no_turbo --
1
-- sys/devices/system/cpu/cpu0/cpufreq/scaling_governor --
performance
-- sys/devices/system/clocksource/clocksource0/current_clocksource --
tsc
`

// goodHost describes a host that lacks nothing; a test takes away from it.
func goodHost() *Host {
	files := fstest.MapFS{}
	for _, f := range txtar.Parse([]byte(goodFiles)).Files {
		files[f.Name] = &fstest.MapFile{Data: f.Data, Mode: 0o444}
	}
	for _, program := range []string{"opt/assay/guestd", "opt/assay/assay-boot", "opt/assay/assay-box", "boot/vmlinuz-6.1.0-1-cloud-amd64"} {
		files[program] = &fstest.MapFile{Data: []byte("\x7fELF"), Mode: 0o755}
	}
	return &Host{
		FS:                files,
		UID:               0,
		Arch:              "amd64",
		CPUs:              8,
		DataDir:           "/var/lib/assay",
		BinDir:            "/opt/assay",
		LookPath:          func(program string) (string, error) { return "/usr/bin/" + program, nil },
		Space:             func(string) (Space, error) { return Space{Bytes: 100 << 30, Files: 1_000_000}, nil },
		Writable:          func(string) error { return nil },
		MakeCgroup:        func(string) error { return nil },
		MakeUserNamespace: func(context.Context) error { return nil },
		QEMUVersion:       func(context.Context) (string, error) { return "7.2.22", nil },
		MakeVM:            func() error { return nil },
		MakeNetwork:       func() error { return nil },
	}
}

func TestGoodHostIsReady(t *testing.T) {
	t.Parallel()
	r := Examine(t.Context(), goodHost())
	for _, f := range r.Findings {
		if f.Level != OK || f.Detail == "" || f.Remedy != "" {
			t.Errorf("check %s on a good host: %+v", f.Check, f)
		}
	}
	if !r.Ready() || len(r.Findings) != len(checks) {
		t.Errorf("ready %v with %d findings, want true with %d", r.Ready(), len(r.Findings), len(checks))
	}
}

// TestMissingThingIsNamed takes one thing away from a good host at a time: the
// check for it, and no other, must say so and give the remedy.
func TestMissingThingIsNamed(t *testing.T) {
	t.Parallel()
	set := func(path, text string) func(*Host) {
		return func(h *Host) { h.FS.(fstest.MapFS)[path] = &fstest.MapFile{Data: []byte(text), Mode: 0o444} }
	}
	remove := func(path string) func(*Host) {
		return func(h *Host) { delete(h.FS.(fstest.MapFS), path) }
	}
	lacks := func(missing string) func(*Host) {
		return func(h *Host) {
			h.LookPath = func(program string) (string, error) {
				if program == missing {
					return "", exec.ErrNotFound
				}
				return "/usr/bin/" + program, nil
			}
		}
	}
	free := func(s Space) func(*Host) {
		return func(h *Host) { h.Space = func(string) (Space, error) { return s, nil } }
	}
	ordinary := func(h *Host) { h.UID = 1000 }
	both := func(a, b func(*Host)) func(*Host) { return func(h *Host) { a(h); b(h) } }
	refusedCgroup := func(h *Host) { h.MakeCgroup = func(string) error { return fs.ErrPermission } }
	refusedNamespace := func(h *Host) {
		h.MakeUserNamespace = func(context.Context) error { return errors.New("operation not permitted") }
	}

	tests := []struct {
		name   string
		change func(*Host)
		// want maps each check that is not ok to its level.
		want   map[string]Level
		remedy string
	}{
		{"not_root", ordinary, map[string]Level{"user": Warn}, "as root"},
		{"kernel_old", set("proc/sys/kernel/osrelease", "5.4.0-generic"), map[string]Level{"kernel": Warn}, "5.14"},
		{"kernel_too_old", set("proc/sys/kernel/osrelease", "3.10.0"), map[string]Level{"kernel": Fail}, "5.14"},
		{"kernel_odd", set("proc/sys/kernel/osrelease", "custom"), map[string]Level{"kernel": Warn}, "5.14"},
		{"kernel_not_linux", remove("proc/sys/kernel/osrelease"), map[string]Level{"kernel": Fail}, "/proc"},
		{"arch_unknown", func(h *Host) { h.Arch = "386" }, map[string]Level{"kernel": Fail}, "64-bit"},
		{"no_user_namespaces", remove("proc/self/ns/user"), map[string]Level{"user_namespaces": Fail}, "CONFIG_USER_NS"},
		{"user_namespaces_zero", set("proc/sys/user/max_user_namespaces", "0"), map[string]Level{"user_namespaces": Fail}, "max_user_namespaces="},
		{"user_namespaces_few", set("proc/sys/user/max_user_namespaces", "20"), map[string]Level{"user_namespaces": Warn}, "max_user_namespaces="},
		{"user_namespaces_root_only", both(ordinary, set("proc/sys/kernel/unprivileged_userns_clone", "0")), map[string]Level{"user": Warn, "user_namespaces": Fail}, "unprivileged_userns_clone=1"},
		{"user_namespaces_refused", refusedNamespace, map[string]Level{"user_namespaces": Fail}, "seccomp profile"},
		{"user_namespaces_apparmor", both(both(ordinary, refusedNamespace), set("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1")), map[string]Level{"user": Warn, "user_namespaces": Fail}, "apparmor"},
		{"no_cgroups", set("proc/self/mountinfo", ""), map[string]Level{"cgroups": Fail, "cgroup_write": Fail}, "mount cgroup v2"},
		{"cgroup_memory_missing", set("sys/fs/cgroup/cgroup.controllers", "cpu pids"), map[string]Level{"cgroups": Fail}, "cgroup_enable=memory"},
		{"cgroup_read_only", refusedCgroup, map[string]Level{"cgroup_write": Fail}, "writable"},
		{"cgroup_read_only_not_root", both(ordinary, refusedCgroup), map[string]Level{"user": Warn, "cgroup_write": Warn}, "Delegate=yes"},
		{"no_seccomp", remove("proc/sys/kernel/seccomp/actions_avail"), map[string]Level{"seccomp": Fail}, "CONFIG_SECCOMP_FILTER"},
		{"seccomp_without_trap", set("proc/sys/kernel/seccomp/actions_avail", "errno kill_process"), map[string]Level{"seccomp": Fail}, "Linux"},
		{"ptrace_forbidden", set("proc/sys/kernel/yama/ptrace_scope", "3"), map[string]Level{"ptrace": Fail}, "ptrace_scope=1"},
		{"ptrace_root_only", both(ordinary, set("proc/sys/kernel/yama/ptrace_scope", "2")), map[string]Level{"user": Warn, "ptrace": Fail}, "ptrace_scope=1"},
		{"no_kvm", remove("dev/kvm"), map[string]Level{"kvm": Warn}, "hardware virtualisation"},
		{"kvm_denied", func(h *Host) { h.MakeVM = func() error { return fs.ErrPermission } }, map[string]Level{"kvm": Warn}, "group kvm"},
		{"no_guestd", remove("opt/assay/guestd"), map[string]Level{"guestd": Fail}, "make build"},
		{"no_boot", remove("opt/assay/assay-boot"), map[string]Level{"assay-boot": Fail}, "make build"},
		{"guestd_not_executable", set("opt/assay/guestd", "text"), map[string]Level{"guestd": Fail}, "make build"},
		{"no_qemu", lacks("qemu-system-x86_64"), map[string]Level{"drivers": Warn}, "install --no-install-recommends qemu-system-x86"},
		{"qemu_too_new", func(h *Host) { h.QEMUVersion = func(context.Context) (string, error) { return "10.0.2", nil } }, map[string]Level{"drivers": Warn}, "Debian 12"},
		{"qemu_broken", func(h *Host) {
			h.QEMUVersion = func(context.Context) (string, error) { return "", errors.New("exit status 127") }
		}, map[string]Level{"drivers": Warn}, "Debian 12"},
		{"no_guest_kernel", remove("boot/vmlinuz-6.1.0-1-cloud-amd64"), map[string]Level{"drivers": Warn}, "tools/install-guest-kernel"},
		{"no_box", remove("opt/assay/assay-box"), map[string]Level{"drivers": Warn}, "make build"},
		{"no_network", func(h *Host) {
			h.MakeNetwork = func() error {
				return fault.Errorf(fault.Unsupported, "make a network namespace: not permitted").WithHint("CAP_NET_ADMIN")
			}
		}, map[string]Level{"network": Warn}, "CAP_NET_ADMIN"},
		{"network_fails", func(h *Host) { h.MakeNetwork = func() error { return errors.New("no more") } }, map[string]Level{"network": Warn}, "--allow example.org"},
		{"no_mkfs_erofs", lacks("mkfs.erofs"), map[string]Level{"mkfs.erofs": Fail}, "erofs-utils"},
		{"no_mmdebstrap", lacks("mmdebstrap"), map[string]Level{"mmdebstrap": Warn}, "install mmdebstrap"},
		{"no_newuidmap", both(ordinary, lacks("newuidmap")), map[string]Level{"user": Warn, "mmdebstrap": Warn}, "uidmap"},
		{"disk_full", free(Space{Bytes: 1 << 30, Files: -1}), map[string]Level{"disk": Fail}, "--data-dir"},
		{"disk_small", free(Space{Bytes: 3 << 30, Files: -1}), map[string]Level{"disk": Warn}, "--data-dir"},
		{"inodes_gone", free(Space{Bytes: 30 << 30, Files: 10}), map[string]Level{"disk": Warn}, "--data-dir"},
		{"disk_unreadable", func(h *Host) { h.Space = func(string) (Space, error) { return Space{}, fs.ErrPermission } }, map[string]Level{"disk": Fail}, "--data-dir"},
		{"disk_read_only", func(h *Host) { h.Writable = func(string) error { return fs.ErrPermission } }, map[string]Level{"disk": Fail}, "--data-dir"},
		{"memory_short", set("proc/meminfo", "MemAvailable: 400000 kB"), map[string]Level{"memory": Fail}, "512 MiB"},
		{"memory_little", set("proc/meminfo", "MemAvailable: 1000000 kB"), map[string]Level{"memory": Warn}, "add some"},
		{"swap", set("proc/meminfo", "MemAvailable: 8000000 kB\nSwapTotal: 2000000 kB"), map[string]Level{"swap": Warn}, "swapoff"},
		{"overcommit_strict", set("proc/sys/vm/overcommit_memory", "2"), map[string]Level{"overcommit": Warn}, "overcommit_memory=0"},
		{"map_count_low", set("proc/sys/vm/max_map_count", "65530"), map[string]Level{"map_count": Warn}, "max_map_count="},
		{"pid_max_low", set("proc/sys/kernel/pid_max", "4096"), map[string]Level{"pid_max": Warn}, "pid_max="},
		{"one_cpu", func(h *Host) { h.CPUs = 1 }, map[string]Level{"cpus": Warn}, "2 CPUs"},
		{"smt_on", set("sys/devices/system/cpu/smt/active", "1"), map[string]Level{"smt": Warn}, "smt/control"},
		{"turbo_on_intel", set("sys/devices/system/cpu/intel_pstate/no_turbo", "0"), map[string]Level{"turbo": Warn}, "no_turbo"},
		{"turbo_on_other", both(remove("sys/devices/system/cpu/intel_pstate/no_turbo"), set("sys/devices/system/cpu/cpufreq/boost", "1")), map[string]Level{"turbo": Warn}, "boost"},
		{"governor_saves", set("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave"), map[string]Level{"governor": Warn}, "performance"},
		{"clock_slow", set("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet"), map[string]Level{"clocksource": Warn}, "tsc"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := goodHost()
			tt.change(h)
			r := Examine(t.Context(), h)
			got := map[string]Level{}
			var remedies strings.Builder
			for _, f := range r.Findings {
				if f.Level == OK {
					continue
				}
				got[f.Check] = f.Level
				if f.Remedy == "" || f.Detail == "" {
					t.Errorf("check %s is %s without detail or remedy: %+v", f.Check, f.Level, f)
				}
				remedies.WriteString(f.Remedy + "\n")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("checks that are not ok (-want +got):\n%s", diff)
			}
			if !strings.Contains(remedies.String(), tt.remedy) {
				t.Errorf("remedies %q, want one with %q", remedies.String(), tt.remedy)
			}
		})
	}
}

func TestCgroupHierarchies(t *testing.T) {
	t.Parallel()
	const v1 = `32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw`
	tests := []struct {
		name, mounts, self string
		uid                int
		detail             string
		dirs               []string
	}{
		{
			"v1_root", v1, "", 0, "v1: memory, cpu, cpuacct, pids",
			[]string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/pids"},
		},
		{
			"v1_user", v1, "4:memory:/a\n3:cpu,cpuacct:/b\n2:pids:/c\n0::/d", 1000, "v1: memory, cpu, cpuacct, pids",
			[]string{"/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/cpu,cpuacct/b", "/sys/fs/cgroup/pids/c"},
		},
		{
			"v2_root", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw", "", 0, "v2: memory, cpu, cpuacct, pids",
			[]string{"/sys/fs/cgroup"},
		},
		{
			"v2_user", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw", "0::/user.slice/me", 1000, "v2: memory, cpu, cpuacct, pids",
			[]string{"/sys/fs/cgroup/user.slice/me"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := goodHost()
			h.UID = tt.uid
			files := h.FS.(fstest.MapFS)
			files["proc/self/mountinfo"].Data = []byte(tt.mounts)
			files["proc/self/cgroup"].Data = []byte(tt.self)
			var dirs []string
			h.MakeCgroup = func(dir string) error { dirs = append(dirs, dir); return nil }

			if f := checkCgroups(t.Context(), h); f.Level != OK || f.Detail != tt.detail {
				t.Errorf("cgroups: %+v, want ok %q", f, tt.detail)
			}
			if f := checkCgroupWrite(t.Context(), h); f.Level != OK {
				t.Errorf("cgroup write: %+v, want ok", f)
			}
			if diff := cmp.Diff(tt.dirs, dirs); diff != "" {
				t.Errorf("cgroups tried (-want +got):\n%s", diff)
			}
		})
	}
}

// TestThisHostLeavesNothing examines the real host: whatever it finds, the
// report is whole and no cgroup of the check stays.
func TestThisHostLeavesNothing(t *testing.T) {
	t.Parallel()
	h, err := ThisHost(t.TempDir() + "/not/there/yet")
	if err != nil {
		t.Fatal(err)
	}
	var probed []string
	makeReal := h.MakeCgroup
	h.MakeCgroup = func(dir string) error { probed = append(probed, dir); return makeReal(dir) }
	r := Examine(t.Context(), h)
	if len(r.Findings) != len(checks) {
		t.Errorf("%d findings, want %d", len(r.Findings), len(checks))
	}
	for _, dir := range probed {
		left, err := fs.Glob(h.FS, strings.TrimPrefix(dir, "/")+"/assay-doctor-*")
		if err != nil || len(left) > 0 {
			t.Errorf("left behind in %s: %v, %v", dir, left, err)
		}
	}
}

// TestWhichDriverToChoose: what this host can run, what to choose and why.
func TestWhichDriverToChoose(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*Host)
		want   []string
	}{
		{"kvm", func(*Host) {}, []string{"gvisor, the default", "qemu 7.2.22 with KVM", "--driver qemu"}},
		{"no_kvm", func(h *Host) { delete(h.FS.(fstest.MapFS), "dev/kvm") }, []string{"gvisor, the default and to be chosen", "qemu 7.2.22 emulated for want of KVM", "tests only"}},
		{
			"kvm_makes_no_machine", func(h *Host) { h.MakeVM = func() error { return errors.New("make a machine: input/output error") } },
			[]string{"gvisor, the default and to be chosen", "qemu 7.2.22 emulated", "KVM cannot be used (make a machine: input/output error)"},
		},
		{"arm", func(h *Host) { h.Arch = "arm64" }, []string{"gvisor;", "x86-64"}},
		{"no_qemu", func(h *Host) {
			h.LookPath = func(string) (string, error) { return "", exec.ErrNotFound }
		}, []string{"gvisor, the default;", "no qemu-system-x86_64"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := goodHost()
			tt.change(h)
			f := checkDrivers(t.Context(), h)
			for _, want := range tt.want {
				if !strings.Contains(f.Detail, want) {
					t.Errorf("%q, want %q in it", f.Detail, want)
				}
			}
		})
	}
}
