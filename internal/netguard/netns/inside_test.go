package netns

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// in does something with a thread in a namespace: a socket that is opened there
// stays there.
func in(fd int, f func() error) error {
	done := make(chan error)
	offMain(func() {
		home, err := openCurrent()
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWNET)
		}
		if err == nil {
			err = f()
		}
		// A thread that cannot go home ends with this goroutine.
		if back := unix.Setns(home, unix.CLONE_NEWNET); back == nil {
			runtime.UnlockOSThread()
		}
		_ = unix.Close(home)
		done <- err
	})
	return <-done
}
