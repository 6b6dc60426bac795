package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"assay/internal/fault"
	"assay/internal/image"
)

// InUserNamespace reports whether this process is root only of a user namespace.
func InUserNamespace() bool { return os.Geteuid() == 0 && !image.FullRoot() }

// Weaker says what an engine in a user namespace lacks, for people.
const Weaker = "not root: machines run in a user namespace, without the host's wall around their memory and processes and without its count of their CPU time; the limits inside hold. Use root where results count"

// UserNamespace makes a process root of a user namespace of its own, in which
// this process's user is the only one.
func UserNamespace() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
}

// RunInUserNamespace runs this program again, with the same arguments, as root
// of a new user namespace, and gives its exit code. env is its whole environment;
// it should name the data directory, since the default would be root's there.
func RunInUserNamespace(ctx context.Context, args, env []string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("run in a user namespace: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = env
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.SysProcAttr = UserNamespace()
	// The terminal sends its signals to both; the child decides.
	signal.Ignore(syscall.SIGQUIT)
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1), nil
	}
	if err != nil {
		return 0, fault.Errorf(fault.Unsupported, "run in a user namespace: %w", err).
			WithHint("run as root, or allow user namespaces: sysctl -w user.max_user_namespaces=10000")
	}
	return 0, nil
}
