package main

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// reaper waits for every child: guestd is the guest's init, so orphans become
// its children too, and two waiters would take each other's news.
type reaper struct {
	mu      sync.Mutex
	waiting map[int]chan reaped
}

type reaped struct {
	status syscall.WaitStatus
	usage  syscall.Rusage
}

func newReaper() *reaper {
	return &reaper{waiting: map[int]chan reaped{}}
}

// run reaps for as long as the process lives.
func (r *reaper) run() {
	news := make(chan os.Signal, 1)
	signal.Notify(news, unix.SIGCHLD)
	for range news {
		r.reap()
	}
}

func (r *reaper) reap() {
	for {
		// The lock is held from before a child is reaped until its end is filed,
		// and start holds it over the fork: no pid is reused in between.
		r.mu.Lock()
		var got reaped
		pid, err := syscall.Wait4(-1, &got.status, syscall.WNOHANG, &got.usage)
		if err == syscall.EINTR {
			r.mu.Unlock()
			continue
		}
		if err != nil || pid <= 0 {
			r.mu.Unlock()
			return
		}
		if c, ok := r.waiting[pid]; ok {
			c <- got
			delete(r.waiting, pid)
		}
		r.mu.Unlock()
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
	return pid, c, nil
}
