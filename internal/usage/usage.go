// Package usage tells what was used and what it costs: CPU time, memory of
// machines for as long as they had it, and snapshots for as long as they were
// kept. Start with Service.
//
// The package must not know SQL or HTTP; what is counted was written by those
// who run sandboxes, judge and grade.
package usage

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
)

// By says what the lines of a report are.
type By string

// What lines can be. A label's name follows ByLabel.
const (
	BySandbox By = "sandbox"
	ByUser    By = "user"
	ByProblem By = "problem"
	ByCourse  By = "course"
	ByLabel   By = "label:"
)

// Label is the label's name, or "".
func (b By) Label() string {
	name, ok := strings.CutPrefix(string(b), string(ByLabel))
	if !ok {
		return ""
	}
	return name
}

func (b By) check() error {
	switch b {
	case BySandbox, ByUser, ByProblem, ByCourse:
		return nil
	}
	if b.Label() == "" {
		return fault.Errorf(fault.Invalid, "usage by %q", string(b)).WithHint("use sandbox, user, problem, course or label:NAME")
	}
	return nil
}

// Query is what is counted.
type Query struct {
	By By
	// From and To are the first instant and the one after the last.
	From, To time.Time
	// User is the ID of the only user whose use counts; "" is all.
	User string
}

// Line is what was used by one of what By says.
type Line struct {
	// Key is "" for what belongs to none.
	Key string
	CPU time.Duration
	// Memory and Snapshots are bytes times seconds.
	Memory, Snapshots float64
	Sandboxes, Runs   int
	// Cost is in the currency of the rates.
	Cost float64
}

func (l *Line) add(o Line) {
	l.CPU += o.CPU
	l.Memory += o.Memory
	l.Snapshots += o.Snapshots
	l.Sandboxes += o.Sandboxes
	l.Runs += o.Runs
}

// Store counts. It may be used from many goroutines.
type Store interface {
	// Used are lines in any order; a key may have several.
	Used(ctx context.Context, q Query) ([]Line, error)
	// UserID is the ID of a login: NotFound.
	UserID(ctx context.Context, login string) (string, error)
}

// Rates are what use costs.
type Rates struct {
	Currency string
	// CPUHour is for an hour of CPU time, GiBHour for a GiB of memory for an hour,
	// SnapshotMonth for a GiB of snapshots for 30 days.
	CPUHour, GiBHour, SnapshotMonth float64
}

const gib = 1 << 30

// Cost is what a line costs.
func (r Rates) Cost(l Line) float64 {
	return l.CPU.Hours()*r.CPUHour + l.Memory/gib/3600*r.GiBHour + l.Snapshots/gib/(30*24*3600)*r.SnapshotMonth
}

// Report is what was used.
type Report struct {
	Query
	// Lines have what costs most first, then what used most CPU time.
	Lines []Line
	// Total is of all, also of lines that are left out.
	Total Line
	Rates Rates
	// Truncated says that lines are left out.
	Truncated bool
}

// Bounds of a report.
const (
	maxLines = 1000
	maxSpan  = 400 * 24 * time.Hour
	// defaultSpan is how long before the last instant the first one is.
	defaultSpan = 30 * 24 * time.Hour
)

// Service tells actors, who travel in the context, what was used. It may be used
// from many goroutines.
type Service struct {
	store Store
	rates Rates
}

// New makes a Service.
func New(store Store, rates Rates) *Service { return &Service{store, rates} }

// Report counts. login, if not "", is the only user. Members see their own:
// Denied for another's.
func (s *Service) Report(ctx context.Context, q Query, login string) (Report, error) {
	actor := account.ActorOf(ctx)
	if err := account.May(actor, account.List, account.Thing{Kind: account.UsageThing}); err != nil {
		return Report{}, err
	}
	if err := q.fill(); err != nil {
		return Report{}, err
	}
	if err := s.whose(ctx, actor, &q, login); err != nil {
		return Report{}, err
	}
	lines, err := s.store.Used(ctx, q)
	if err != nil {
		return Report{}, err
	}
	return s.report(q, lines), nil
}

// fill puts in what was left out.
func (q *Query) fill() error {
	q.By = cmp.Or(q.By, ByUser)
	if err := q.By.check(); err != nil {
		return err
	}
	if q.To.IsZero() {
		q.To = time.Now().UTC().Truncate(time.Microsecond)
	}
	if q.From.IsZero() {
		q.From = q.To.Add(-defaultSpan)
	}
	switch {
	case !q.From.Before(q.To):
		return fault.Errorf(fault.Invalid, "from %s is not before to %s", q.From.Format(time.RFC3339), q.To.Format(time.RFC3339))
	case q.To.Sub(q.From) > maxSpan:
		return fault.Errorf(fault.Invalid, "more than %d days", int(maxSpan.Hours()/24)).WithHint("ask for a shorter time")
	}
	return nil
}

// whose narrows a query to what the actor may see.
func (s *Service) whose(ctx context.Context, actor account.Actor, q *Query, login string) error {
	switch {
	case login == "" && account.May(actor, account.Read, account.Thing{Kind: account.UsageThing}) == nil:
		q.User = ""
		return nil
	case login == "" || login == actor.Name:
		q.User = actor.User
		return account.May(actor, account.Read, account.Thing{Kind: account.UsageThing, Owner: actor.User})
	}
	// Who may not see it does not learn whether there is such a login.
	if err := account.May(actor, account.Read, account.Thing{Kind: account.UsageThing}); err != nil {
		return err
	}
	id, err := s.store.UserID(ctx, login)
	q.User = id
	return err
}

// report puts lines together.
func (s *Service) report(q Query, lines []Line) Report {
	r := Report{Query: q, Rates: s.rates}
	at := map[string]int{}
	for _, l := range lines {
		i, ok := at[l.Key]
		if !ok {
			i = len(r.Lines)
			at[l.Key] = i
			r.Lines = append(r.Lines, Line{Key: l.Key})
		}
		r.Lines[i].add(l)
		r.Total.add(l)
	}
	for i := range r.Lines {
		r.Lines[i].Cost = s.rates.Cost(r.Lines[i])
	}
	r.Total.Cost = s.rates.Cost(r.Total)
	slices.SortFunc(r.Lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.CPU, a.CPU), cmp.Compare(b.Memory, a.Memory), strings.Compare(a.Key, b.Key))
	})
	if len(r.Lines) > maxLines {
		r.Lines, r.Truncated = r.Lines[:maxLines], true
	}
	return r
}
