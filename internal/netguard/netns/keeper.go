package netns

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// keeper is a thread that lives in a namespace. A namespace is a thread's, so
// what must be done in one is done here, one thing at a time. Go starts no other
// thread from one that is locked, so none inherits where this one is.
type keeper struct {
	work chan func()
	done chan struct{}
	err  error // set before done is closed
}

func newKeeper() (*keeper, error) {
	k := &keeper{work: make(chan func()), done: make(chan struct{})}
	ready := make(chan error)
	offMain(func() { k.run(ready) })
	return k, <-ready
}

// offMain starts a goroutine on a thread of its own that is not the process's
// first one. What /proc/self says of a process is what it says of that one: gVisor
// reads there where a thread has to go back to, and others of the process would
// come to be in the yard.
func offMain(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != os.Getpid() {
			f() // unlocks when it may
			return
		}
		// While this goroutine has the first thread, another cannot get it.
		started := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(started)
			f()
		}()
		<-started
		runtime.UnlockOSThread()
	}()
}

// run has its thread locked, and ends with close. The thread goes home before it
// is anybody's again. One that cannot, which no kernel has been seen to refuse,
// ends with this goroutine, and with it what was started on it before it was
// locked: that is less bad than others' work in the yard.
func (k *keeper) run(ready chan<- error) {
	defer close(k.done)
	home, err := openCurrent()
	if err == nil {
		// Whoever could not come home must not leave: root of a user namespace may
		// make namespaces, and then not go back into the host's.
		defer unix.Close(home)
		err = unix.Setns(home, unix.CLONE_NEWNET)
	}
	ready <- err
	if err != nil {
		runtime.UnlockOSThread()
		return
	}
	for f := range k.work {
		f()
	}
	if k.err = unix.Setns(home, unix.CLONE_NEWNET); k.err == nil {
		runtime.UnlockOSThread()
	}
}

// do does something on the thread and waits for it.
func (k *keeper) do(f func() error) (err error) {
	done := make(chan struct{})
	k.work <- func() {
		defer close(done)
		err = f()
	}
	<-done
	return err
}

// close ends the thread's work. Nothing may be done afterwards.
func (k *keeper) close() error {
	close(k.work)
	<-k.done
	return k.err
}

// openCurrent opens the calling thread's network namespace.
func openCurrent() (int, error) {
	return unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

// quiet sets the calling thread's namespace up to forward nothing, to take no
// packet on an interface that its source does not belong to, and to speak no
// IPv6. What a new namespace begins with depends on the host's settings.
func quiet(yard bool) error {
	set := map[string]string{
		"ipv6/conf/all/disable_ipv6":     "1",
		"ipv6/conf/default/disable_ipv6": "1",
		"ipv4/ip_forward":                "0",
	}
	if yard {
		set["ipv4/icmp_ratelimit"] = "0" // who is refused is told at once, each time
		for _, conf := range []string{"all", "default"} {
			set["ipv4/conf/"+conf+"/rp_filter"] = "1"
			set["ipv4/conf/"+conf+"/accept_source_route"] = "0"
			set["ipv4/conf/"+conf+"/send_redirects"] = "0"
			// An interface answers for its own addresses only.
			set["ipv4/conf/"+conf+"/arp_ignore"] = "1"
		}
	}
	for key, value := range set {
		err := os.WriteFile("/proc/sys/net/"+key, []byte(value), 0)
		if errors.Is(err, os.ErrNotExist) && key[:4] == "ipv6" {
			continue // a kernel without IPv6
		}
		if err != nil {
			return fmt.Errorf("set net.%s: %w", key, err)
		}
	}
	return nil
}
