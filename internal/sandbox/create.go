package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
)

// BootMode says how a sandbox came to be.
type BootMode string

// The boot modes, from fastest to slowest.
const (
	BootPool     BootMode = "pool"     // was waiting, never used
	BootFork     BootMode = "fork"     // memory and disk of a running sandbox
	BootSnapshot BootMode = "snapshot" // restored on demand
	BootCold     BootMode = "cold"     // booted from nothing
)

// Spec asks for a sandbox: exactly one of Template and Snapshot.
type Spec struct {
	Template *Template
	// Snapshot is the ID of a snapshot taken with Sandbox.Snapshot.
	Snapshot string
	// Cold boots from nothing and leaves pool and snapshot alone.
	Cold bool
	// Deadline is the hard end of the sandbox, whatever it does. Zero is
	// DefaultDeadline from now.
	Deadline time.Time
	// IdleLimit ends the sandbox after so long without a call. Zero is none.
	IdleLimit time.Duration
	// Dedicated reserves Cores whole processors of the host, and the machine runs
	// on them and nowhere else: no other Dedicated one does, and those that are
	// not only where the host has no other. Work that counts asks for it.
	Dedicated bool
	// Cores is how many processors a Dedicated sandbox has; zero is one for each
	// of the shape's vCPUs. With fewer the guest still sees its vCPUs.
	Cores int
	// Beside puts the sandbox on the processors of another, which waits while
	// this one works: a checker, an interactor. It reserves memory only, and
	// never waits for it, so those who hold a core cannot wait for each other: it
	// takes what that one has reserved as BesideMemory, else what is free now,
	// else Create gives fault.Exhausted at once. When the other ends, this one
	// goes on where all do that are not Dedicated.
	Beside *Sandbox
	// BesideMemory is what is reserved, together with this sandbox, for those
	// that will be made Beside it, in bytes.
	BesideMemory int64
	// Network is what the sandbox may reach, through the proxy only. Nil is what
	// the sandbox may reach that it is made of, and nothing for a template. Of a
	// snapshot it may only be as much as its sandbox had, or less. A machine that
	// is made without has no interface but loopback, and never gets one.
	Network *NetworkPolicy
	// Persistent lets the sandbox outlive this process: a manager of the same
	// keeper adopts it when it starts, after Close or a crash, with its deadline
	// and its count of what it used. Calls under way end with the process;
	// commands go on in the sandbox. It never comes from the pool and has no
	// network; only a driver that is an Adopter can make it.
	Persistent bool
	// Metadata is kept and shown, never interpreted.
	Metadata map[string]string
	// Queued, if set, is told the place in the queue while the sandbox waits
	// for room on the host: 1 is next.
	Queued func(place int)
}

// DefaultDeadline is how long a sandbox may live when its Spec does not say.
const DefaultDeadline = time.Hour

// The bounds of making a machine: startWait for the driver, answerWait for a
// new machine's guestd, poolWait for that of one that has answered before.
const (
	startWait  = 2 * time.Minute
	answerWait = 30 * time.Second
	poolWait   = 5 * time.Second
	// emulatedWait is how many times as long a machine with an emulated processor
	// may take to answer: a boot is some seconds of computing on a calm host.
	emulatedWait = 4
)

// Create gives a sandbox whose guestd has answered. It waits, in order, while
// the host has no room, and at most until the deadline. Errors: fault.Invalid
// for a spec that means nothing, fault.NotFound for an unknown snapshot,
// fault.Exhausted when the host could never hold the machine or had no room
// before the deadline, fault.Unavailable when the manager is closed or the
// machine did not come up.
func (m *Manager) Create(ctx context.Context, spec Spec) (*Sandbox, error) {
	began := time.Now()
	if (spec.Template == nil) == (spec.Snapshot == "") {
		return nil, fault.Errorf(fault.Invalid, "a sandbox is made of exactly one of template and snapshot")
	}
	if spec.Snapshot != "" && spec.Cold {
		return nil, fault.Errorf(fault.Invalid, "a sandbox is not made cold of a snapshot")
	}
	if err := spec.settle(began); err != nil {
		return nil, err
	}
	ctx, leave, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := spec.within(ctx)
	defer cancel()
	src, done, err := m.source(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := m.mayPersist(src, spec); err != nil {
		return nil, err
	}
	src.persistent = spec.Persistent
	s, err := m.createOf(ctx, src, spec, began)
	if err != nil {
		m.observe.made(src.name, "", time.Since(began), err)
	}
	return s, err
}

func (m *Manager) createOf(ctx context.Context, src source, spec Spec, began time.Time) (*Sandbox, error) {
	reserved, err := m.admit(ctx, src.shape, spec, 1)
	if err != nil {
		return nil, err
	}
	b, mode, err := m.lease(ctx, src, spec.Cold)
	if err != nil {
		reserved[0].release()
		return nil, err
	}
	return m.handOut(b, spec, mode, began, reserved[0])
}

// settle checks what is the same for creating and forking, and sets defaults.
func (s *Spec) settle(now time.Time) error {
	if s.IdleLimit < 0 {
		return fault.Errorf(fault.Invalid, "the idle limit of the sandbox is negative")
	}
	switch {
	case s.Cores < 0 || s.BesideMemory < 0:
		return fault.Errorf(fault.Invalid, "cores and memory of the sandbox are negative")
	case s.Cores > 0 && !s.Dedicated:
		return fault.Errorf(fault.Invalid, "only a dedicated sandbox has cores of its own")
	case s.Dedicated && s.Beside != nil:
		return fault.Errorf(fault.Invalid, "a sandbox is dedicated or beside another, not both")
	}
	if s.Deadline.IsZero() {
		s.Deadline = now.Add(DefaultDeadline)
	}
	if !s.Deadline.After(now) {
		return fault.Errorf(fault.Invalid, "the deadline of the sandbox has passed already")
	}
	return nil
}

// within bounds the making of a sandbox by its deadline.
func (s *Spec) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(ctx, s.Deadline, fault.Errorf(fault.Exhausted, "the deadline of the sandbox passed before it was made"))
}

// source is what a machine is made from.
type source struct {
	template string // digest
	name     string
	image    string
	shape    Shape
	driver   Driver
	snapshot string // directory of the checkpoint; "" boots cold
	pooled   bool   // may come from the pool
	// persistent machines outlive this process.
	persistent bool
	// policy is what a sandbox made of it may reach; a machine has an interface
	// when it is not nil.
	policy *NetworkPolicy
}

// networked reports whether machines of it have an interface.
func (src source) networked() bool { return src.policy != nil }

// source finds what spec names, and prepares a template's snapshot if this
// host has none yet. Until done is called the source cannot be removed.
func (m *Manager) source(ctx context.Context, spec Spec) (_ source, done func(), err error) {
	if spec.Snapshot != "" {
		src, done, err := m.openSnapshot(ctx, spec.Snapshot)
		if err == nil {
			if err = src.inherit(spec.Network); err != nil {
				done()
			}
		}
		return src, done, err
	}
	t := *spec.Template
	src, err := m.sourceOf(t)
	if err != nil {
		return src, nil, err
	}
	if err := src.inherit(spec.Network); err != nil {
		return src, nil, err
	}
	if err := t.check(); err != nil || spec.Cold {
		return src, func() {}, err
	}
	if src.snapshot, err = m.prepare(ctx, t, spec.Queued); err == nil && src.networked() && m.pool.size > 0 {
		m.pool.want(src)
	}
	return src, func() {}, err
}

// sourceOf is a template as the source of machines that boot.
func (m *Manager) sourceOf(t Template) (source, error) {
	d, err := m.drivers.named(t.Driver)
	if err != nil {
		return source{}, fault.Errorf(fault.KindOf(err), "template %s is for driver %s: %w", t.Name, t.Driver, err)
	}
	return source{template: t.Digest, name: t.Name, image: t.Image, shape: t.Shape, driver: d, pooled: true}, nil
}

// check refuses a template that no machine can be made of.
func (t Template) check() error {
	s := t.Shape
	if s.VCPUs < 1 || s.Memory < 16<<20 || s.Disk < 1<<20 || s.Processes < 8 {
		return fault.Errorf(fault.Invalid, "template %s has an impossible shape %+v", t.Name, s)
	}
	if _, err := os.Stat(t.Image); err != nil {
		return fault.Errorf(fault.NotFound, "template %s has no image: %w", t.Name, err).WithHint("build it: assay template build %s", t.Name)
	}
	return nil
}

// body is a machine that lives, with an identity and the client to its guestd,
// before anybody has it.
type body struct {
	id      string
	dir     string
	src     source
	machine Machine
	client  *guest.Client
	network Network // nil without
}

// lease takes a machine out of the pool, or makes one.
func (m *Manager) lease(ctx context.Context, src source, cold bool) (*body, BootMode, error) {
	defer m.pool.refill()
	if src.pooled && !cold && !src.persistent {
		for {
			b := m.pool.take(src)
			if b == nil {
				break
			}
			// Waiting machines can die too; then the next one serves.
			if err := m.alive(ctx, b); err == nil {
				b.src.policy = src.policy
				return b, BootPool, nil
			}
			m.discard(b)
			if err := context.Cause(ctx); err != nil {
				return nil, "", err
			}
		}
	}
	mode := BootSnapshot
	if src.snapshot == "" {
		mode = BootCold
	}
	b, err := m.make(ctx, src)
	return b, mode, err
}

// alive asks a machine of the pool whether it still serves.
func (m *Manager) alive(ctx context.Context, b *body) error {
	ctx, cancel := context.WithTimeout(ctx, poolWait)
	defer cancel()
	_, err := b.client.Hello(ctx)
	return err
}

// make makes a machine and waits for guestd. The journal knows of it before
// there is anything to know.
func (m *Manager) make(ctx context.Context, src source) (_ *body, err error) {
	b := &body{id: newID(), src: src}
	if b.dir, err = m.journal.begin(b.id, src.driver.Name()); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			m.discard(b)
		}
	}()
	cfg := MachineConfig{ID: b.id, Dir: b.dir, Image: src.image, Shape: src.shape, Persistent: src.persistent}
	var eth *guest.Interface
	if src.networked() {
		if b.network, err = m.networks.Make(ctx); err != nil {
			return nil, err
		}
		var started func()
		if eth, started, err = joinNetwork(src.driver, b.network, &cfg); err != nil {
			return nil, err
		}
		defer started()
	}
	if b.machine, err = start(ctx, cfg, src); err != nil {
		return nil, err
	}
	m.cores.add(b.id, b.machine)
	b.client = guest.NewClient(b.machine.Link())
	wait := answerWait
	if emulates(src.driver) {
		wait *= emulatedWait
	}
	ctx, cancel := context.WithTimeoutCause(ctx, wait,
		fault.Errorf(fault.Unavailable, "guestd of machine %s did not answer within %v", b.id, wait))
	defer cancel()
	if _, err := b.client.Hello(ctx); err != nil {
		return nil, m.explain(b, err)
	}
	identity := m.newIdentity()
	identity.Interface = eth
	if err := b.client.Identify(ctx, identity); err != nil {
		return nil, m.explain(b, err)
	}
	return b, nil
}

// start lets the driver boot a machine, or restore it from a directory.
func start(ctx context.Context, cfg MachineConfig, src source) (machine Machine, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startWait,
		fault.Errorf(fault.Unavailable, "machine %s did not start within %v", cfg.ID, startWait))
	defer cancel()
	if src.snapshot == "" {
		machine, err = src.driver.Boot(ctx, cfg)
	} else {
		machine, err = src.driver.Restore(ctx, cfg, src.snapshot)
	}
	if err != nil {
		return nil, err // not a nil driver type inside an interface
	}
	return machine, nil
}

// explain prefers the machine's end to the broken link it caused.
func (m *Manager) explain(b *body, err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-b.machine.Ended():
		return fault.Errorf(fault.Unavailable, "machine %s ended (%s): %w", b.id, b.machine.End(), err)
	default:
		return err
	}
}

// discard ends a machine that nobody got. What cannot be ended is tried again
// by the sweep and, behind that, by the next start.
func (m *Manager) discard(b *body) {
	if err := m.end(b); err != nil {
		m.log.Error("end machine", "machine", b.id, "err", err)
	}
}

// end ends a machine and removes what it left. It must work whatever the
// caller's context is, so it has its own.
func (m *Manager) end(b *body) error {
	m.cores.remove(b.id)
	if b.network != nil {
		defer b.network.Close() // after the machine, which is in it
	}
	if b.machine == nil {
		return m.journal.end(b.id)
	}
	ctx, cancel := context.WithTimeout(context.Background(), endWait)
	defer cancel()
	err := b.machine.Destroy(ctx)
	// Not before: a call that is opening a session keeps the client until the
	// machine's end breaks the link.
	b.client.Close()
	if err == nil {
		return m.journal.end(b.id)
	}
	if again := m.reclaim(b); again != nil {
		return errors.Join(err, again)
	}
	m.log.Warn("machine had to be reclaimed", "machine", b.id, "err", err)
	return nil
}

// reclaim removes a machine that the driver could not destroy in the ordinary
// way; if that fails too, the sweep tries again.
func (m *Manager) reclaim(b *body) error {
	ctx, cancel := context.WithTimeout(context.Background(), endWait)
	defer cancel()
	err := b.src.driver.Reclaim(ctx, b.id, b.dir)
	if err == nil {
		return m.journal.end(b.id)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leftovers = append(m.leftovers, b)
	return err
}

// endWait bounds how long the end of a machine may take.
const endWait = 30 * time.Second

func newID() string { return strings.ToLower(rand.Text()[:20]) }

// newIdentity is an identity no machine had before.
func (m *Manager) newIdentity() guest.Identity {
	var b [48]byte
	_, _ = rand.Read(b[:]) // never fails, by its documentation
	return guest.Identity{
		Hostname: "sandbox-" + hex.EncodeToString(b[:4]), MachineID: hex.EncodeToString(b[:16]),
		Now: time.Now(), Entropy: b[16:], Generation: m.nextGeneration(),
	}
}

// nextGeneration grows from machine to machine, and from any machine to those
// that another manager makes of it later: so it follows the clock.
func (m *Manager) nextGeneration() int64 {
	for {
		last := m.generation.Load()
		next := max(last+1, time.Now().UnixMicro())
		if m.generation.CompareAndSwap(last, next) {
			return next
		}
	}
}

// handOut makes a sandbox of a machine.
func (m *Manager) handOut(b *body, spec Spec, mode BootMode, began time.Time, r *reservation) (*Sandbox, error) {
	release := func() {
		m.cores.giveBack(r.cores)
		r.release()
	}
	cores, err := m.cores.settle(b.id, spec.Beside, r.cores)
	if err != nil {
		release()
		m.discard(b)
		return nil, err
	}
	s := &Sandbox{
		m: m, body: b, reserved: r, counted: len(cores) > 0, release: release, done: make(chan struct{}), verb: make(chan struct{}, 1),
		info: Info{
			ID: b.id, Template: b.src.name, TemplateDigest: b.src.template, Driver: b.src.driver.Name(),
			DriverIdentity: b.src.driver.Identity(), Shape: b.src.shape, BootMode: mode, Boot: time.Since(began),
			Created: began, Deadline: spec.Deadline, IdleLimit: spec.IdleLimit, Metadata: maps.Clone(spec.Metadata),
			Cores: cores, Persistent: spec.Persistent,
		},
		lastUsed: time.Now(),
	}
	s.kept, err = m.newKept(b, spec)
	var events *eventLog
	if err == nil {
		events, err = openEventLog(filepath.Join(m.dir, "events"), b.id)
	}
	if err != nil {
		release()
		m.discard(b)
		return nil, err
	}
	s.events = events
	if b.network != nil {
		if err := s.openNetwork(*b.src.policy); err != nil {
			events.close()
			release()
			m.discard(b)
			return nil, err
		}
	}
	s.events.add(Event{Kind: "created", Detail: map[string]any{
		"boot_mode": mode, "template": b.src.template, "snapshot": spec.Snapshot, "boot_us": s.info.Boot.Microseconds(),
		"network": s.info.Network,
	}})
	m.mu.Lock()
	closed := m.closed
	if !closed {
		m.sandboxes[b.id] = s
	}
	m.mu.Unlock()
	if closed {
		_ = s.destroy("engine closed", guest.Killed) // what it leaves, the next start reclaims
		return nil, errClosed
	}
	m.journal.deadline(b.id, spec.Deadline)
	if err := s.promise(); err != nil {
		return nil, err
	}
	m.wake()
	m.calls.Go(s.watch) // ends with the sandbox
	m.observe.made(b.src.name, mode, s.info.Boot, nil)
	return s, nil
}
