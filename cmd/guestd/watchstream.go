package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
)

func (d *daemon) watchRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST "+guest.PathWatch, d.watch)
	mux.HandleFunc("POST "+guest.PathWatchClose, d.closeWatch)
}

// fileWatches are the watches of a machine by ID.
type fileWatches struct {
	mu   sync.Mutex
	byID map[string]*fileWatch
}

// get finds a watch or starts it, and counts a reader in.
func (ws *fileWatches) get(att guest.WatchAttach) (*fileWatch, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w, ok := ws.byID[att.Spec.ID]
	if !ok {
		if att.Only {
			return nil, fault.Errorf(fault.NotFound, "no watch with ID %.40q", att.Spec.ID)
		}
		if len(ws.byID) >= guest.MaxWatches && !ws.dropIdle() {
			return nil, fault.Errorf(fault.Exhausted, "%d watches are open", len(ws.byID))
		}
		var err error
		if w, err = startWatch(att.Spec); err != nil {
			return nil, err
		}
		if ws.byID == nil {
			ws.byID = map[string]*fileWatch{}
		}
		ws.byID[att.Spec.ID] = w
	}
	w.reader(1)
	return w, nil
}

// reader counts readers in and out.
func (w *fileWatch) reader(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readers += n
	w.detached = time.Now()
}

// dropIdle ends the watch that has been without a reader for longest. Caller
// holds mu.
func (ws *fileWatches) dropIdle() bool {
	var idle *fileWatch
	for _, w := range ws.byID {
		w.mu.Lock()
		if w.readers == 0 && (idle == nil || w.detached.Before(idle.detached)) {
			idle = w
		}
		w.mu.Unlock()
	}
	if idle == nil {
		return false
	}
	delete(ws.byID, idle.spec.ID)
	_ = idle.ino.Close()
	return true
}

// watch starts a watch or attaches to one, and streams its events.
func (d *daemon) watch(w http.ResponseWriter, r *http.Request) {
	var att guest.WatchAttach
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&att); err != nil {
		guest.WriteFault(w, fault.Errorf(fault.Invalid, "decode watch: %w", err))
		return
	}
	fw, err := d.watches.get(att)
	if err != nil {
		guest.WriteFault(w, err)
		return
	}
	defer fw.reader(-1)
	defer context.AfterFunc(r.Context(), func() {
		fw.mu.Lock()
		defer fw.mu.Unlock()
		fw.changed.Broadcast()
	})()
	out := &frameWriter{w: w, rc: http.NewResponseController(w)}
	if out.frame(guest.FrameStarted, nil) != nil {
		return
	}
	for seq := att.After; ; {
		e, ok := fw.after(r.Context(), seq)
		if !ok {
			break
		}
		if out.json(guest.FrameEvent, e) != nil {
			return
		}
		seq = e.Seq
	}
	if r.Context().Err() == nil {
		_ = out.json(guest.FrameFault, guest.ToWire(fault.Errorf(fault.Conflict, "watch was closed")))
	}
}

func (d *daemon) closeWatch(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("id")
	d.watches.mu.Lock()
	defer d.watches.mu.Unlock()
	fw, ok := d.watches.byID[id]
	if !ok {
		guest.WriteFault(w, fault.Errorf(fault.NotFound, "no watch with ID %.40q", id))
		return
	}
	delete(d.watches.byID, id)
	_ = fw.ino.Close()
	answer(w, nil, nil)
}
