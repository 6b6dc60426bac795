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
	Boot      time.Duration `json:"boot_ns"`
	Created   time.Time     `json:"created"`
	Deadline  time.Time     `json:"deadline"`
	IdleLimit time.Duration `json:"idle_limit_ns,omitempty"`
	Paused    bool          `json:"paused"`
	// Persistent says that the sandbox outlives the process that has it.
	Persistent bool `json:"persistent,omitempty"`
	// Cores are the host's processors that the machine runs on and no other that
	// is Dedicated does; those made beside it have the same. Empty: where all run
	// that are not Dedicated, or the driver cannot bind its machines.
	Cores    []int             `json:"cores,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	// Network is what the sandbox may reach now; nil when it has no interface but
	// loopback.
	Network *NetworkPolicy `json:"network,omitempty"`
}

// Sandbox is one throwaway machine in use. All methods may be called at the
// same time. After its end every call that needs the machine gives
// fault.Conflict.
type Sandbox struct {
	m        *Manager
	body     *body
	release  func() // gives back what it reserved
	reserved *reservation
	events   *eventLog
	kept     *kept         // of a persistent one
	done     chan struct{} // closed when destroyed
	// verb holds a value while the machine is paused, resumed or snapshotted:
	// a driver is asked for one of these at a time.
	verb chan struct{}

	destroyErr error // set before done is closed

	mu        sync.Mutex
	info      Info
	lastUsed  time.Time
	using     int           // calls under way
	wired     int           // execs that hold a wire
	execs     int           // execs under way
	crowded   bool          // more than one was, since there was none
	littered  bool          // an exec may have left processes behind
	counted   bool          // has processors of its own, or another's that waits
	pausedAt  time.Time     // of the pause that lasts
	pausedFor time.Duration // pauses that are over
	ended     string        // why, from the moment that its end begins
	endCause  Cause
	finishing bool      // somebody does the work of its end
	gone      bool      // its end is done
	counts    HostUsage // read last
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

// Emulated reports whether the machine's processor is emulated.
func (s *Sandbox) Emulated() bool { return emulates(s.body.src.driver) }

// HostProcesses are the host's processes that the machine consists of now.
func (s *Sandbox) HostProcesses() []int { return s.body.machine.Processes() }

// Touch counts as a use for the idle limit.
func (s *Sandbox) Touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastUsed = time.Now()
}

// use marks a call under way, and refuses it on a sandbox that has ended, or
// whose being paused is not what the call needs.
func (s *Sandbox) use(what string, paused bool) (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended != "":
		return nil, s.refuse(what)
	case s.info.Paused && !paused:
		return nil, fault.Errorf(fault.Conflict, "%s: sandbox %s is paused", what, s.info.ID).WithHint("resume it first")
	case !s.info.Paused && paused:
		return nil, fault.Errorf(fault.Conflict, "%s: sandbox %s is not paused", what, s.info.ID)
	}
	s.using++
	s.lastUsed = time.Now()
	return s.used, nil
}

// used ends a call that use has marked.
func (s *Sandbox) used() {
	s.mu.Lock()
	s.using--
	s.lastUsed = time.Now()
	last, idle := s.gone && s.using == 0, s.info.IdleLimit > 0
	s.mu.Unlock()
	if last {
		s.events.close()
	}
	if idle {
		s.m.wake()
	}
}

// refuse is the error of a call on a sandbox that has ended. Caller holds mu.
func (s *Sandbox) refuse(what string) error {
	return fault.Errorf(fault.Conflict, "%s: sandbox %s has ended: %s", what, s.info.ID, s.ended)
}

// alone waits until no other verb is under way and begins one, as use does.
func (s *Sandbox) alone(ctx context.Context, what string, paused bool) (end func(), err error) {
	select {
	case s.verb <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	used, err := s.use(what, paused)
	if err != nil {
		<-s.verb
		return nil, err
	}
	return func() {
		used()
		<-s.verb
	}, nil
}

// whileLive gives a context that ends with the sandbox too. Call stop.
func (s *Sandbox) whileLive(ctx context.Context, what string) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-s.done:
			s.mu.Lock()
			defer s.mu.Unlock()
			cancel(s.refuse(what))
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		watch.Wait()
	}
}

// expire begins the end of a sandbox that is due; finish does it. Otherwise it
// says how long the sandbox has at least. To look and to begin is one step: a
// call that came in between would be cut off by an idle limit.
func (s *Sandbox) expire(now time.Time) (left time.Duration, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != "" {
		return sweepEvery, false
	}
	at, why := s.info.Deadline, "deadline reached"
	if s.info.IdleLimit > 0 && s.using == 0 {
		if idle := s.lastUsed.Add(s.info.IdleLimit); idle.Before(at) {
			at, why = idle, "idle limit reached"
		}
	}
	if left = at.Sub(now); left > 0 {
		return left, false
	}
	s.ended, s.endCause = why, guest.Killed
	return 0, true
}

// Extend sets a new hard deadline.
func (s *Sandbox) Extend(deadline time.Time) error {
	if !deadline.After(time.Now()) {
		return fault.Errorf(fault.Invalid, "the new deadline has passed already")
	}
	s.mu.Lock()
	if s.ended != "" {
		defer s.mu.Unlock()
		return s.refuse("extend")
	}
	info := s.info
	info.Deadline = deadline
	if err := s.persist(info); err != nil {
		s.mu.Unlock()
		return err
	}
	s.info.Deadline = deadline // fields that never change are read without mu
	s.mu.Unlock()
	s.m.journal.deadline(s.info.ID, deadline)
	s.m.wake()
	return nil
}

// SetIdleLimit sets after how long without a call the sandbox ends, from now
// on; zero is never.
func (s *Sandbox) SetIdleLimit(limit time.Duration) error {
	if limit < 0 {
		return fault.Errorf(fault.Invalid, "the idle limit of the sandbox is negative")
	}
	s.mu.Lock()
	if s.ended != "" {
		defer s.mu.Unlock()
		return s.refuse("set the idle limit")
	}
	info := s.info
	info.IdleLimit = limit
	if err := s.persist(info); err != nil {
		s.mu.Unlock()
		return err
	}
	s.info.IdleLimit, s.lastUsed = limit, time.Now()
	s.mu.Unlock()
	s.m.wake()
	return nil
}

// Pause stops everything in the sandbox; deadlines go on.
func (s *Sandbox) Pause(ctx context.Context) error {
	end, err := s.alone(ctx, "pause", false)
	if err != nil {
		return err
	}
	defer end()
	// The record first: who adopts the sandbox must not wait for guestd's answer.
	if err := s.persistPaused(true); err != nil {
		return err
	}
	if err := s.body.machine.Pause(ctx); err != nil {
		return errors.Join(err, s.persistPaused(false))
	}
	s.mu.Lock()
	s.info.Paused, s.pausedAt = true, time.Now()
	s.mu.Unlock()
	s.events.add(Event{Kind: "paused"})
	return nil
}

// Resume lets a paused sandbox go on.
func (s *Sandbox) Resume(ctx context.Context) error {
	end, err := s.alone(ctx, "resume", true)
	if err != nil {
		return err
	}
	defer end()
	if err := s.body.machine.Resume(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	s.info.Paused = false
	s.pausedFor += time.Since(s.pausedAt)
	s.mu.Unlock()
	s.events.add(Event{Kind: "resumed"})
	return s.persistPaused(false)
}

// paused is how long the sandbox has been paused so far.
func (s *Sandbox) paused(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.info.Paused {
		return s.pausedFor + now.Sub(s.pausedAt)
	}
	return s.pausedFor
}

// Destroy ends the sandbox in any state. It is idempotent.
func (s *Sandbox) Destroy() error { return s.destroy("destroyed", guest.Killed) }

// destroy ends the sandbox; the first reason stays.
func (s *Sandbox) destroy(why string, cause Cause) error {
	s.mu.Lock()
	if s.ended == "" {
		s.ended, s.endCause = why, cause
	}
	s.mu.Unlock()
	return s.finish()
}

// finish does the work of an end that has begun, once; later calls wait for it.
func (s *Sandbox) finish() error {
	s.mu.Lock()
	first := !s.finishing
	s.finishing = true
	why, cause := s.ended, s.endCause
	s.mu.Unlock()
	if !first {
		<-s.done
		return s.destroyErr
	}
	s.forsake()
	s.Usage() // nobody can count afterwards
	if used := s.NetworkUsage(); used.Attempts > 0 {
		s.events.add(Event{Kind: "network_used", Detail: map[string]any{"usage": used}})
	}
	s.destroyErr = s.m.end(s.body)
	s.release()
	s.m.forget(s.info.ID)
	s.events.add(Event{Kind: "ended", Detail: map[string]any{"why": why, "cause": cause}})
	s.mu.Lock()
	s.gone = true
	last := s.using == 0
	s.mu.Unlock()
	if last { // else the calls that the end cut off write their lines first
		s.events.close()
	}
	close(s.done)
	return s.destroyErr
}

// ending reports whether the sandbox's end has begun.
func (s *Sandbox) ending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended != ""
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
