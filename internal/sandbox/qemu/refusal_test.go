package qemu

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"assay/internal/fault"
	"assay/internal/require"
)

// refused fails the test unless an error says what is wrong and what to do.
func refused(t *testing.T, err error, kind fault.Kind, says, hint string) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Fatalf("kind %v of %v, want %v", fault.KindOf(err), err, kind)
	}
	if !strings.Contains(err.Error(), says) || !strings.Contains(fault.HintOf(err), hint) {
		t.Errorf("%q with hint %q, want %q and %q", err, fault.HintOf(err), says, hint)
	}
}

func TestVersionThatIsNotKnownToWork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright", "7.2.22"},
		{"QEMU emulator version 7.2.0\n", "7.2.0"},
		{"QEMU emulator version 7.1.9\n", ""},
		{"QEMU emulator version 10.0.2 (Debian)\n", ""},
		{"QEMU emulator version 5.2.0\n", ""},
		{"bash 5.2\n", ""},
		{"", ""},
	} {
		got, err := parseVersion("/usr/bin/qemu", tt.text)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%q: %q, %v, want %q", tt.text, got, err, tt.want)
		}
		if err != nil {
			refused(t, err, fault.Unsupported, "/usr/bin/qemu", "qemu-system-x86")
		}
	}
}

func TestProgramThatIsNotThere(t *testing.T) {
	t.Parallel()
	_, err := qemuVersion(filepath.Join(t.TempDir(), "qemu"))
	refused(t, err, fault.Unsupported, "no such file", "qemu-system-x86")
}

// TestBoardOfThisQEMU: the best of those it has; a QEMU with none is refused.
func TestBoardOfThisQEMU(t *testing.T) {
	t.Parallel()
	const head = "Supported machines are:\n"
	for _, tt := range []struct{ text, want string }{
		{head + "microvm              microvm (i386)\nq35                  Standard PC\n", Microvm},
		{head + "pc                   Standard PC\nq35                  Standard PC (Q35 + ICH9, 2009) (alias of pc-q35-7.2)\n", Q35},
		{head + "pc                   Standard PC\nnone                 empty machine\n", ""},
		{"", ""},
	} {
		got, err := parseBoards("/usr/bin/qemu", tt.text)
		if got.name != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%q: %q, %v, want %q", tt.text, got.name, err, tt.want)
		}
		if err != nil {
			refused(t, err, fault.Unsupported, "/usr/bin/qemu", "qemu-system-x86")
		}
	}
	_, err := (&Options{Board: "pc"}).board()
	refused(t, err, fault.Invalid, "pc", "leave it out")
}

// TestKVMThatMakesNoMachine: who asks for KVM is told why it cannot be and what
// to do; who does not ask is given emulation.
func TestKVMThatMakesNoMachine(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, device, says, hint string }{
		{"none", filepath.Join(t.TempDir(), "kvm"), "no KVM", "nesting"},
		{"opens_and_makes_none", "/dev/null", "makes no machines", "kernel log"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := Options{QEMU: program, BoxBinary: program, KVMDevice: tt.device, Accel: KVM}
			err := o.settle()
			refused(t, err, fault.Unsupported, tt.says, tt.hint)
			refused(t, err, fault.Unsupported, tt.says, "--qemu-accel tcg")
			o.Accel = ""
			if err := o.settle(); err != nil || o.Accel != TCG {
				t.Errorf("left to the driver: %s, %v, want %s", o.Accel, err, TCG)
			}
		})
	}
	o := Options{QEMU: program, BoxBinary: program, Accel: "hvf"}
	refused(t, o.settle(), fault.Invalid, "hvf", "leave it out")
	o = Options{QEMU: program, BoxBinary: filepath.Join(filepath.Dir(program), "assay-box"), Accel: TCG}
	refused(t, o.settle(), fault.Unsupported, "assay-box", "make build")
}

// guestKernel makes a directory as the package's with kernels of these versions.
func guestKernel(t *testing.T, versions ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, v := range versions {
		write(t, filepath.Join(dir, "boot", "vmlinuz-"+v), "kernel")
		write(t, filepath.Join(dir, "lib", "modules", v, "modules.builtin"), "kernel/fs/erofs/erofs.ko\nkernel/drivers/virtio-mmio.ko\n")
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestNewestGuestKernel(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	_, err := findKernel([]string{empty})
	refused(t, err, fault.Unsupported, empty, "tools/install-guest-kernel")
	dir := guestKernel(t, "6.1.0-9-cloud-amd64", "6.1.0-57-cloud-amd64", "6.1.0-10-cloud-amd64")
	write(t, filepath.Join(dir, "boot", "vmlinuz-6.9.0-1-cloud-amd64"), "a kernel without modules")
	k, err := findKernel([]string{empty, dir})
	if err != nil || k.version != "6.1.0-57-cloud-amd64" {
		t.Errorf("%+v, %v", k, err)
	}
}

func TestModulesThatAGuestNeeds(t *testing.T) {
	t.Parallel()
	dir := guestKernel(t, "6.1.0-1-cloud-amd64")
	k, err := findKernel([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	if files, err := k.moduleFiles([]string{"erofs", "virtio_mmio"}); err != nil || len(files) > 0 {
		t.Errorf("built into the kernel: %v, %v", files, err)
	}
	_, err = k.moduleFiles([]string{"overlay"})
	refused(t, err, fault.Unsupported, "overlay", "tools/install-guest-kernel")
	write(t, filepath.Join(k.modules, "kernel", "overlay.ko"), "no module")
	_, err = k.moduleFiles([]string{"overlay"})
	if !fault.Is(err, fault.Unsupported) {
		t.Errorf("a file that is no module: %v", err)
	}
	write(t, filepath.Join(k.modules, "kernel", "overlay.ko.xz"), "compressed")
	_, err = k.moduleFiles([]string{"overlay"})
	refused(t, err, fault.Unsupported, "compressed", "Debian 12")
}

func TestSnapshotOfAnotherHost(t *testing.T) {
	require.Root(t)
	cfg := setup(t)
	d := cfg.Driver.(*Driver)
	machine := config(t, cfg)
	dir := t.TempDir()
	_, err := d.Restore(t.Context(), machine, dir)
	refused(t, err, fault.Invalid, "no snapshot of this driver", "take a new one")
	write(t, filepath.Join(dir, devicesFile), "")
	write(t, filepath.Join(dir, metaFile), `{"identity": "qemu 7.2.0 kvm microvm; another host", "vcpus": 2, "memory_bytes": 939524096, "memory_digest": ""}`)
	_, err = d.Restore(t.Context(), machine, dir)
	refused(t, err, fault.Invalid, "another host", "host of the same kind")
	if entries, _ := os.ReadDir(machine.Dir); len(entries) > 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// TestNamespaceIsRefused: a machine that cannot reach what it was allowed must not
// come up as if it could.
func TestNamespaceIsRefused(t *testing.T) {
	cfg := setup(t)
	machine := config(t, cfg)
	machine.NetNS = "/run/netns/any"
	_, err := cfg.Driver.Boot(t.Context(), machine)
	refused(t, err, fault.Unsupported, "as frames", "gvisor")
	if entries, _ := os.ReadDir(machine.Dir); len(entries) > 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// ordinaryChild makes this test binary a user without rights who asks for the
// driver.
const ordinaryChild = "ASSAY_QEMU_ORDINARY_CHILD"

// TestOrdinaryUserIsRefused: with the way out.
func TestOrdinaryUserIsRefused(t *testing.T) {
	t.Parallel()
	require.Root(t) // to become somebody else
	const nobody = 65534
	child := exec.Command("/proc/self/exe", "-test.run=^$")
	child.Env = []string{ordinaryChild + "=1"}
	child.Dir = "/"
	child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := child.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "only root") || !strings.Contains(string(out), "unshare") {
		t.Errorf("%s, %v", out, err)
	}
}
