// Package require lets a test say what it needs of the host: a program, root,
// KVM, our own binaries. Start with Tool, Root and Binaries. Where the thing is
// missing the test is skipped with the reason; when the thing's name is listed
// in the environment variable REQUIRE ("root,mkfs.erofs,bin") the test fails
// instead, so that a complete host leaves nothing silently untested.
//
// It is imported by tests only and knows no other package of Assay.
package require

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The names of things that are not programs, for REQUIRE.
const (
	root     = "root"
	kvm      = "kvm"
	qemu     = "qemu"
	binaries = "bin"
	postgres = "postgres"
)

// Tool returns the path of a program ("mkfs.erofs"). Its name in REQUIRE is
// the program's.
func Tool(t testing.TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		missing(t, program, "program "+program+" is not installed")
	}
	return path
}

// Root needs the test to run as root; "root" in REQUIRE.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, root, "not running as root")
	}
}

// KVM needs a usable /dev/kvm; "kvm" in REQUIRE.
func KVM(t testing.TB) {
	t.Helper()
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		missing(t, kvm, "no usable /dev/kvm")
		return
	}
	f.Close()
}

// Binaries returns the absolute directory with the built assay, guestd,
// assay-boot and assay-box: ASSAY_BIN, which "make test" sets. "bin" in REQUIRE.
func Binaries(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("ASSAY_BIN")
	if dir == "" {
		missing(t, binaries, "ASSAY_BIN is not set: run the tests with \"make test\"")
		return ""
	}
	for _, name := range []string{"assay", "guestd", "assay-boot", "assay-box"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			missing(t, binaries, "no "+name+" in "+dir+": run \"make build\"")
		}
	}
	return dir
}

// guestKernels are where driver qemu finds the kernel of its guests.
var guestKernels = []string{"/usr/local/lib/assay/guest-kernel/boot/vmlinuz-*-cloud-amd64", "/boot/vmlinuz-*-cloud-amd64"}

// QEMU needs what driver qemu does: the program and a kernel for its guests, as
// tools/install-guest-kernel puts it. "qemu" in REQUIRE.
func QEMU(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		missing(t, qemu, "program qemu-system-x86_64 is not installed")
	}
	for _, pattern := range guestKernels {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			return
		}
	}
	missing(t, qemu, "no kernel for guests of QEMU: run tools/install-guest-kernel")
}

// Postgres returns the URL of a PostgreSQL server whose user may make schemas:
// ASSAY_TEST_POSTGRES, which tools/with-postgres sets. "postgres" in REQUIRE.
func Postgres(t testing.TB) string {
	t.Helper()
	url := os.Getenv("ASSAY_TEST_POSTGRES")
	if url == "" {
		missing(t, postgres, "ASSAY_TEST_POSTGRES is not set: run the tests with \"tools/with-postgres\"")
	}
	return url
}

// Thing is for a need that has no function here: have is what the test found,
// name is the one for REQUIRE, reason says what is missing.
func Thing(t testing.TB, name string, have bool, reason string) {
	t.Helper()
	if !have {
		missing(t, name, reason)
	}
}

// missing ends the test: as failed when name is required here, else skipped.
func missing(t testing.TB, name, reason string) {
	t.Helper()
	required := strings.FieldsFunc(os.Getenv("REQUIRE"), func(r rune) bool { return r == ',' || r == ' ' })
	if slices.Contains(required, name) {
		t.Fatalf("%s is required here (REQUIRE): %s", name, reason)
	}
	t.Skipf("%s (REQUIRE=%s makes this a failure)", reason, name)
}
