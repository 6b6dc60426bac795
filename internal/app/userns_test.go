package app

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"assay/internal/require"
)

// An ordinary user has no cgroups and few user IDs. The command line then runs
// itself as root of a user namespace; this starts it as such a user would.
func TestOrdinaryUserRunsACommand(t *testing.T) {
	require.Root(t) // to become somebody else
	bin := require.Binaries(t)
	const nobody = 65534
	// The user must reach the programs: a directory of the test is only ours.
	home, err := os.MkdirTemp("", "assay-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	for _, name := range []string{"assay", "assay-boot", "assay-box", "guestd"} {
		b, err := os.ReadFile(filepath.Join(bin, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, name), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// A root filesystem of one program: nothing is fetched for this test.
	hello := filepath.Join(t.TempDir(), "hello")
	src := hello + ".go"
	if err := os.WriteFile(src, []byte("package main\n\nimport \"os\"\n\nfunc main() { println(\"hello\", os.Getuid()); os.Exit(3) }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", hello, src)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	program, err := os.ReadFile(hello)
	if err != nil {
		t.Fatal(err)
	}
	var rootfs bytes.Buffer
	w := tar.NewWriter(&rootfs)
	for _, d := range []string{"bin/", "etc/", "proc/", "sys/", "dev/", "tmp/", "var/", "var/tmp/", "run/"} {
		if err := w.WriteHeader(&tar.Header{Name: d, Mode: 0o755, Typeflag: tar.TypeDir}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.WriteHeader(&tar.Header{Name: "bin/hello", Mode: 0o755, Size: int64(len(program))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(program); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "tiny.tar"), rootfs.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{home, filepath.Join(home, "tiny.tar")} {
		if err := os.Chown(p, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) (string, int) {
		t.Helper()
		cmd := exec.Command(filepath.Join(home, "assay"), append([]string{"--data-dir", filepath.Join(home, "data")}, args...)...)
		cmd.Dir = home
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, _ := cmd.CombinedOutput() // the exit code is looked at instead
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := run("template", "import", "tiny.tar", "tiny"); code != 0 {
		t.Fatalf("import: exit code %d: %s", code, out)
	}
	out, code := run("run", "--template", "tiny", "--", "/bin/hello")
	if code != 3 || !strings.Contains(out, "hello 1000") {
		t.Errorf("run: exit code %d, want 3 and a greeting of user 1000: %s", code, out)
	}
	if !strings.Contains(out, "not root") {
		t.Errorf("run does not say what is weaker: %s", out)
	}
	// A kernel of its own: booted, frozen and restored, all without a right on the
	// host.
	t.Run("qemu", func(t *testing.T) {
		require.QEMU(t)
		out, code := run("--driver", "qemu", "--qemu-accel", "tcg", "run", "--template", "tiny", "--", "/bin/hello")
		if code != 3 || !strings.Contains(out, "hello 1000") || !strings.Contains(out, "not root") {
			t.Errorf("run: exit code %d, want 3, a greeting of user 1000 and what is weaker: %s", code, out)
		}
	})
	out, code = run("--quiet", "sandbox", "create", "--template", "tiny")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	id := lines[len(lines)-1]
	if code != 0 {
		t.Fatalf("sandbox create: exit code %d: %s", code, out)
	}
	if out, code := run("sandbox", "exec", id, "--", "/bin/hello"); code != 3 {
		t.Errorf("sandbox exec: exit code %d, want 3: %s", code, out)
	}
	if out, code := run("sandbox", "create", "--template", "tiny", "--persistent"); code != 7 || !strings.Contains(out, "a persistent machine needs cgroups") {
		t.Errorf("persistent without cgroups: exit code %d, want 7 with the reason: %s", code, out)
	}
	if out, code := run("sandbox", "rm", id); code != 0 {
		t.Errorf("sandbox rm: exit code %d: %s", code, out)
	}
}
