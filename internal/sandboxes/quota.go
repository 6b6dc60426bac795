package sandboxes

import (
	"context"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
)

// Quota is what one owner may have. Zero is no bound.
type Quota struct {
	// Sandboxes is how many may live at once.
	Sandboxes int
	// CPUPerDay is processor time from midnight to midnight, UTC.
	CPUPerDay time.Duration
	// DiskBytes is what the disks of live sandboxes may hold together.
	DiskBytes int64
	// Snapshots and SnapshotBytes bound what is kept.
	Snapshots     int
	SnapshotBytes int64
}

func overQuota(hint, format string, args ...any) error {
	return fault.Errorf(fault.Limited, format, args...).WithHint("%s", hint)
}

// share is a quota, and whose it is: an owner's, or one token's of the owner.
type share struct {
	Quota
	owner, token string
}

// shares are the quotas that hold for an actor.
func (s *Service) shares(actor account.Actor) []share {
	if actor.System {
		return nil
	}
	all := []share{{s.o.Quota(actor), actor.User, ""}}
	if q := s.o.TokenQuota(actor); actor.Token != "" && q != (Quota{}) {
		all = append(all, share{q, actor.User, actor.Token})
	}
	return all
}

// promise sets aside what a request will take of its owner's and its token's
// quota, or refuses it. The caller calls done when the store has it, or nothing
// came of it.
func (s *Service) promise(ctx context.Context, actor account.Actor, want Held) (done func(), err error) {
	var promised []func()
	done = func() {
		for _, f := range promised {
			f()
		}
	}
	for _, sh := range s.shares(actor) {
		making, back := s.setAside(sh, want)
		promised = append(promised, back)
		// What is promised was added first: of two requests that ask for the last
		// place, both may be refused, but never both be served.
		have, err := s.o.Store.Held(ctx, sh.owner, sh.token, dayOf(time.Now()))
		if err == nil {
			err = sh.allows(have, making, want)
		}
		if err != nil {
			done()
			return nil, err
		}
	}
	return done, nil
}

// setAside adds to what is promised of a share, and gives all that is.
func (s *Service) setAside(sh share, want Held) (making Held, back func()) {
	key := sh.owner + "\x00" + sh.token
	add := func(n int) Held {
		s.mu.Lock()
		defer s.mu.Unlock()
		m := s.making[key]
		m.Sandboxes, m.DiskBytes, m.Snapshots = m.Sandboxes+n*want.Sandboxes, m.DiskBytes+int64(n)*want.DiskBytes, m.Snapshots+n*want.Snapshots
		if s.making[key] = m; m == (Held{}) {
			delete(s.making, key)
		}
		return m
	}
	return add(1), func() { add(-1) }
}

func dayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// allows says whether what is there and what is promised, together with what
// was asked for, fits.
func (q Quota) allows(have, making, want Held) error {
	switch {
	case want.Sandboxes > 0 && q.Sandboxes > 0 && have.Sandboxes+making.Sandboxes > q.Sandboxes:
		return overQuota("end one that is not needed", "you have %d of %d sandboxes", have.Sandboxes, q.Sandboxes)
	case want.DiskBytes > 0 && q.DiskBytes > 0 && have.DiskBytes+making.DiskBytes > q.DiskBytes:
		return overQuota("end sandboxes that are not needed", "your sandboxes have %d of %d bytes of disk", have.DiskBytes, q.DiskBytes)
	case want.Snapshots > 0 && q.Snapshots > 0 && have.Snapshots+making.Snapshots > q.Snapshots:
		return overQuota("remove one that is not needed", "you have %d of %d snapshots", have.Snapshots, q.Snapshots)
	case want.Snapshots > 0 && q.SnapshotBytes > 0 && have.SnapshotBytes >= q.SnapshotBytes:
		return overQuota("remove some that are not needed", "your snapshots have %d of %d bytes", have.SnapshotBytes, q.SnapshotBytes)
	case q.CPUPerDay > 0 && have.CPU >= q.CPUPerDay:
		return overQuota("the day begins at midnight UTC", "your sandboxes have used %v of %v processor time today", have.CPU.Round(time.Second), q.CPUPerDay)
	}
	return nil
}

// MyQuota gives what the actor may have, and has.
func (s *Service) MyQuota(ctx context.Context) (Quota, Held, error) {
	actor := account.ActorOf(ctx)
	if err := account.May(actor, account.List, account.Thing{Kind: account.UsageThing}); err != nil {
		return Quota{}, Held{}, err
	}
	have, err := s.o.Store.Held(ctx, actor.User, "", dayOf(time.Now()))
	return s.o.Quota(actor), have, err
}
