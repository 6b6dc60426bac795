package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/judge"
	"assay/internal/sandbox"
)

const (
	// maxWarm is how many warm states are kept; the one that was used longest ago
	// goes first. Each is some tens of MiB on the disk.
	maxWarm = 8
	// warmWait bounds how long a program takes to be ready.
	warmWait = time.Minute
	// warmKept is how long a warm state stays if this process dies, warmFresh how
	// long it is used by one that lives.
	warmKept, warmFresh = 2 * time.Hour, time.Hour
)

// warmStates are the snapshots of machines whose program has started up. The
// zero value is ready.
type warmStates struct {
	mu     sync.Mutex
	states map[string]*warmState
	used   int64 // counts uses
}

// warmState is one snapshot, or its making.
type warmState struct {
	made chan struct{} // closed when id or err is there
	id   string
	err  error
	at   time.Time
	used int64
}

// stale reports whether its snapshot will soon be gone by itself.
func (s *warmState) stale() bool {
	select {
	case <-s.made:
		return time.Since(s.at) > warmFresh
	default:
		return false
	}
}

// of gives the snapshot of a warm state, which is made if there is none, in a
// machine beside another where that is not nil. Who comes meanwhile waits.
func (w *warmStates) of(ctx context.Context, m *sandbox.Manager, t sandbox.Template, warm judge.Warm, beside *sandbox.Sandbox) (string, error) {
	key, err := warmKey(t, warm)
	if err != nil {
		return "", err
	}
	w.mu.Lock()
	s := w.states[key]
	first := s == nil || s.stale()
	if first {
		s = &warmState{made: make(chan struct{})}
		if w.states == nil {
			w.states = map[string]*warmState{}
		}
		w.states[key] = s
	}
	w.used++
	s.used = w.used
	w.mu.Unlock()
	if !first {
		select {
		case <-s.made:
			return s.id, s.err
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	s.id, s.err = makeWarm(ctx, m, t, warm, beside)
	s.at = time.Now()
	close(s.made)
	w.mu.Lock()
	var old string
	if s.err != nil {
		delete(w.states, key) // the next one tries again
	} else if len(w.states) > maxWarm {
		old = w.oldest()
	}
	w.mu.Unlock()
	if old != "" {
		// One that is just being restored is waited for. What stays is removed at
		// its end.
		if err := m.RemoveSnapshot(old); err != nil && !fault.Is(err, fault.Conflict) {
			return s.id, err
		}
	}
	return s.id, s.err
}

// oldest forgets the state that was used longest ago and gives its snapshot.
// Caller holds mu.
func (w *warmStates) oldest() string {
	found := ""
	for key, s := range w.states {
		select {
		case <-s.made:
			if found == "" || s.used < w.states[found].used {
				found = key
			}
		default:
		}
	}
	if found == "" {
		return ""
	}
	id := w.states[found].id
	delete(w.states, found)
	return id
}

// close removes all snapshots.
func (w *warmStates) close(m *sandbox.Manager) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, s := range w.states {
		select {
		case <-s.made:
			if s.err == nil {
				errs = append(errs, m.RemoveSnapshot(s.id))
			}
		default:
		}
	}
	w.states = nil
	return errors.Join(errs...)
}

func warmKey(t sandbox.Template, warm judge.Warm) (string, error) {
	data, err := json.Marshal(struct {
		Template sandbox.Template
		Warm     judge.Warm
	}{t, warm})
	if err != nil {
		return "", fmt.Errorf("name a warm state: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// makeWarm runs the program in a machine of its own until it is ready, and
// freezes that.
func makeWarm(ctx context.Context, m *sandbox.Manager, t sandbox.Template, warm judge.Warm, beside *sandbox.Sandbox) (id string, err error) {
	s, err := m.Create(ctx, sandbox.Spec{Template: &t, Beside: beside, Metadata: map[string]string{"for": "warm up"}})
	if err != nil {
		return "", err
	}
	var running sync.WaitGroup
	defer func() {
		err = errors.Join(err, s.Destroy())
		running.Wait()
	}()
	if _, err := s.Guest().WriteTree(ctx, warm.Dir, bytes.NewReader(warm.Tree), guest.OwnerRoot); err != nil {
		return "", err
	}
	out := &awaited{want: warm.Ready, seen: make(chan bool, 1)}
	errs := &bytes.Buffer{}
	ended := make(chan error, 1)
	running.Go(func() {
		// It ends with the machine, not with ctx: that would kill the program.
		res, err := s.Exec(context.WithoutCancel(ctx), warm.Exec, guest.IO{Stdin: forever{s.Ended()}, Stdout: out, Stderr: errs})
		if err == nil {
			err = fault.Errorf(fault.Unavailable, "it ended with code %d: %s", res.Exit.Code, errs.String())
		}
		ended <- err
	})
	timer := time.NewTimer(warmWait)
	defer timer.Stop()
	select {
	case ok := <-out.seen:
		if !ok {
			return "", fault.Errorf(fault.Unavailable, "the program said something else than that it is ready")
		}
	case err := <-ended:
		return "", fmt.Errorf("the program did not get ready: %w", err)
	case <-timer.C:
		return "", fault.Errorf(fault.Unavailable, "the program was not ready after %v", warmWait)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	snap, err := s.Snapshot(ctx, warmKept)
	return snap.ID, err
}

// forever is input that never comes and does not end before the machine.
type forever struct{ ended <-chan struct{} }

func (f forever) Read([]byte) (int, error) {
	<-f.ended
	return 0, errors.New("the machine has ended")
}

// awaited waits for the first words of a program.
type awaited struct {
	want []byte
	got  []byte
	seen chan bool
	told bool
}

func (a *awaited) Write(p []byte) (int, error) {
	if a.told {
		return len(p), nil
	}
	a.got = append(a.got, p...)
	if n := min(len(a.got), len(a.want)); !bytes.Equal(a.got[:n], a.want[:n]) {
		a.told = true
		a.seen <- false
	} else if n == len(a.want) {
		a.told = true
		a.seen <- true
	}
	return len(p), nil
}
