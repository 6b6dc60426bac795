package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
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
	// Dedicated reserves whole processors, one for each of the shape's vCPUs:
	// nobody else who was promised a processor shares them. Work that counts
	// asks for it.
	Dedicated bool
	// Metadata is kept and shown, never interpreted.
	Metadata map[string]string
	// Queued, if set, is told the place in the queue while the sandbox waits
	// for room on the host: 1 is next.
	Queued func(place int)
}

// DefaultDeadline is how long a sandbox may live when its Spec does not say.
const DefaultDeadline = time.Hour

// answerWait bounds how long a new machine's guestd may take to answer.
const answerWait = 30 * time.Second

// Create gives a sandbox whose guestd has answered. It waits, in order, while
// the host has no room. Errors: fault.Invalid for a spec that means nothing,
// fault.NotFound for an unknown snapshot, fault.Exhausted when the host could
// never hold the machine.
func (m *Manager) Create(ctx context.Context, spec Spec) (*Sandbox, error) {
	began := time.Now()
	if (spec.Template == nil) == (spec.Snapshot == "") {
		return nil, fault.Errorf(fault.Invalid, "a sandbox is made of exactly one of template and snapshot")
	}
	if !spec.Deadline.IsZero() && !spec.Deadline.After(began) {
		return nil, fault.Errorf(fault.Invalid, "the deadline of the sandbox has passed already")
	}
	src, err := m.source(ctx, spec)
	if err != nil {
		return nil, err
	}
	release, err := m.admission.reserve(ctx, src.shape, spec.Dedicated, spec.Queued)
	if err != nil {
		return nil, err
	}
	b, mode, err := m.lease(ctx, src, spec.Cold)
	if err != nil {
		release()
		return nil, err
	}
	return m.handOut(b, spec, mode, began, release)
}

// source is what a machine is made from.
type source struct {
	template string // digest
	name     string
	image    string
	shape    Shape
	snapshot string // directory of the checkpoint; "" boots cold
	pooled   bool   // may come from the pool
}

// source finds what spec names, and prepares a template's snapshot if this
// host has none yet.
func (m *Manager) source(ctx context.Context, spec Spec) (source, error) {
	if spec.Snapshot != "" {
		meta, err := m.Snapshot(spec.Snapshot)
		if err != nil {
			return source{}, err
		}
		if meta.Identity != m.driver.Identity() {
			return source{}, fault.Errorf(fault.Invalid, "snapshot %s was taken elsewhere: it needs %q, this host is %q", meta.ID, meta.Identity, m.driver.Identity()).
				WithHint("restore it on a host of the same kind, or make a new one here")
		}
		return source{template: meta.Template, name: meta.TemplateName, image: meta.Image, shape: meta.Shape, snapshot: meta.dir}, nil
	}
	t := *spec.Template
	src := source{template: t.Digest, name: t.Name, image: t.Image, shape: t.Shape, pooled: true}
	if err := t.check(); err != nil || spec.Cold {
		return src, err
	}
	dir, err := m.Prepare(ctx, t)
	src.snapshot = dir
	return src, err
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
}

// lease takes a machine out of the pool, or makes one.
func (m *Manager) lease(ctx context.Context, src source, cold bool) (*body, BootMode, error) {
	defer m.pool.refill()
	if src.pooled && !cold {
		for {
			b := m.pool.take(src.template)
			if b == nil {
				break
			}
			// Waiting machines can die too; then the next one serves.
			if _, err := b.client.Hello(ctx); err == nil {
				return b, BootPool, nil
			}
			m.discard(b)
			if err := context.Cause(ctx); err != nil {
				return nil, "", err
			}
		}
	}
	b, err := m.make(ctx, src)
	mode := BootSnapshot
	if src.snapshot == "" {
		mode = BootCold
	}
	return b, mode, err
}

// make makes a machine and waits for guestd. The journal knows of it before
// there is anything to know.
func (m *Manager) make(ctx context.Context, src source) (_ *body, err error) {
	b := &body{id: newID(), src: src}
	if b.dir, err = m.journal.begin(b.id); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			m.discard(b)
		}
	}()
	cfg := MachineConfig{ID: b.id, Dir: b.dir, Image: src.image, Shape: src.shape}
	if src.snapshot == "" {
		b.machine, err = m.driver.Boot(ctx, cfg)
	} else {
		b.machine, err = m.driver.Restore(ctx, cfg, src.snapshot)
	}
	if err != nil {
		b.machine = nil // not a nil driver type inside an interface
		return nil, err
	}
	b.client = guest.NewClient(b.machine.Link())
	ctx, cancel := context.WithTimeoutCause(ctx, answerWait,
		fault.Errorf(fault.Unavailable, "guestd of machine %s did not answer within %v", b.id, answerWait))
	defer cancel()
	if _, err := b.client.Hello(ctx); err != nil {
		return nil, m.explain(b, err)
	}
	return b, m.explain(b, b.client.Identify(ctx, m.newIdentity()))
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

// discard ends a machine and removes what it left. It must work whatever the
// caller's context is, so it has its own.
func (m *Manager) discard(b *body) {
	if err := m.end(b); err != nil {
		m.log.Error("machine left something behind; the next start reclaims it", "machine", b.id, "err", err)
	}
}

func (m *Manager) end(b *body) error {
	ctx, cancel := context.WithTimeout(context.Background(), endWait)
	defer cancel()
	if b.client != nil {
		b.client.Close()
	}
	if b.machine != nil {
		if err := b.machine.Destroy(ctx); err != nil {
			return err
		}
	}
	return m.journal.end(b.id)
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
		Now: time.Now(), Entropy: b[16:], Generation: m.generation.Add(1),
	}
}

// handOut makes a sandbox of a machine.
func (m *Manager) handOut(b *body, spec Spec, mode BootMode, began time.Time, release func()) (*Sandbox, error) {
	if spec.Deadline.IsZero() {
		spec.Deadline = began.Add(DefaultDeadline)
	}
	s := &Sandbox{
		m: m, body: b, release: release, done: make(chan struct{}),
		info: Info{
			ID: b.id, Template: b.src.name, TemplateDigest: b.src.template, Driver: m.driver.Name(),
			DriverIdentity: m.driver.Identity(), Shape: b.src.shape, BootMode: mode, Boot: time.Since(began),
			Created: began, Deadline: spec.Deadline, IdleLimit: spec.IdleLimit, Metadata: spec.Metadata,
		},
		lastUsed: time.Now(),
	}
	events, err := openEventLog(filepath.Join(m.dir, "events"), b.id)
	if err != nil {
		release()
		m.discard(b)
		return nil, err
	}
	s.events = events
	s.events.add(Event{Kind: "created", Detail: map[string]any{
		"boot_mode": mode, "template": b.src.template, "snapshot": spec.Snapshot, "boot_us": s.info.Boot.Microseconds(),
	}})
	m.mu.Lock()
	closed := m.closed
	if !closed {
		m.sandboxes[b.id] = s
	}
	m.mu.Unlock()
	if closed {
		_ = s.destroy("engine closed", guest.Killed)
		return nil, fault.Errorf(fault.Unavailable, "the engine is shutting down")
	}
	m.journal.deadline(b.id, spec.Deadline)
	m.wake()
	go s.watch()
	return s, nil
}
