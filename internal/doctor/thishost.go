package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"assay/internal/kvm"
)

// ThisHost is the host this process runs on, as this process sees it. dataDir
// is absolute and may not exist yet.
func ThisHost(dataDir string) (*Host, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own executable: %w", err)
	}
	// A link to assay in a bin directory does not move its companions.
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		return nil, fmt.Errorf("find own executable: %w", err)
	}
	return &Host{
		FS:                os.DirFS("/"),
		UID:               os.Geteuid(),
		Arch:              runtime.GOARCH,
		CPUs:              runtime.NumCPU(),
		DataDir:           dataDir,
		BinDir:            filepath.Dir(exe),
		LookPath:          lookPath,
		Space:             space,
		Writable:          writable,
		MakeCgroup:        makeCgroup,
		MakeUserNamespace: makeUserNamespace,
		QEMUVersion:       qemuVersion,
		MakeVM:            func() error { return kvm.Check(kvm.Device) },
	}, nil
}

// lookPath also looks where system programs are: an ordinary user's PATH often
// lacks /usr/sbin.
func lookPath(program string) (string, error) {
	at, err := exec.LookPath(program)
	if err == nil {
		return at, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if at, sbinErr := exec.LookPath(filepath.Join(dir, program)); sbinErr == nil {
			return at, nil
		}
	}
	return "", err
}

func space(path string) (Space, error) {
	var st unix.Statfs_t
	err := atNearest(path, func(dir string) error { return unix.Statfs(dir, &st) })
	if err != nil {
		return Space{}, fmt.Errorf("read free space: %w", err)
	}
	s := Space{Bytes: int64(st.Bavail) * st.Bsize, Files: int64(st.Ffree)}
	if st.Files == 0 {
		s.Files = -1
	}
	return s, nil
}

func writable(path string) error {
	return atNearest(path, func(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) })
}

// atNearest calls look for path, or for the nearest directory above it that
// exists.
func atNearest(path string, look func(dir string) error) error {
	for {
		err := look(path)
		if !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
			return err
		}
		path = filepath.Dir(path)
	}
}

func makeCgroup(dir string) error {
	probe := filepath.Join(dir, fmt.Sprintf("assay-doctor-%d", os.Getpid()))
	if err := os.Mkdir(probe, 0o755); err != nil {
		return err
	}
	// A cgroup directory is never empty, so only rmdir itself removes it.
	return syscall.Rmdir(probe)
}

func makeUserNamespace(ctx context.Context) error {
	program, err := lookPath("true")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	return cmd.Run()
}

func qemuVersion(ctx context.Context) (string, error) {
	program, err := lookPath("qemu-system-x86_64")
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", err
	}
	said, ok := strings.CutPrefix(string(out), "QEMU emulator version ")
	version, _, _ := strings.Cut(said, " ")
	if !ok {
		return "", fmt.Errorf("%s says %.60q", program, out)
	}
	return version, nil
}
