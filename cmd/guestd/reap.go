package main

import (
	"sync"
	"syscall"
)

// reaper waits for every child: guestd is the guest's init, so orphans become
// its children too, and two waiters would take each other's news. It blocks in
// wait4 instead of listening for SIGCHLD: a signal takes a millisecond longer.
type reaper struct {
	born chan struct{} // a child may have been made since there was none

	mu      sync.Mutex
	waiting map[int]chan reaped
}

type reaped struct {
	status syscall.WaitStatus
	usage  syscall.Rusage
}

func newReaper() *reaper {
	return &reaper{born: make(chan struct{}, 1), waiting: map[int]chan reaped{}}
}

// run reaps for as long as the process lives.
func (r *reaper) run() {
	for {
		var got reaped
		pid, err := syscall.Wait4(-1, &got.status, 0, &got.usage)
		switch err {
		case nil:
			r.deliver(pid, got)
		case syscall.EINTR:
		default: // there is no child
			<-r.born
		}
	}
}

// deliver files a child's end. start holds the lock from before the fork until
// the child is known, so none ends unknown; orphans of commands are nobody's.
func (r *reaper) deliver(pid int, got reaped) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.waiting[pid]; ok {
		c <- got
		delete(r.waiting, pid)
	}
}

// start runs fork and gives the channel on which the child's end will arrive.
func (r *reaper) start(fork func() (int, error)) (int, <-chan reaped, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return 0, nil, err
	}
	c := make(chan reaped, 1)
	r.waiting[pid] = c
	select {
	case r.born <- struct{}{}:
	default:
	}
	return pid, c, nil
}
