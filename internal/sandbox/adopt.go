package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
)

// Adopter is what a Driver can be besides, when its machines can outlive the
// process that made them.
type Adopter interface {
	// Adopt takes over a machine that another process made with
	// MachineConfig.Persistent, or that was Detached in this one. cfg is what it
	// was made with. It goes on as it was: a session that the other process had
	// with guestd may be cut anywhere. fault.NotFound when the machine is gone.
	// What the call fails to take over is left to Reclaim.
	Adopt(ctx context.Context, cfg MachineConfig) (Machine, error)
}

// Detacher is what a Machine is besides, when it was made Persistent.
type Detacher interface {
	// Detach gives the machine up without ending it. Only Ended, which is never
	// closed then, may be called afterwards.
	Detach() error
}

// kept is what another process adopts a persistent sandbox by.
type kept struct {
	Keeper string `json:"keeper"`
	Info   Info   `json:"info"`
	Image  string `json:"image"`
	// What it has reserved of the host, besides its shape's memory.
	Dedicated bool  `json:"dedicated,omitempty"`
	Cores     int   `json:"cores,omitempty"`
	Beside    int64 `json:"beside_bytes,omitempty"`
}

// orphan is a persistent sandbox whose manager died or was closed.
type orphan struct{ entry }

// adopts reports whether this manager takes over a machine of the dead.
func (j *journal) adopts(e entry) bool {
	if e.Kept == nil || j.keeper == "" || e.Kept.Keeper != j.keeper || !time.Now().Before(e.Deadline) {
		return false
	}
	d, err := j.drivers.named(e.Driver)
	if err != nil {
		j.log.Error("open the driver of a persistent sandbox", "sandbox", e.ID, "driver", e.Driver, "err", err)
		return false
	}
	_, can := d.(Adopter)
	return can && e.Kept.Info.DriverIdentity == d.Identity()
}

// waits reports whether a machine is left to another keeper, who adopts it when
// he starts, until its deadline.
func (e entry) waits(keeper string, now time.Time) bool {
	return e.Kept != nil && e.Kept.Keeper != keeper && now.Before(e.Deadline)
}

// take makes an orphan one of this manager's own.
func (j *journal) take(o orphan) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.live[o.ID] = o.entry
}

// abandon removes an orphan that could not be adopted. What cannot be removed
// stays recorded, and the next start tries again.
func (j *journal) abandon(ctx context.Context, o orphan) error {
	err := j.remove(ctx, o.entry)
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.live, o.ID)
	if err == nil {
		j.reclaimed++
	}
	return errors.Join(err, j.leaveHome(o.home))
}

// adoptAll adopts the persistent sandboxes of this keeper's earlier life, and
// removes those that it cannot have.
func (m *Manager) adoptAll(ctx context.Context) {
	var wg sync.WaitGroup
	for _, o := range m.journal.orphans {
		wg.Go(func() {
			err := m.adopt(ctx, o)
			if err == nil {
				return
			}
			m.log.Error("adopt a persistent sandbox", "sandbox", o.ID, "err", err)
			if err := m.journal.abandon(context.WithoutCancel(ctx), o); err != nil {
				m.log.Error("remove a sandbox that could not be adopted", "sandbox", o.ID, "err", err)
			}
		})
	}
	wg.Wait()
	m.journal.orphans = nil
}

// adopt takes over one sandbox: its machine, what it reserved and its log.
func (m *Manager) adopt(ctx context.Context, o orphan) (err error) {
	k := o.Kept
	r, err := m.admission.reserveNow(claim{shape: k.Info.Shape, dedicated: k.Dedicated, cores: k.Cores, beside: k.Beside})
	if err != nil {
		return err
	}
	release := func() {
		m.cores.giveBack(r.cores)
		r.release()
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	cfg := MachineConfig{ID: o.ID, Dir: o.dir(), Image: k.Image, Shape: k.Info.Shape, Persistent: true}
	ctx, cancel := context.WithTimeoutCause(ctx, answerWait,
		fault.Errorf(fault.Unavailable, "guestd of machine %s did not answer within %v", o.ID, answerWait))
	defer cancel()
	d, err := m.drivers.named(o.Driver)
	if err != nil {
		return err
	}
	machine, err := d.(Adopter).Adopt(ctx, cfg) // journal.adopts has asked
	if err != nil {
		return err
	}
	src := source{template: k.Info.TemplateDigest, name: k.Info.Template, image: k.Image, shape: k.Info.Shape, driver: d, persistent: true}
	b := &body{id: o.ID, dir: cfg.Dir, src: src, machine: machine, client: guest.Continue(machine.Link())}
	defer func() {
		if err != nil {
			// To Reclaim it is a machine like any other that its process left.
			_ = machine.Destroy(context.WithoutCancel(ctx))
			b.client.Close()
			m.cores.remove(b.id)
		}
	}()
	if k.Info.Paused {
		// The process may have died before it was, or after it was no more.
		if err := machine.Pause(ctx); err != nil && !fault.Is(err, fault.Conflict) {
			return err
		}
	} else if _, err := b.client.Hello(ctx); err != nil {
		return m.explain(b, err)
	}
	m.cores.add(b.id, machine)
	cores, err := m.cores.settle(b.id, nil, r.cores)
	if err != nil {
		return err
	}
	events, err := reopenEventLog(filepath.Join(m.dir, "events"), b.id)
	if err != nil {
		return err
	}
	now := time.Now()
	s := &Sandbox{
		m: m, body: b, reserved: r, counted: len(cores) > 0, release: release, done: make(chan struct{}), verb: make(chan struct{}, 1),
		info: k.Info, kept: k, lastUsed: now, events: events,
		// Commands of the earlier life may go on.
		littered: true,
	}
	s.info.Cores = cores
	if s.info.Paused {
		s.pausedAt = now
	}
	m.journal.take(o)
	s.events.add(Event{Kind: "adopted"})
	m.mu.Lock()
	m.sandboxes[b.id] = s
	m.adopted++
	m.mu.Unlock()
	m.calls.Go(s.watch) // ends with the sandbox
	return nil
}

// Adopted says how many persistent sandboxes of an earlier life Open took over.
func (m *Manager) Adopted() int { return m.adopted }

// persist writes down what a persistent sandbox is adopted by. Caller holds mu,
// so that nothing is written once its end has begun, or nobody else has the
// sandbox yet.
func (s *Sandbox) persist(info Info) error {
	if s.kept == nil {
		return nil
	}
	k := *s.kept
	k.Info = info
	return s.m.journal.keep(s.info.ID, &k)
}

// persistPaused writes down that a sandbox is about to be paused, or goes on.
func (s *Sandbox) persistPaused(paused bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != "" {
		return nil
	}
	info := s.info
	info.Paused = paused
	return s.persist(info)
}

// promise writes the record of a sandbox that was just made, or ends it.
func (s *Sandbox) promise() error {
	s.mu.Lock()
	var err error
	if s.ended == "" {
		err = s.persist(s.info)
	}
	s.mu.Unlock()
	if err != nil {
		return errors.Join(err, s.destroy("its record could not be written", guest.Killed))
	}
	return nil
}

// forsake says that the sandbox is not to be adopted any more: its end begins.
func (s *Sandbox) forsake() {
	if s.kept == nil {
		return
	}
	if err := s.m.journal.keep(s.info.ID, nil); err != nil {
		s.m.log.Error("note that the end of a persistent sandbox begins", "sandbox", s.info.ID, "err", err)
	}
}

// close ends the sandbox with its manager, or leaves it to the next.
func (s *Sandbox) close() error {
	if s.kept != nil {
		return s.detach()
	}
	return s.destroy("engine closed", guest.Killed)
}

// detach gives up a persistent sandbox, which goes on. For this manager it has
// ended.
func (s *Sandbox) detach() error {
	s.mu.Lock()
	first := s.ended == "" && !s.finishing
	if first {
		s.ended, s.endCause, s.finishing = "its manager was closed; it goes on", guest.MachineLost, true
	}
	s.mu.Unlock()
	if !first {
		<-s.done
		return s.destroyErr
	}
	s.verb <- struct{}{} // what stops the machine or lets it go on is over
	defer func() { <-s.verb }()
	s.Usage()
	s.m.cores.remove(s.body.id)
	s.body.client.Close()
	err := s.body.machine.(Detacher).Detach() // newKept has asked
	s.destroyErr = fault.Errorf(fault.Unavailable, "the manager of sandbox %s was closed; the sandbox goes on", s.info.ID)
	s.release()
	s.m.forget(s.info.ID)
	s.events.add(Event{Kind: "detached"})
	s.mu.Lock()
	s.gone = true
	last := s.using == 0
	s.mu.Unlock()
	if last {
		s.events.close()
	}
	close(s.done)
	if err != nil {
		return fmt.Errorf("give up sandbox %s: %w", s.info.ID, err)
	}
	return nil
}

// newKept gives what a sandbox of a spec is adopted by, nil for one that ends
// with its process.
func (m *Manager) newKept(b *body, spec Spec) (*kept, error) {
	if !spec.Persistent {
		return nil, nil
	}
	if _, ok := b.machine.(Detacher); !ok {
		return nil, errNotPersistent(b.src.driver)
	}
	return &kept{Keeper: m.journal.keeper, Image: b.src.image, Dedicated: spec.Dedicated, Cores: spec.Cores, Beside: spec.BesideMemory}, nil
}

// mayPersist refuses a persistent sandbox that nobody could adopt.
func (m *Manager) mayPersist(src source, spec Spec) error {
	switch {
	case !spec.Persistent:
		return nil
	case spec.Beside != nil:
		return fault.Errorf(fault.Invalid, "a sandbox beside another cannot be persistent")
	case src.networked():
		return fault.Errorf(fault.Unsupported, "a persistent sandbox has no network: the proxy ends with its process").
			WithHint("create it without a network policy, or without persistence")
	case m.journal.keeper == "":
		return fault.Errorf(fault.Unsupported, "this process ends with its work, and nobody would adopt a persistent sandbox")
	}
	if _, ok := src.driver.(Adopter); !ok {
		return errNotPersistent(src.driver)
	}
	return nil
}

func errNotPersistent(d Driver) error {
	return fault.Errorf(fault.Unsupported, "machines of driver %s end with their process", d.Name()).
		WithHint("create the sandbox without persistence, or take a snapshot of it before the process ends")
}
