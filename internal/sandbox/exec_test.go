package sandbox_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

func TestExec(t *testing.T) {
	bubble(t, nil, func(e *env) {
		s := e.create(nil)
		res, err := s.Exec(e.t.Context(), sandbox.ExecSpec{Argv: []string{"probe", "spin", "2s"}, Limits: sandbox.Limits{Wall: time.Minute}}, guest.IO{})
		if err != nil || res.Usage.CPU() != 2*time.Second || res.Usage.HostCPU != 2*time.Second || res.Usage.Disagree {
			t.Errorf("%+v, %v", res.Usage, err)
		}
		_, err = s.Exec(e.t.Context(), sandbox.ExecSpec{}, guest.IO{})
		wantKind(e.t, "exec of nothing", err, fault.Invalid)
		_, err = s.Exec(e.t.Context(), sandbox.ExecSpec{Argv: []string{"true"}, Limits: sandbox.Limits{Wall: -1}}, guest.IO{})
		wantKind(e.t, "negative limit", err, fault.Invalid)
		must(e.t, s.Destroy())
		_, err = s.Exec(e.t.Context(), sandbox.ExecSpec{Argv: []string{"true"}}, guest.IO{})
		wantKind(e.t, "exec after the end", err, fault.Conflict)
	})
}

// TestExecCancelled: the command is killed with its caller's context, the
// machine is not.
func TestExecCancelled(t *testing.T) {
	bubble(t, nil, func(e *env) {
		s := e.create(nil)
		ctx, cancel := context.WithTimeoutCause(e.t.Context(), time.Second, errBroken)
		defer cancel()
		_, err := s.Exec(ctx, sandbox.ExecSpec{Argv: []string{"sleep", "100"}, Limits: sandbox.Limits{Wall: time.Minute}}, guest.IO{})
		if !errors.Is(err, errBroken) {
			t.Errorf("exec: %v", err)
		}
		run1(e.t, s, "true")
		time.Sleep(2 * time.Minute)
		if len(e.List()) != 1 {
			t.Error("the sandbox has ended")
		}
	})
}

// TestExecLost: a machine that ends under an exec is its result.
func TestExecLost(t *testing.T) {
	for _, tt := range []struct {
		name  string
		end   func(e *env, s *sandbox.Sandbox)
		cause sandbox.Cause
	}{
		{"crash", func(e *env, s *sandbox.Sandbox) { e.driver.Crash(s.Info().ID, guest.MachineLost) }, guest.MachineLost},
		{"memory", func(e *env, s *sandbox.Sandbox) { e.driver.Crash(s.Info().ID, guest.MemoryLimit) }, guest.MemoryLimit},
		{"destroyed", func(e *env, s *sandbox.Sandbox) { must(e.t, s.Destroy()) }, guest.Killed},
		{"closed", func(e *env, _ *sandbox.Sandbox) { e.stop() }, guest.Killed},
	} {
		for _, limits := range []sandbox.Limits{{}, {Wall: time.Hour}} {
			name := tt.name
			if limits.Wall > 0 {
				name += "-with-limit"
			}
			t.Run(name, func(t *testing.T) {
				bubble(t, nil, func(e *env) {
					s := e.create(nil)
					var wg sync.WaitGroup
					defer wg.Wait()
					wg.Go(func() {
						time.Sleep(time.Second)
						tt.end(e, s)
					})
					res, err := s.Exec(e.t.Context(), sandbox.ExecSpec{Argv: []string{"sleep", "1000"}, Limits: limits}, guest.IO{})
					if err != nil || res.Exit.Cause != tt.cause || res.Exit.Code != -1 || res.Usage.Wall != time.Second {
						t.Errorf("%+v, %v; want %s", res, err, tt.cause)
					}
					logged := 0
					for _, ev := range s.Events() {
						if ev.Kind == "exec" {
							logged++
						}
					}
					if logged != 1 {
						t.Errorf("the exec was logged %d times", logged)
					}
				})
			})
		}
	}
}

// TestExecSilent: when guestd does not keep the wall limit, the host ends the
// machine, and nobody else who waits for guestd is held up by that.
func TestExecSilent(t *testing.T) {
	bubble(t, nil, func(e *env) {
		s := e.create(nil)
		e.driver.freeze(e.t, s.Info().ID)
		s.Guest().Break() // so that the next call has to open a session
		var wg sync.WaitGroup
		wg.Go(func() { // without a limit: the deadline of the sandbox would be its bound
			res, err := s.Exec(e.t.Context(), sandbox.ExecSpec{Argv: []string{"true"}}, guest.IO{})
			if err != nil || res.Exit.Cause != guest.MachineLost {
				t.Errorf("exec without limit: %+v, %v", res.Exit, err)
			}
		})
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(e.t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			if _, err := s.Exec(ctx, sandbox.ExecSpec{Argv: []string{"true"}}, guest.IO{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("exec of an impatient caller: %v", err)
			}
			if took := time.Since(began); took > 7*time.Second { // it tries to kill the command
				t.Errorf("an impatient caller was held for %v", took)
			}
		})
		synctest.Wait()
		began := time.Now()
		res, err := s.Exec(e.t.Context(), sandbox.ExecSpec{Argv: []string{"true"}, Limits: sandbox.Limits{Wall: 10 * time.Second}}, guest.IO{})
		if err != nil || res.Exit.Cause != guest.MachineLost {
			t.Errorf("%+v, %v; want machine_lost", res.Exit, err)
		}
		if took := time.Since(began); took != 10*time.Second+sandbox.CallGrace {
			t.Errorf("took %v", took)
		}
		wantEnd(e.t, s, began.Add(10*time.Second+sandbox.CallGrace), "guestd did not answer", guest.MachineLost)
		wg.Wait()
	})
}

// TestExecDeadlineOfMute: also a machine whose guestd holds up the opening of a
// session, and with it the client, ends at its deadline or when it is destroyed.
func TestExecDeadlineOfMute(t *testing.T) {
	for _, tt := range []struct {
		name, why string
		destroy   bool
	}{{"deadline", "deadline reached", false}, {"destroyed", "destroyed", true}} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(e *env) {
				_, err := e.Prepare(e.t.Context(), e.template)
				must(e.t, err)
				e.driver.set(func() { e.driver.link = func(m sandbox.Machine) sandbox.Machine { return newStubborn(m, mute) } })
				began := time.Now()
				s := e.create(func(s *sandbox.Spec) { s.Deadline = began.Add(time.Minute) })
				s.Guest().Break()
				var wg sync.WaitGroup
				wg.Go(func() {
					res, err := s.Exec(e.t.Context(), sandbox.ExecSpec{Argv: []string{"true"}}, guest.IO{})
					if err != nil || res.Exit.Cause != guest.Killed {
						t.Errorf("%+v, %v; want killed", res.Exit, err)
					}
				})
				end := began.Add(time.Minute)
				if tt.destroy {
					time.Sleep(time.Second)
					must(e.t, s.Destroy())
					end = began.Add(time.Second)
				}
				wantEnd(e.t, s, end, tt.why, guest.Killed)
				wg.Wait()
			})
		})
	}
}

// slowWriter takes its time.
type slowWriter struct{ each time.Duration }

func (w slowWriter) Write(p []byte) (int, error) {
	time.Sleep(w.each)
	return len(p), nil
}

// TestExecSlowReader: a caller who is slow to take the output is no silent
// guestd.
func TestExecSlowReader(t *testing.T) {
	bubble(t, nil, func(e *env) {
		s := e.create(nil)
		began := time.Now()
		res, err := s.Exec(e.t.Context(), sandbox.ExecSpec{
			Argv: []string{"probe", "flood", "out", "1000000"}, Limits: sandbox.Limits{Wall: time.Minute},
		}, guest.IO{Stdout: slowWriter{time.Minute}})
		if err != nil || res.Exit.Cause != guest.Exited {
			t.Errorf("%+v, %v", res.Exit, err)
		}
		if took := time.Since(began); took < 2*time.Minute {
			t.Errorf("the reader took only %v", took)
		}
	})
}

// TestPause: a pause is no idleness of guestd, and what is paused is not used.
func TestPause(t *testing.T) {
	bubble(t, nil, func(e *env) {
		s := e.create(func(s *sandbox.Spec) { s.Deadline = time.Now().Add(24 * time.Hour) })
		ctx := e.t.Context()
		wantKind(e.t, "resume of one that runs", s.Resume(ctx), fault.Conflict)
		var wg sync.WaitGroup
		wg.Go(func() {
			res, err := s.Exec(ctx, sandbox.ExecSpec{Argv: []string{"sleep", "10"}, Limits: sandbox.Limits{Wall: 20 * time.Second}}, guest.IO{})
			if err != nil || (res.Exit.Cause != guest.Exited && res.Exit.Cause != guest.WallLimit) {
				t.Errorf("exec across a pause: %+v, %v", res.Exit, err)
			}
		})
		time.Sleep(5 * time.Second)
		must(e.t, s.Pause(ctx))
		if !s.Info().Paused {
			t.Error("not paused")
		}
		wantKind(e.t, "second pause", s.Pause(ctx), fault.Conflict)
		_, err := s.Exec(ctx, sandbox.ExecSpec{Argv: []string{"true"}}, guest.IO{})
		wantKind(e.t, "exec while paused", err, fault.Conflict)
		if !strings.Contains(fault.HintOf(err), "resume") {
			t.Errorf("hint %q", fault.HintOf(err))
		}
		_, err = s.Snapshot(ctx, 0)
		wantKind(e.t, "snapshot while paused", err, fault.Conflict)
		_, err = s.Fork(ctx, 1, sandbox.Spec{})
		wantKind(e.t, "fork while paused", err, fault.Conflict)
		time.Sleep(time.Hour)
		must(e.t, s.Resume(ctx))
		wg.Wait()
		run1(e.t, s, "true")
		must(e.t, s.Pause(ctx))
		must(e.t, s.Destroy())
		wantKind(e.t, "pause after the end", s.Pause(ctx), fault.Conflict)
		wantKind(e.t, "resume after the end", s.Resume(ctx), fault.Conflict)
	})
}

// TestPauseDeadline: deadlines go on while a sandbox is paused.
func TestPauseDeadline(t *testing.T) {
	bubble(t, nil, func(e *env) {
		began := time.Now()
		s := e.create(func(s *sandbox.Spec) { s.Deadline = began.Add(time.Minute) })
		must(e.t, s.Pause(e.t.Context()))
		wantEnd(e.t, s, began.Add(time.Minute), "deadline reached", guest.Killed)
	})
}

// TestDestroy: everything that goes on in a sandbox ends with it, and Destroy
// can be called by many.
func TestDestroy(t *testing.T) {
	bubble(t, nil, func(e *env) {
		s := e.create(nil)
		e.driver.set(func() { e.driver.destroy = func(string) error { time.Sleep(time.Second); return nil } })
		var wg sync.WaitGroup
		ended := func(what string, err error) {
			if err != nil && !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Unavailable) {
				t.Errorf("%s: %v", what, err)
			}
		}
		r, w := io.Pipe()
		wg.Go(func() {
			res, err := s.Exec(e.t.Context(), sandbox.ExecSpec{Argv: []string{"cat"}}, guest.IO{Stdin: r})
			if err != nil || res.Exit.Cause != guest.Killed {
				t.Errorf("exec: %+v, %v", res.Exit, err)
			}
		})
		synctest.Wait()
		wg.Go(func() { _, err := s.Snapshot(e.t.Context(), time.Hour); ended("snapshot", err) })
		wg.Go(func() {
			children, err := s.Fork(e.t.Context(), 2, sandbox.Spec{})
			ended("fork", err)
			for _, c := range children {
				ended("child", c.Err)
				if c.Err == nil {
					must(e.t, c.Sandbox.Destroy())
				}
			}
		})
		for range 4 {
			wg.Go(func() {
				if err := s.Destroy(); err != nil {
					t.Errorf("destroy: %v", err)
				}
				select {
				case <-s.Ended():
				default:
					t.Error("Destroy returned before the end")
				}
			})
		}
		<-s.Ended()
		_ = w.Close()
		wg.Wait()
		e.bare()
	})
}
