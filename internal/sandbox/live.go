package sandbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
)

// Info is what there is to know of a sandbox.
type Info struct {
	ID             string   `json:"id"`
	Template       string   `json:"template"`
	TemplateDigest string   `json:"template_digest"`
	Driver         string   `json:"driver"`
	DriverIdentity string   `json:"driver_identity"`
	Shape          Shape    `json:"shape"`
	BootMode       BootMode `json:"boot_mode"`
	// Boot is the time from the call to guestd's answer.
	Boot      time.Duration     `json:"boot_ns"`
	Created   time.Time         `json:"created"`
	Deadline  time.Time         `json:"deadline"`
	IdleLimit time.Duration     `json:"idle_limit_ns,omitempty"`
	Paused    bool              `json:"paused"`
	Metadata  map[string]string `json:"metadata,omitempty"`
}

// Sandbox is one throwaway machine in use. All methods may be called at the
// same time. After its end every call gives fault.Conflict.
type Sandbox struct {
	m       *Manager
	body    *body
	release func()
	events  *eventLog
	done    chan struct{} // closed when destroyed

	destroying sync.Once
	destroyErr error

	mu       sync.Mutex
	info     Info
	lastUsed time.Time
	using    int // calls under way
	ended    string
	endCause Cause
}

// Info gives the sandbox's present state.
func (s *Sandbox) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
}

// Ended is closed when the sandbox is gone.
func (s *Sandbox) Ended() <-chan struct{} { return s.done }

// EndCause says why it is gone, once Ended is closed: Killed by a caller or a
// deadline, MemoryLimit by the host's wall, MachineLost otherwise.
func (s *Sandbox) EndCause() Cause {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endCause
}

// Guest gives the client for files, terminals, watches and ports. Calls on it
// do not count against the idle limit; Touch does.
func (s *Sandbox) Guest() *guest.Client { return s.body.client }

// HostProcesses are the host's processes that the machine consists of now.
func (s *Sandbox) HostProcesses() []int { return s.body.machine.Processes() }

// Touch counts as a use for the idle limit.
func (s *Sandbox) Touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastUsed = time.Now()
}

// use marks a call under way, and refuses it on a sandbox that has ended or is
// paused.
func (s *Sandbox) use(what string) (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != "" {
		return nil, fault.Errorf(fault.Conflict, "%s: sandbox %s has ended: %s", what, s.info.ID, s.ended)
	}
	if s.info.Paused {
		return nil, fault.Errorf(fault.Conflict, "%s: sandbox %s is paused", what, s.info.ID).WithHint("resume it first")
	}
	s.using++
	s.lastUsed = time.Now()
	return func() {
		s.mu.Lock()
		s.using--
		s.lastUsed = time.Now()
		s.mu.Unlock()
		s.m.wake()
	}, nil
}

// due says when the sandbox is to be ended, and why.
func (s *Sandbox) due() (time.Time, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, why := s.info.Deadline, "deadline reached"
	if s.info.IdleLimit > 0 && s.using == 0 {
		if idle := s.lastUsed.Add(s.info.IdleLimit); idle.Before(at) {
			at, why = idle, "idle limit reached"
		}
	}
	return at, why
}

// Extend sets a new hard deadline.
func (s *Sandbox) Extend(deadline time.Time) error {
	if !deadline.After(time.Now()) {
		return fault.Errorf(fault.Invalid, "the new deadline has passed already")
	}
	s.mu.Lock()
	s.info.Deadline = deadline
	s.mu.Unlock()
	s.m.journal.deadline(s.info.ID, deadline)
	s.m.wake()
	return nil
}

// callGrace is what the host allows beyond an exec's own wall limit before it
// gives up on guestd and ends the machine.
const callGrace = 15 * time.Second

// disagreeMargin is by how much the guest's CPU count may exceed the host's:
// the guest counts in ticks of 10 ms for each process.
const disagreeMargin = 50 * time.Millisecond

// Exec runs one command and waits for its end. How it ended is in the Result,
// also when the machine died under it; an error means that it was not run or
// that ctx ended (the command is then killed).
func (s *Sandbox) Exec(ctx context.Context, spec ExecSpec, streams guest.IO) (Result, error) {
	end, err := s.use("exec")
	if err != nil {
		return Result{}, err
	}
	defer end()
	if wall := spec.Limits.Wall; wall > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, wall+callGrace, errSilent)
		defer cancel()
	}
	began := time.Now()
	before, beforeErr := s.body.machine.Usage()
	res, err := s.body.client.Run(ctx, spec, streams)
	if err != nil {
		res, err = s.lost(ctx, res, err, time.Since(began))
	}
	if after, afterErr := s.body.machine.Usage(); err == nil && beforeErr == nil && afterErr == nil {
		res.Usage.HostCPU = after.CPU - before.CPU
		res.Usage.Disagree = res.Usage.CPU() > res.Usage.HostCPU+res.Usage.HostCPU/10+disagreeMargin
	}
	s.events.exec(spec, res, err)
	return res, err
}

// errSilent is the cause of a call that guestd did not answer in time.
var errSilent = errors.New("guestd did not answer in time")

// lost makes a result of a call that failed because the machine is gone, or
// because guestd is silent, which ends the machine.
func (s *Sandbox) lost(ctx context.Context, res Result, err error, wall time.Duration) (Result, error) {
	if errors.Is(err, errSilent) {
		_ = s.destroy("guestd did not answer", guest.MachineLost)
	} else if errors.Is(err, guest.ErrSessionEnded) || fault.Is(err, fault.Unavailable) {
		// The link's end is seen before the process's.
		select {
		case <-s.body.machine.Ended():
		case <-time.After(lostWait):
			return res, err
		case <-ctx.Done():
			return res, err
		}
	} else {
		return res, err
	}
	<-s.done
	return Result{Exit: Exit{Code: -1, Cause: s.EndCause()}, Usage: Usage{Wall: wall}}, nil
}

// lostWait is how long the end of a machine may lag behind the end of its link.
const lostWait = 2 * time.Second

// Pause stops everything in the sandbox; deadlines go on.
func (s *Sandbox) Pause(ctx context.Context) error {
	end, err := s.use("pause")
	if err != nil {
		return err
	}
	defer end()
	if err := s.body.machine.Pause(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	s.info.Paused = true
	s.mu.Unlock()
	s.events.add(Event{Kind: "paused"})
	return nil
}

// Resume lets a paused sandbox go on.
func (s *Sandbox) Resume(ctx context.Context) error {
	s.mu.Lock()
	paused := s.info.Paused && s.ended == ""
	s.mu.Unlock()
	if !paused {
		return fault.Errorf(fault.Conflict, "sandbox %s is not paused", s.info.ID)
	}
	if err := s.body.machine.Resume(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	s.info.Paused = false
	s.mu.Unlock()
	s.events.add(Event{Kind: "resumed"})
	return nil
}

// Destroy ends the sandbox in any state. It is idempotent.
func (s *Sandbox) Destroy() error { return s.destroy("destroyed", guest.Killed) }

// destroy does the work once; later calls wait for it.
func (s *Sandbox) destroy(why string, cause Cause) error {
	s.destroying.Do(func() {
		s.mu.Lock()
		s.ended, s.endCause = why, cause
		s.mu.Unlock()
		s.destroyErr = s.m.end(s.body)
		s.events.add(Event{Kind: "ended", Detail: map[string]any{"why": why, "cause": cause}})
		s.events.close()
		s.release()
		s.m.forget(s.info.ID)
		close(s.done)
	})
	return s.destroyErr
}

// watch ends the sandbox when its machine has died.
func (s *Sandbox) watch() {
	select {
	case <-s.done:
	case <-s.body.machine.Ended():
		if err := s.destroy("machine died", s.body.machine.End()); err != nil {
			s.m.log.Error("clean up after a machine that died", "sandbox", s.info.ID, "err", err)
		}
	}
}

// Events gives the sandbox's log so far.
func (s *Sandbox) Events() []Event { return s.events.all() }
