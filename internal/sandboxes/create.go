package sandboxes

import (
	"context"
	"maps"
	"regexp"
	"time"
	"unicode/utf8"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/sandbox"
)

// Bounds of what a request says of a sandbox.
const (
	MaxLabels = 32
	maxLabel  = 64   // bytes of a label's name
	maxValue  = 1024 // bytes of its value
	maxName   = 100  // bytes of a sandbox's name
)

// Terms are how long a sandbox may live, and what is noted of it.
type Terms struct {
	// TTL is the time from now to its hard end; zero is one hour.
	TTL time.Duration
	// Idle ends it after so long without a call; zero is never.
	Idle   time.Duration
	Name   string
	Labels map[string]string
	// Network is what it may reach; nil is nothing, or what its origin may.
	Network *sandbox.NetworkPolicy
}

// CreateRequest asks for a sandbox: exactly one of Template and Snapshot.
type CreateRequest struct {
	Template string
	Snapshot string
	// Dedicated reserves whole processors of the host.
	Dedicated bool
	// Persistent lets the sandbox outlive the server's process: the next one
	// adopts it.
	Persistent bool `json:",omitempty"`
	Terms
	// Key makes a repeated request give the first one's sandbox; "" is none.
	Key string `json:"-"`
}

var templateName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)

// spec checks the terms and makes the engine's of them.
func (s *Service) spec(t Terms) (sandbox.Spec, error) {
	switch {
	case t.TTL < 0 || t.Idle < 0:
		return sandbox.Spec{}, fault.Errorf(fault.Invalid, "time to live and idle limit must not be negative")
	case t.TTL > s.o.MaxTTL:
		return sandbox.Spec{}, fault.Errorf(fault.Invalid, "a sandbox lives at most %v", s.o.MaxTTL).WithHint("extend it later")
	case len(t.Name) > maxName || !utf8.ValidString(t.Name):
		return sandbox.Spec{}, fault.Errorf(fault.Invalid, "a sandbox's name is text of at most %d bytes", maxName)
	case len(t.Labels) > MaxLabels:
		return sandbox.Spec{}, fault.Errorf(fault.Invalid, "a sandbox has at most %d labels, not %d", MaxLabels, len(t.Labels))
	}
	for name, value := range t.Labels {
		if name == "" || len(name) > maxLabel || len(value) > maxValue || !utf8.ValidString(name) || !utf8.ValidString(value) {
			return sandbox.Spec{}, fault.Errorf(fault.Invalid, "label %.80q: a name has 1 to %d bytes of text, a value at most %d", name, maxLabel, maxValue)
		}
	}
	ttl := t.TTL
	if ttl == 0 {
		ttl = min(sandbox.DefaultDeadline, s.o.MaxTTL)
	}
	return sandbox.Spec{Deadline: time.Now().Add(ttl), IdleLimit: t.Idle, Metadata: maps.Clone(t.Labels), Network: t.Network}, nil
}

// Create makes a sandbox and gives it when it answers. It waits QueueWait for
// room on the host. Errors: fault.Invalid for a request that means nothing or a
// template that does not exist, fault.Limited for a quota that is used up,
// fault.Exhausted for a host that is full, fault.Conflict for a template that is not built or a key
// that was used for something else (ErrKeyReused).
func (s *Service) Create(ctx context.Context, req CreateRequest) (Record, error) {
	actor := account.ActorOf(ctx)
	if err := account.May(actor, account.Create, account.Thing{Kind: account.SandboxThing}); err != nil {
		return Record{}, err
	}
	return once(ctx, s, "create", req.Key, req, func(ctx context.Context) (Record, error) { return s.create(ctx, actor, req) })
}

func (s *Service) create(ctx context.Context, actor account.Actor, req CreateRequest) (Record, error) {
	leave, err := s.enter()
	if err != nil {
		return Record{}, err
	}
	defer leave()
	if (req.Template == "") == (req.Snapshot == "") {
		return Record{}, fault.Errorf(fault.Invalid, "a sandbox is made of exactly one of template and snapshot")
	}
	spec, err := s.spec(req.Terms)
	if err != nil {
		return Record{}, err
	}
	spec.Dedicated, spec.Persistent = req.Dedicated, req.Persistent
	want := Held{Sandboxes: 1}
	if req.Snapshot != "" {
		snap, err := s.findSnapshot(ctx, account.Use, req.Snapshot)
		if err != nil {
			return Record{}, err
		}
		spec.Snapshot, want.DiskBytes = snap.ID, snap.Shape.Disk
	} else {
		t, err := s.template(ctx, actor, req.Template)
		if err != nil {
			return Record{}, err
		}
		spec.Template, want.DiskBytes = &t, t.Shape.Disk
	}
	promised, err := s.promise(ctx, actor, want)
	if err != nil {
		return Record{}, err
	}
	defer promised()
	var sb *sandbox.Sandbox
	err = s.queued(ctx, &spec, func(ctx context.Context) (err error) {
		sb, err = s.o.Machines.Create(ctx, spec)
		return err
	})
	if err != nil {
		return Record{}, err
	}
	return s.adopt(ctx, actor, sb, Record{Name: req.Name, Snapshot: req.Snapshot, Dedicated: req.Dedicated, Labels: req.Labels})
}

// template gives a template that the actor may use.
func (s *Service) template(ctx context.Context, actor account.Actor, name string) (sandbox.Template, error) {
	// Elsewhere a name may be a path of this host.
	if !templateName.MatchString(name) {
		return sandbox.Template{}, fault.Errorf(fault.Invalid, "%.60q is no name of a template", name).
			WithHint("a name has lower-case letters, digits and dashes; list them with GET /templates")
	}
	if err := account.May(actor, account.Use, account.Thing{Kind: account.TemplateThing, ID: name, Open: true}); err != nil {
		return sandbox.Template{}, err
	}
	return s.o.Templates.Template(ctx, name)
}

// queued runs f, which may wait for room on the host: not for longer than
// QueueWait from the moment that it has to.
func (s *Service) queued(ctx context.Context, spec *sandbox.Spec, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var timer *time.Timer
	spec.Queued = func(int) { // called by the goroutine that waits
		if timer == nil {
			timer = time.AfterFunc(s.o.QueueWait, func() {
				cancel(fault.Errorf(fault.Exhausted, "the host had no room for the sandbox within %v", s.o.QueueWait).
					WithHint("try again, or end sandboxes that are not needed"))
			})
		}
	}
	err := f(ctx)
	if timer != nil {
		timer.Stop()
	}
	return err
}

// adopt writes the row of a sandbox that was just made. A sandbox without a
// row would be nobody's: then it ends.
func (s *Service) adopt(ctx context.Context, actor account.Actor, sb *sandbox.Sandbox, r Record) (Record, error) {
	info := sb.Info()
	r.ID, r.Owner, r.Token, r.Node = info.ID, actor.User, actor.Token, s.o.Node
	r.Template, r.TemplateDigest, r.Shape = info.Template, info.TemplateDigest, info.Shape
	r.BootMode, r.Boot, r.Created, r.Deadline, r.Idle = info.BootMode, info.Boot, info.Created, info.Deadline, info.IdleLimit
	r.Labels, r.Persistent = maps.Clone(info.Metadata), info.Persistent
	err := context.Cause(ctx) // nobody would learn its ID
	if err == nil {
		err = s.o.Store.AddSandbox(ctx, r)
	}
	if err != nil {
		if derr := sb.Destroy(); derr != nil {
			s.o.Log.Error("end a sandbox that has no row", "sandbox", r.ID, "err", derr)
		}
		return Record{}, err
	}
	if err := s.keep(sb, actor, r); err != nil {
		return Record{}, err
	}
	return r, nil
}
