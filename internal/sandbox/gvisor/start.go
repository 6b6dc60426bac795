package gvisor

import (
	"runtime"
	"sync"
)

// starterCount is how many machines may be started at the same moment.
const starterCount = 8

// starters run functions on threads that live as long as the driver. A machine
// dies with the thread that started it (the kernel ties the parent-death signal
// to the thread, golang.org/issue/27505), and Go ends threads as it likes.
type starters struct {
	work chan func()
	wg   sync.WaitGroup
}

func newStarters(n int) *starters {
	s := &starters{work: make(chan func())}
	for range n {
		s.wg.Go(func() {
			runtime.LockOSThread()
			for f := range s.work {
				f()
			}
		})
	}
	return s
}

// run runs f on one of the threads and waits for it.
func (s *starters) run(f func()) {
	done := make(chan struct{})
	s.work <- func() {
		defer close(done)
		f()
	}
	<-done
}

func (s *starters) close() {
	close(s.work)
	s.wg.Wait()
}
