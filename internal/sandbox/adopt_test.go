package sandbox_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/netguard"
	"assay/internal/sandbox"
)

func (d *driver) Adopt(ctx context.Context, cfg sandbox.MachineConfig) (sandbox.Machine, error) {
	m, err := d.Driver.Adopt(ctx, cfg)
	return d.keep(cfg, m, err)
}

func (m *machine) Detach() error { return m.Machine.(sandbox.Detacher).Detach() }

func keeper(o *sandbox.Options) { o.Keeper = "test" }

func persistent(s *sandbox.Spec) { s.Persistent = true }

// leave ends the manager: as its process's end does, or by Close.
func (e *env) leave(killed bool) {
	e.halt()
	if !killed {
		must(e.t, e.Manager.Close())
		return
	}
	for _, s := range e.List() {
		s.Guest().Close() // as the kernel does: nothing of it reads the link any more
	}
	e.Die()
}

// TestAdopt: a persistent sandbox is the next manager's, as it was, with what it
// runs; all others are gone.
func TestAdopt(t *testing.T) {
	for _, tt := range []struct {
		name   string
		killed bool
	}{{"closed", false}, {"killed", true}} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, keeper, func(e *env) {
				other := e.create(nil)
				s := e.create(func(s *sandbox.Spec) {
					s.Persistent, s.Deadline, s.IdleLimit, s.Metadata = true, time.Now().Add(20*time.Minute), 10*time.Minute, map[string]string{"k": "v"}
				})
				run1(e.t, s, "probe", "write", "/home/user/kept", "1000")
				must(e.t, s.Extend(time.Now().Add(2*time.Hour)))
				must(e.t, s.SetIdleLimit(90*time.Minute))
				want, before := s.Info(), s.Usage()
				old := e.Manager
				e.leave(tt.killed)
				if !tt.killed {
					select {
					case <-s.Ended():
					default:
						t.Error("for a manager that is closed the sandbox goes on")
					}
					wantKind(t, "destroy after close", s.Destroy(), fault.Unavailable)
				}

				e.open()
				if e.Adopted() != 1 || tt.killed && e.Reclaimed() != 1 {
					t.Errorf("adopted %d, reclaimed %d", e.Adopted(), e.Reclaimed())
				}
				if _, err := e.Get(other.Info().ID); !fault.Is(err, fault.NotFound) {
					t.Errorf("a sandbox that is not persistent: %v", err)
				}
				again, err := e.Get(want.ID)
				must(e.t, err)
				got := again.Info()
				if !got.Persistent || got.ID != want.ID || got.Shape != want.Shape || !got.Deadline.Equal(want.Deadline) || got.IdleLimit != want.IdleLimit ||
					!got.Created.Equal(want.Created) || got.BootMode != want.BootMode || !maps.Equal(got.Metadata, want.Metadata) {
					t.Errorf("adopted %+v, want %+v", got, want)
				}
				if res := run1(e.t, again, "probe", "read", "/home/user/kept"); res.Exit.Code != 0 {
					t.Errorf("what was written is gone: %+v", res.Exit)
				}
				if after := again.Usage(); after.CPU < before.CPU {
					t.Errorf("usage %v, before %v", after.CPU, before.CPU)
				}
				var kinds []string
				for _, ev := range again.Events() {
					kinds = append(kinds, ev.Kind)
					if ev.Number != len(kinds) {
						t.Errorf("event %d has number %d", len(kinds), ev.Number)
					}
				}
				if !slices.Contains(kinds, "adopted") || kinds[0] != "created" {
					t.Errorf("events %v", kinds)
				}
				wantFree := e.opts.Memory - got.Shape.Memory
				if _, free := e.Free(); free != wantFree {
					t.Errorf("%d bytes are free beside an adopted sandbox, want %d", free, wantFree)
				}
				// Its deadline holds here, too, and then nothing is left.
				must(e.t, again.SetIdleLimit(0))
				time.Sleep(time.Until(want.Deadline))
				synctest.Wait()
				<-again.Ended()
				if why := again.EndReason(); why != "deadline reached" {
					t.Errorf("ended: %s", why)
				}
				if dirs := names(t, e.RunDir()); slices.Contains(dirs, filepath.Base(old.JournalDir())) {
					t.Errorf("the directory of the last owner is left: %v", dirs)
				}
			})
		})
	}
}

// TestAdoptTwice: an adopted sandbox goes on to the manager after next.
func TestAdoptTwice(t *testing.T) {
	bubble(t, keeper, func(e *env) {
		id := e.create(persistent).Info().ID
		for range 3 {
			e.leave(false)
			e.open()
		}
		s, err := e.Get(id)
		must(e.t, err)
		run1(e.t, s, "true")
		must(e.t, s.Destroy())
		e.leave(false)
		e.open()
		if e.Adopted()+e.Reclaimed() != 0 {
			t.Errorf("after its end: adopted %d, reclaimed %d", e.Adopted(), e.Reclaimed())
		}
	})
}

// TestAdoptPaused: what was paused stays so, whatever the moment of the crash.
func TestAdoptPaused(t *testing.T) {
	bubble(t, keeper, func(e *env) {
		s := e.create(persistent)
		must(e.t, s.Pause(e.t.Context()))
		e.leave(false)
		e.open()
		again, err := e.Get(s.Info().ID)
		must(e.t, err)
		if !again.Info().Paused {
			t.Error("it is not paused any more")
		}
		_, err = again.Exec(e.t.Context(), sandbox.ExecSpec{Argv: []string{"true"}}, guest.IO{})
		wantKind(t, "exec in a paused sandbox", err, fault.Conflict)
		must(e.t, again.Resume(e.t.Context()))
		run1(e.t, again, "true")
		must(e.t, again.Destroy())
	})
}

// TestAdoptNot: who may not or cannot adopt a sandbox removes it, or leaves it to
// its keeper until its deadline.
func TestAdoptNot(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(e *env, s *sandbox.Sandbox)
		left   bool
	}{
		{"another_keeper", func(e *env, _ *sandbox.Sandbox) { e.opts.Keeper = "other" }, true},
		{"no_keeper", func(e *env, _ *sandbox.Sandbox) { e.opts.Keeper = "" }, true},
		{"past_its_deadline", func(e *env, s *sandbox.Sandbox) { time.Sleep(time.Until(s.Info().Deadline)) }, false},
		{"no_keeper_past_its_deadline", func(e *env, s *sandbox.Sandbox) {
			e.opts.Keeper = ""
			time.Sleep(time.Until(s.Info().Deadline))
		}, false},
		{"another_version", func(e *env, _ *sandbox.Sandbox) { e.driver.identity = "fake 2" }, false},
		{"no_room", func(e *env, _ *sandbox.Sandbox) { e.opts.Memory = 1 << 20 }, false},
		{"machine_died", func(e *env, s *sandbox.Sandbox) { e.driver.Crash(s.Info().ID, guest.MachineLost) }, false},
		{"silent", func(e *env, s *sandbox.Sandbox) { e.driver.freeze(e.t, s.Info().ID) }, false},
		{"half_a_record", func(e *env, s *sandbox.Sandbox) {
			must(e.t, os.WriteFile(filepath.Join(e.JournalDir(), s.Info().ID+".json"), []byte(`{"id":`), 0o600))
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, keeper, func(e *env) {
				s := e.create(persistent)
				home := e.JournalDir()
				e.leave(false)
				was := e.opts
				tt.change(e, s)
				e.open()
				if e.Adopted() != 0 {
					t.Errorf("adopted %d", e.Adopted())
				}
				lives := len(e.driver.Machines()) == 1
				if lives != tt.left {
					t.Errorf("the machine lives: %v, want %v", lives, tt.left)
				}
				if _, err := os.Stat(home); (err == nil) != tt.left {
					t.Errorf("its directory: %v", err)
				}
				if !tt.left {
					if e.Reclaimed() != 1 {
						t.Errorf("reclaimed %d", e.Reclaimed())
					}
					return
				}
				e.leave(false)
				e.opts = was
				e.open()
				if e.Adopted() != 1 {
					t.Errorf("its keeper adopts %d", e.Adopted())
				}
				again, err := e.Get(s.Info().ID)
				must(e.t, err)
				must(e.t, again.Destroy())
			})
		})
	}
}

// TestAdoptEnding: a sandbox whose end has begun is nobody's to adopt.
func TestAdoptEnding(t *testing.T) {
	bubble(t, keeper, func(e *env) {
		s := e.create(persistent)
		e.driver.set(func() {
			e.driver.destroy = func(string) error { e.leave(true); return errBroken }
			e.driver.reclaim = func(string) error { return errBroken }
		})
		if err := s.Destroy(); err == nil {
			t.Error("destroyed all the same")
		}
		e.driver.set(func() { e.driver.destroy, e.driver.reclaim = nil, nil })
		e.open()
		if e.Adopted() != 0 || e.Reclaimed() != 1 {
			t.Errorf("adopted %d, reclaimed %d", e.Adopted(), e.Reclaimed())
		}
	})
}

// TestPersistentRefused: what nobody could adopt is not made.
func TestPersistentRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		keeper string
		change func(e *env, s *sandbox.Spec)
		kind   fault.Kind
	}{
		{"no_keeper", "", nil, fault.Unsupported},
		{"network", "test", func(_ *env, s *sandbox.Spec) { s.Network = &netguard.Policy{} }, fault.Unsupported},
		{"beside", "test", func(e *env, s *sandbox.Spec) { s.Beside = e.create(nil) }, fault.Invalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(o *sandbox.Options) { o.Keeper = tt.keeper }, func(e *env) {
				spec := e.spec()
				spec.Persistent = true
				if tt.change != nil {
					tt.change(e, &spec)
				}
				_, err := e.Create(e.t.Context(), spec)
				wantKind(t, "create", err, tt.kind)
			})
		})
	}
}

// TestPersistentFork: a child is persistent if its own spec says so.
func TestPersistentFork(t *testing.T) {
	bubble(t, keeper, func(e *env) {
		parent := e.create(persistent)
		for _, want := range []bool{false, true} {
			children, err := parent.Fork(e.t.Context(), 1, sandbox.Spec{Persistent: want})
			must(e.t, err)
			must(e.t, children[0].Err)
			if got := children[0].Sandbox.Info().Persistent; got != want {
				t.Errorf("child is persistent: %v, want %v", got, want)
			}
		}
		e.leave(false)
		e.open()
		if n := len(e.List()); n != 2 {
			t.Errorf("%d sandboxes were adopted, want parent and one child", n)
		}
		for _, s := range e.List() {
			must(e.t, s.Destroy())
		}
	})
}

// TestPersistentRecord is what another process reads.
func TestPersistentRecord(t *testing.T) {
	bubble(t, keeper, func(e *env) {
		s := e.create(persistent)
		read := func() (rec struct {
			Deadline time.Time
			Kept     *struct {
				Keeper, Image string
				Info          sandbox.Info
			}
		},
		) {
			b, err := os.ReadFile(filepath.Join(e.JournalDir(), s.Info().ID+".json"))
			must(e.t, err)
			must(e.t, json.Unmarshal(b, &rec))
			return rec
		}
		at := time.Now().Add(5 * time.Hour)
		must(e.t, s.Extend(at))
		rec := read()
		if rec.Kept == nil || rec.Kept.Keeper != "test" || rec.Kept.Image != e.template.Image || !rec.Deadline.Equal(at) || !rec.Kept.Info.Deadline.Equal(at) {
			t.Errorf("record %+v", rec)
		}
		must(e.t, s.Destroy())
	})
}
