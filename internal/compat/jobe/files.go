package jobe

import (
	"container/list"
	"sync"
)

// maxKept bounds the files kept for later runs, in bytes.
const maxKept = 128 << 20

// files keeps what clients sent, the least used of it going first: a client
// that is told that a file is not there sends it again.
type files struct {
	max int

	mu    sync.Mutex
	byID  map[string]*list.Element
	order *list.List // the last used first
	size  int
}

type keptFile struct {
	id   string
	data []byte
}

func newFiles(most int) *files {
	return &files{max: most, byID: map[string]*list.Element{}, order: list.New()}
}

func (f *files) put(id string, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old, ok := f.byID[id]; ok {
		f.drop(old)
	}
	if len(data) > f.max {
		return
	}
	f.byID[id] = f.order.PushFront(keptFile{id, data})
	for f.size += len(data); f.size > f.max; {
		f.drop(f.order.Back())
	}
}

// drop forgets a file. Caller holds mu.
func (f *files) drop(e *list.Element) {
	k := e.Value.(keptFile)
	f.order.Remove(e)
	delete(f.byID, k.id)
	f.size -= len(k.data)
}

func (f *files) get(id string) ([]byte, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := f.byID[id]
	if !ok {
		return nil, false
	}
	f.order.MoveToFront(e)
	return e.Value.(keptFile).data, true
}
