package sandbox_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
	"assay/internal/sandbox/fake"
)

func (e *env) snapshot(s *sandbox.Sandbox, retention time.Duration) sandbox.Snapshot {
	e.t.Helper()
	snap, err := s.Snapshot(e.t.Context(), retention)
	if err != nil {
		e.t.Fatalf("snapshot: %v", err)
	}
	return snap
}

func (e *env) restore(id string) (*sandbox.Sandbox, error) {
	return e.Create(e.t.Context(), sandbox.Spec{Snapshot: id})
}

func TestSnapshot(t *testing.T) {
	bubble(t, nil, func(e *env) {
		s := e.create(nil)
		run1(e.t, s, "probe", "write", "/home/user/kept", "1000")
		snap := e.snapshot(s, 0)
		if snap.Sandbox != s.Info().ID || snap.Template != "sha256:base" || snap.Shape != shape || snap.Bytes == 0 || !snap.Expires.IsZero() {
			t.Errorf("snapshot %+v", snap)
		}
		got, err := e.Snapshot(snap.ID)
		if err != nil || got.ID != snap.ID || got.Bytes != snap.Bytes {
			t.Errorf("find: %+v, %v", got, err)
		}
		must(e.t, s.Destroy())
		child, err := e.restore(snap.ID)
		must(e.t, err)
		if i := child.Info(); i.BootMode != sandbox.BootSnapshot || i.Template != "base" || i.Shape != shape {
			t.Errorf("restored %+v", i)
		}
		if res := run1(e.t, child, "probe", "read", "/home/user/kept"); res.Exit.Code != 0 {
			t.Errorf("read what was written before: %+v", res.Exit)
		}
		// Removed while a sandbox of it lives: that goes on.
		must(e.t, e.RemoveSnapshot(snap.ID))
		run1(e.t, child, "true")
		wantKind(e.t, "remove twice", e.RemoveSnapshot(snap.ID), fault.NotFound)
		_, err = e.restore(snap.ID)
		wantKind(e.t, "restore what was removed", err, fault.NotFound)
		must(e.t, child.Destroy())
		e.bare()
		if left := names(e.t, filepath.Join(e.opts.Dir, "snapshots")); len(left) > 0 {
			t.Errorf("left of snapshots: %v", left)
		}
	})
}

func TestSnapshotRetention(t *testing.T) {
	bubble(t, nil, func(e *env) {
		s := e.create(func(s *sandbox.Spec) { s.Deadline = time.Now().Add(time.Hour * 48) })
		began := time.Now()
		short, long, kept := e.snapshot(s, 10*time.Second), e.snapshot(s, 24*time.Hour), e.snapshot(s, 0)
		list := func() (ids []string) {
			all, err := e.Snapshots()
			must(e.t, err)
			for _, s := range all {
				ids = append(ids, s.ID)
			}
			return ids
		}
		for _, id := range []string{short.ID, long.ID, kept.ID} {
			if !slices.Contains(list(), id) {
				t.Errorf("%s is not listed", id)
			}
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := names(e.t, filepath.Join(e.opts.Dir, "snapshots")); len(got) != 2 || slices.Contains(got, short.ID) {
			t.Errorf("after %v there are %v", time.Since(began), got)
		}
		_, err := e.restore(short.ID)
		wantKind(e.t, "restore what has expired", err, fault.NotFound)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if got := list(); !slices.Equal(got, []string{kept.ID}) {
			t.Errorf("after a day there are %v", got)
		}
	})
}

func TestSnapshotRefused(t *testing.T) {
	bubble(t, nil, func(e *env) {
		s := e.create(nil)
		_, err := s.Snapshot(e.t.Context(), -1)
		wantKind(e.t, "negative retention", err, fault.Invalid)
		snap := e.snapshot(s, 0)
		for _, id := range []string{
			"nope", "", ".", "..", "../snapshots/" + snap.ID, "./" + snap.ID, snap.ID + "/", "/etc/passwd", snap.ID + "/../" + snap.ID, "a\x00b", "a\nb",
		} {
			if _, err := e.Snapshot(id); !fault.Is(err, fault.NotFound) {
				t.Errorf("find %q: %v", id, err)
			}
			if err := e.RemoveSnapshot(id); !fault.Is(err, fault.NotFound) {
				t.Errorf("remove %q: %v", id, err)
			}
			if _, err := e.restore(id); !fault.Is(err, fault.NotFound) && id != "" {
				t.Errorf("restore %q: %v", id, err)
			}
		}
		e.driver.identity = "fake 2"
		_, err = e.restore(snap.ID)
		wantKind(e.t, "restore on another host", err, fault.Invalid)
		if fault.HintOf(err) == "" {
			t.Error("no hint")
		}
		e.driver.identity = "fake 1"
		must(e.t, os.Rename(e.template.Image, e.template.Image+".away"))
		_, err = e.restore(snap.ID)
		wantKind(e.t, "restore without the image", err, fault.NotFound)
	})
}

func TestSnapshotFails(t *testing.T) {
	bubble(t, nil, func(e *env) {
		s := e.create(nil)
		e.driver.SetFaults(fake.Faults{Snapshot: func(string) error { return fault.Errorf(fault.Exhausted, "disk full") }})
		_, err := s.Snapshot(e.t.Context(), 0)
		wantKind(e.t, "snapshot", err, fault.Exhausted)
		_, err = s.Fork(e.t.Context(), 2, sandbox.Spec{})
		wantKind(e.t, "fork", err, fault.Exhausted)
		run1(e.t, s, "true") // it goes on
		for dir, want := range map[string]int{filepath.Join(e.opts.Dir, "snapshots"): 0, e.JournalDir(): 3} {
			if got := names(e.t, dir); len(got) != want {
				t.Errorf("%s holds %v", dir, got)
			}
		}
		must(e.t, s.Destroy())
		e.bare()
	})
}

// TestSnapshotRemovedWhileRestored: the removal waits for the restore.
func TestSnapshotRemovedWhileRestored(t *testing.T) {
	bubble(t, nil, func(e *env) {
		snap := e.snapshot(e.create(nil), 0)
		e.driver.SetFaults(fake.Faults{RestoreTime: 10 * time.Second})
		var wg sync.WaitGroup
		wg.Go(func() {
			s, err := e.restore(snap.ID)
			if err != nil {
				t.Errorf("restore: %v", err)
				return
			}
			run1(e.t, s, "true")
		})
		synctest.Wait()
		began := time.Now()
		must(e.t, e.RemoveSnapshot(snap.ID))
		if took := time.Since(began); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("removed after %v", took)
		}
		wg.Wait()
	})
}

func TestFork(t *testing.T) {
	bubble(t, nil, func(e *env) {
		s := e.create(nil)
		run1(e.t, s, "probe", "write", "/home/user/kept", "10")
		children, err := s.Fork(e.t.Context(), 3, sandbox.Spec{Deadline: time.Now().Add(time.Minute), Metadata: map[string]string{"n": "1"}})
		must(e.t, err)
		seen := map[string]bool{identity(e.t, s)[0]: true}
		for _, c := range children {
			if c.Err != nil {
				t.Fatalf("child: %v", c.Err)
			}
			i := c.Sandbox.Info()
			if i.BootMode != sandbox.BootFork || i.Metadata["n"] != "1" || i.Template != "base" || i.Shape != shape {
				t.Errorf("child %+v", i)
			}
			if res := run1(e.t, c.Sandbox, "probe", "read", "/home/user/kept"); res.Exit.Code != 0 {
				t.Errorf("read in a child: %+v", res.Exit)
			}
			seen[identity(e.t, c.Sandbox)[0]] = true
		}
		if len(seen) != 4 {
			t.Errorf("identities %v", seen)
		}
		run1(e.t, s, "true")
		time.Sleep(time.Minute)
		synctest.Wait()
		if live := e.List(); len(live) != 1 || live[0] != s {
			t.Errorf("%d sandboxes live after the children's deadline", len(live))
		}
		must(e.t, s.Destroy())
		e.bare()
	})
}

func TestForkRefused(t *testing.T) {
	bubble(t, func(o *sandbox.Options) { o.Memory = 200 * memory }, func(e *env) {
		s := e.create(nil)
		for _, n := range []int{-1, 0, sandbox.MaxFork + 1} {
			_, err := s.Fork(e.t.Context(), n, sandbox.Spec{})
			wantKind(e.t, "fork", err, fault.Invalid)
		}
		_, err := s.Fork(e.t.Context(), 1, sandbox.Spec{Deadline: time.Now().Add(-1)})
		wantKind(e.t, "fork into the past", err, fault.Invalid)
		_, err = s.Fork(e.t.Context(), 3, sandbox.Spec{Dedicated: true})
		wantKind(e.t, "fork that never fits", err, fault.Exhausted)
		must(e.t, s.Destroy())
		_, err = s.Fork(e.t.Context(), 1, sandbox.Spec{})
		wantKind(e.t, "fork after the end", err, fault.Conflict)
	})
}

// TestForkPartly: one child fails, the others live, and what was reserved for
// it is given back.
func TestForkPartly(t *testing.T) {
	bubble(t, nil, func(e *env) {
		s := e.create(nil)
		var mu sync.Mutex
		n := 0
		e.driver.SetFaults(fake.Faults{Restore: func(string) error {
			mu.Lock()
			defer mu.Unlock()
			if n++; n == 2 {
				return errBroken
			}
			return nil
		}})
		children, err := s.Fork(e.t.Context(), 3, sandbox.Spec{})
		must(e.t, err)
		failed := 0
		for _, c := range children {
			if c.Err != nil {
				failed++
				continue
			}
			run1(e.t, c.Sandbox, "true")
		}
		if _, free := e.Free(); failed != 1 || free != memory-3*shape.Memory {
			t.Errorf("%d children failed, %d bytes are free", failed, free)
		}
		for _, s := range e.List() {
			must(e.t, s.Destroy())
		}
		e.bare()
	})
}

// TestForkWaits: a fork waits for room for all its children; the parent's end
// ends the wait.
func TestForkWaits(t *testing.T) {
	bubble(t, nil, func(e *env) {
		s, other := e.create(nil), e.create(nil) // room for two more
		var wg sync.WaitGroup
		var places []int
		wg.Go(func() {
			_, err := s.Fork(context.Background(), 3, sandbox.Spec{Queued: func(place int) { places = append(places, place) }})
			wantKind(e.t, "fork of one that is ended meanwhile", err, fault.Conflict)
		})
		synctest.Wait()
		must(e.t, s.Destroy())
		wg.Wait()
		if !slices.Equal(places, []int{1}) {
			t.Errorf("places %v", places)
		}
		wg.Go(func() {
			children, err := other.Fork(context.Background(), 3, sandbox.Spec{})
			if err != nil || len(children) != 3 {
				t.Errorf("fork: %v", err)
			}
		})
		wg.Wait()
	})
}

// TestForkParentEnds: children that are being made when the parent ends live.
func TestForkParentEnds(t *testing.T) {
	bubble(t, nil, func(e *env) {
		s := e.create(nil)
		e.driver.SetFaults(fake.Faults{RestoreTime: time.Second})
		var wg sync.WaitGroup
		wg.Go(func() {
			children, err := s.Fork(e.t.Context(), 2, sandbox.Spec{})
			if err != nil {
				t.Error(err)
			}
			for _, c := range children {
				if c.Err != nil {
					t.Errorf("child: %v", c.Err)
					continue
				}
				run1(e.t, c.Sandbox, "true")
			}
		})
		time.Sleep(100 * time.Millisecond)
		must(e.t, s.Destroy())
		wg.Wait()
		log := s.Events()
		if last := log[len(log)-1]; last.Kind != "fork" {
			t.Errorf("last event %+v, want the fork that outlived its parent", last)
		}
	})
}

// TestVerbsOneAtATime: drivers are asked for one of pause, resume, snapshot and
// fork at a time; the test's machine checks it.
func TestVerbsOneAtATime(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *sandbox.Options) { o.Memory = 1 << 40 })
	s := e.create(nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10 {
				for _, err := range []error{s.Pause(t.Context()), s.Resume(t.Context())} {
					if err != nil && !fault.Is(err, fault.Conflict) {
						t.Error(err)
					}
				}
				_, err := s.Snapshot(t.Context(), time.Minute)
				if err != nil && !fault.Is(err, fault.Conflict) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	_ = s.Resume(t.Context()) // the last verb may have been a pause
	if res, err := s.Exec(t.Context(), sandbox.ExecSpec{Argv: []string{"true"}}, guest.IO{}); err != nil || res.Exit.Code != 0 {
		t.Errorf("exec: %+v, %v", res, err)
	}
}
