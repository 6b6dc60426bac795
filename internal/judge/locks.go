package judge

import "sync"

// keyedLocks are locks by name.
type keyedLocks struct {
	mu    sync.Mutex
	locks map[string]*keyedLock
}

type keyedLock struct {
	// held has room for the one that holds the lock.
	held  chan struct{}
	users int
}

// lock waits for the name and gives the function that frees it.
func (k *keyedLocks) lock(name string) (unlock func()) {
	k.mu.Lock()
	if k.locks == nil {
		k.locks = map[string]*keyedLock{}
	}
	l := k.locks[name]
	if l == nil {
		l = &keyedLock{held: make(chan struct{}, 1)}
		k.locks[name] = l
	}
	l.users++
	k.mu.Unlock()
	l.held <- struct{}{}
	return func() {
		<-l.held
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(k.locks, name)
		}
	}
}
