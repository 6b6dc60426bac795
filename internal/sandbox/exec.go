package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
)

// callGrace is what the host allows beyond an exec's own wall limit before it
// gives up on guestd and ends the machine.
const callGrace = 15 * time.Second

// The guest's CPU count may exceed the host's by disagreeMargin, and by a tick for
// each process and thread: it charges whole ticks to whatever runs when one ends.
const (
	disagreeMargin = 50 * time.Millisecond
	guestTick      = 10 * time.Millisecond
)

// Exec runs one command and waits for its end. How it ended is in the Result,
// also when the machine died under it; an error means that it was not run or
// that ctx ended (the command is then killed). Where guestd does not keep the
// wall limit, the machine is ended callGrace later; time in which the sandbox
// was paused, or in which the writers of streams made guestd wait, does not
// count. Without a wall limit the sandbox's own deadline is the bound.
func (s *Sandbox) Exec(ctx context.Context, spec ExecSpec, streams guest.IO) (res Result, err error) {
	end, err := s.use("exec", false)
	if err != nil {
		return Result{}, err
	}
	defer end()
	if spec.Wire != "" {
		release, err := s.holdWire(ctx)
		if err != nil {
			return Result{}, err
		}
		defer func() { release(err == nil || notStarted(err)) }()
	}
	if spec.Limits.Wall > 0 {
		dog := s.watchdog(spec.Limits.Wall + callGrace)
		defer dog.stop()
		streams.Stdout, streams.Stderr = dog.excuse(streams.Stdout), dog.excuse(streams.Stderr)
	}
	if spec.Key == "" {
		spec.Key = rand.Text()
	}
	leave := s.enterExec(spec)
	spec.Env = s.Env(spec.Env)
	asked := spec
	m := s.measure(&spec, &streams)
	began := time.Now()
	before, beforeErr := s.body.machine.Usage()
	res, err = s.body.client.Run(ctx, spec, streams)
	if err != nil {
		res, err = s.lost(ctx, res, err, time.Since(began))
	}
	if after, afterErr := s.body.machine.Usage(); err == nil && beforeErr == nil && afterErr == nil {
		res.Usage.HostCPU = after.CPU - before.CPU
		margin := disagreeMargin + time.Duration(res.Usage.ProcessesPeak)*guestTick
		res.Usage.Disagree = res.Usage.CPU() > res.Usage.HostCPU+res.Usage.HostCPU/10+margin
	}
	res.Usage.Counted = res.Usage.CPU()
	if m != nil {
		m.finish(&res)
	}
	leave()
	s.events.exec(asked, res, err)
	if err == nil {
		s.m.observe.ran(res.Exit.Cause)
	}
	return res, err
}

// lost makes a result of a call that failed because the machine is gone.
func (s *Sandbox) lost(ctx context.Context, res Result, err error, wall time.Duration) (Result, error) {
	if ctx.Err() != nil {
		return res, err
	}
	broken := errors.Is(err, guest.ErrSessionEnded) || fault.Is(err, fault.Unavailable)
	switch ending := s.ending(); {
	case ending && (broken || fault.Is(err, fault.Conflict)): // the client may be closed by now
	case broken:
		// The link's end is seen before the process's.
		select {
		case <-s.body.machine.Ended():
		case <-s.done:
		case <-time.After(lostWait):
			return res, err
		case <-ctx.Done():
			return res, err
		}
	default:
		return res, err
	}
	<-s.done
	return Result{Exit: Exit{Code: -1, Cause: s.EndCause()}, Usage: Usage{Wall: wall}}, nil
}

// lostWait is how long the end of a machine may lag behind the end of its link.
const lostWait = 2 * time.Second

// watchdog ends the machine of an exec that guestd does not end in time.
type watchdog struct {
	s      *Sandbox
	began  time.Time
	limit  time.Duration
	paused time.Duration // of the sandbox, before the exec

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
	writing time.Time     // since when a writer has been at work, or zero
	wrote   time.Duration // in writers before
}

func (s *Sandbox) watchdog(limit time.Duration) *watchdog {
	now := time.Now()
	d := &watchdog{s: s, began: now, limit: limit, paused: s.paused(now)}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timer = time.AfterFunc(limit, d.look)
	return d
}

// look ends the machine, or sets the timer again when some of the time does
// not count.
func (d *watchdog) look() {
	d.mu.Lock()
	now := time.Now()
	excused := d.wrote + d.s.paused(now) - d.paused
	if !d.writing.IsZero() {
		excused += now.Sub(d.writing)
	}
	left := d.began.Add(d.limit + excused).Sub(now)
	if left > 0 && !d.stopped {
		d.timer.Reset(max(left, time.Second))
	}
	over := left <= 0 && !d.stopped
	d.mu.Unlock()
	if over {
		if err := d.s.destroy("guestd did not answer", guest.MachineLost); err != nil {
			d.s.m.log.Error("end a machine whose guestd is silent", "sandbox", d.s.info.ID, "err", err)
		}
	}
}

func (d *watchdog) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	d.timer.Stop()
}

// excuse makes the time spent in a writer not count.
func (d *watchdog) excuse(w io.Writer) io.Writer {
	if w == nil {
		return nil
	}
	return excused{w, d}
}

type excused struct {
	w io.Writer
	d *watchdog
}

// Write is called by one goroutine for both streams of an exec.
func (e excused) Write(p []byte) (int, error) {
	e.d.mu.Lock()
	e.d.writing = time.Now()
	e.d.mu.Unlock()
	n, err := e.w.Write(p)
	e.d.mu.Lock()
	e.d.wrote += time.Since(e.d.writing)
	e.d.writing = time.Time{}
	e.d.mu.Unlock()
	return n, err
}
