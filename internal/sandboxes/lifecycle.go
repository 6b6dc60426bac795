package sandboxes

import (
	"context"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/sandbox"
)

// Get gives a sandbox, live or ended.
func (s *Service) Get(ctx context.Context, id string) (Record, error) {
	return s.find(ctx, account.Read, id)
}

// MaxPage is the most that one page of a list has.
const MaxPage = 200

// Sandboxes lists what the actor may see, newest first: an admin all of them, others
// their own. Owner, Node and Limit of the query may be left out.
func (s *Service) Sandboxes(ctx context.Context, q Query) ([]Record, error) {
	actor := account.ActorOf(ctx)
	if err := account.May(actor, account.List, account.Thing{Kind: account.SandboxThing}); err != nil {
		return nil, err
	}
	if err := settleQuery(actor, account.SandboxThing, &q); err != nil {
		return nil, err
	}
	rows, err := s.o.Store.Sandboxes(ctx, q)
	for i, r := range rows {
		if l := s.get(r.ID); l != nil {
			rows[i] = l.record()
		}
	}
	return rows, err
}

// settleQuery limits a query to what the actor may read.
func settleQuery(actor account.Actor, kind account.Kind, q *Query) error {
	// Whoever gives out pages asks for one more: is there a further page?
	if q.Limit <= 0 || q.Limit > MaxPage+1 {
		q.Limit = MaxPage
	}
	if len(q.Labels) > MaxLabels {
		return fault.Errorf(fault.Invalid, "a list is filtered by at most %d labels", MaxLabels)
	}
	// Whoever may read what is the server's may read all.
	all := account.May(actor, account.Read, account.Thing{Kind: kind, ID: "of another"}) == nil
	if !all {
		if q.Owner != nil && *q.Owner != actor.User {
			return fault.Errorf(fault.Denied, "you may list your own only")
		}
		q.Owner = &actor.User
	}
	return nil
}

// Kill ends a sandbox in any state. Ending one that has ended is no error.
func (s *Service) Kill(ctx context.Context, id string) error {
	r, err := s.find(ctx, account.Delete, id)
	if err != nil {
		return err
	}
	l := s.get(id)
	if l == nil {
		if r.Live() && r.Node != s.o.Node {
			return s.gone(r)
		}
		return nil
	}
	if err := l.destroy("killed by " + account.ActorOf(ctx).Name); err != nil {
		return err
	}
	// Whoever asks next must not see it live.
	select {
	case <-l.written:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Pause stops all processes of a sandbox; its deadline goes on.
func (s *Service) Pause(ctx context.Context, id string) (Record, error) {
	return s.pausing(ctx, id, true, (*sandbox.Sandbox).Pause)
}

// Resume lets a paused sandbox go on.
func (s *Service) Resume(ctx context.Context, id string) (Record, error) {
	return s.pausing(ctx, id, false, (*sandbox.Sandbox).Resume)
}

func (s *Service) pausing(ctx context.Context, id string, paused bool, verb func(*sandbox.Sandbox, context.Context) error) (Record, error) {
	l, err := s.alive(ctx, account.Change, id)
	if err != nil {
		return Record{}, err
	}
	if err := verb(l.sb, ctx); err != nil {
		return Record{}, err
	}
	return l.record(), s.o.Store.SetPaused(ctx, id, paused)
}

// Extend moves the hard end to ttl from now. The idle limit starts anew.
func (s *Service) Extend(ctx context.Context, id string, ttl time.Duration) (Record, error) {
	if ttl <= 0 || ttl > s.o.MaxTTL {
		return Record{}, fault.Errorf(fault.Invalid, "a sandbox can be extended by more than 0 and at most %v from now", s.o.MaxTTL)
	}
	l, err := s.alive(ctx, account.Change, id)
	if err != nil {
		return Record{}, err
	}
	at := time.Now().Add(ttl)
	if err := s.o.Store.SetLimits(ctx, id, at, l.sb.Info().IdleLimit); err != nil {
		return Record{}, err
	}
	if err := l.sb.Extend(at); err != nil {
		return Record{}, err
	}
	l.sb.Touch()
	return l.record(), nil
}

// SetIdle sets after how long without a call the sandbox ends; zero is never.
func (s *Service) SetIdle(ctx context.Context, id string, idle time.Duration) (Record, error) {
	if idle < 0 {
		return Record{}, fault.Errorf(fault.Invalid, "the idle limit must not be negative")
	}
	l, err := s.alive(ctx, account.Change, id)
	if err != nil {
		return Record{}, err
	}
	if err := s.o.Store.SetLimits(ctx, id, l.sb.Info().Deadline, idle); err != nil {
		return Record{}, err
	}
	if err := l.sb.SetIdleLimit(idle); err != nil {
		return Record{}, err
	}
	return l.record(), nil
}

// Touch counts as a use for the idle limit, and nothing else.
func (s *Service) Touch(ctx context.Context, id string) error {
	l, err := s.alive(ctx, account.Use, id)
	if err == nil {
		l.sb.Touch()
	}
	return err
}

// Ended is closed when the sandbox has ended here, and nil when it has not
// lived here.
func (s *Service) Ended(ctx context.Context, id string) (<-chan struct{}, error) {
	l, err := s.alive(ctx, account.Read, id)
	if err != nil {
		return nil, err
	}
	return l.sb.Ended(), nil
}

// Measured is what the host counts of a live sandbox now.
func (s *Service) Measured(ctx context.Context, id string) (sandbox.HostUsage, error) {
	l, err := s.alive(ctx, account.Read, id)
	if err != nil {
		return sandbox.HostUsage{}, err
	}
	return l.sb.Usage(), nil
}

// Events gives the log of a sandbox, live or ended: what was done to it.
func (s *Service) Events(ctx context.Context, id string) ([]sandbox.Event, error) {
	r, err := s.find(ctx, account.Read, id)
	if err != nil {
		return nil, err
	}
	if r.Node != s.o.Node {
		return nil, fault.Errorf(fault.Conflict, "the events of sandbox %s are on node %s", id, r.Node).WithHint("send the request to that node")
	}
	return s.o.Machines.Events(id)
}

// AllTemplates lists the templates that the actor may use.
func (s *Service) AllTemplates(ctx context.Context) ([]Template, error) {
	if err := account.May(account.ActorOf(ctx), account.List, account.Thing{Kind: account.TemplateThing}); err != nil {
		return nil, err
	}
	return s.o.Templates.Templates(ctx)
}

// OneTemplate gives a template by its name.
func (s *Service) OneTemplate(ctx context.Context, name string) (Template, error) {
	if err := account.May(account.ActorOf(ctx), account.Read, account.Thing{Kind: account.TemplateThing, ID: name, Open: true}); err != nil {
		return Template{}, err
	}
	all, err := s.o.Templates.Templates(ctx)
	if err != nil {
		return Template{}, err
	}
	for _, t := range all {
		if t.Name == name {
			return t, nil
		}
	}
	return Template{}, fault.Errorf(fault.NotFound, "there is no template %.60q", name).WithHint("list them with GET /templates")
}
