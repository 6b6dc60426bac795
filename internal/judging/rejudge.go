package judging

import (
	"context"
	"strings"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/judge"
)

// RejudgeState is how far a rejudge set is.
type RejudgeState string

// The states of a set. Ready is one that runs whose runs have all ended.
const (
	RejudgeRunning   RejudgeState = "running"
	RejudgeReady     RejudgeState = "ready"
	RejudgeApplied   RejudgeState = "applied"
	RejudgeCancelled RejudgeState = "cancelled"
)

// Rejudge is a set of submissions that are judged again. No verdict changes
// before it is applied.
type Rejudge struct {
	ID      string
	Problem string
	// Version is what they are judged by.
	Version string
	Reason  string
	State   RejudgeState
	By      string
	Created time.Time
	Ended   time.Time
	// Total, Done and Failed count runs; Failed are those where we failed.
	Total, Done, Failed int
	// Changes are where verdict or score differ, once both are there.
	Changes []Rejudged
}

// Rejudged is one submission of a set.
type Rejudged struct {
	Submission, Login string
	Before, After     Run
}

func (r Rejudged) changed() bool {
	same := r.Before.Score == nil && r.After.Score == nil ||
		r.Before.Score != nil && r.After.Score != nil && r.Before.Score.Cmp(*r.After.Score) == 0
	return r.After.State == Done && r.After.Verdict != judge.JudgeError && (r.Before.Verdict != r.After.Verdict || !same)
}

// NewRejudge says what to judge again.
type NewRejudge struct {
	Problem string
	// Version is a digest; empty is the current one.
	Version string
	// Verdict, if not empty, takes only those that have it now; Submissions, if
	// not empty, only these.
	Verdict     judge.Verdict
	Submissions []string
	Reason      string
}

// maxRejudge bounds the submissions of one set.
const maxRejudge = 10_000

var rejudgeThing = account.Thing{Kind: account.RejudgeThing}

// NewRejudge makes a set. Its runs wait behind submissions.
func (s *Service) NewRejudge(ctx context.Context, n NewRejudge) (Rejudge, error) {
	actor := account.ActorOf(ctx)
	if err := account.May(actor, account.Create, rejudgeThing); err != nil {
		return Rejudge{}, err
	}
	if strings.TrimSpace(n.Reason) == "" {
		return Rejudge{}, fault.Errorf(fault.Invalid, "a rejudge needs a reason").WithHint("say why, for those who ask later")
	}
	p, err := s.problem(ctx, n.Problem, account.ReadHidden)
	if err != nil {
		return Rejudge{}, err
	}
	version := p.Current
	if n.Version != "" {
		if version, err = s.store.Version(ctx, p.ID, n.Version); err != nil {
			return Rejudge{}, err
		}
	}
	list, err := s.chosen(ctx, n)
	if err != nil {
		return Rejudge{}, err
	}
	r := Rejudge{
		ID: NewID(), Problem: p.ID, Version: version.Digest, Reason: n.Reason, State: RejudgeRunning, By: actor.Name, Created: now(), Total: len(list),
	}
	runs := make([]Run, len(list))
	for i, sub := range list {
		runs[i] = Run{ID: NewID(), Submission: sub.ID, Version: version.Digest, State: Queued, Created: r.Created, Rejudge: r.ID}
	}
	if err := s.store.AddRejudge(ctx, r, runs); err != nil {
		return Rejudge{}, err
	}
	s.queue.Wake(JobKind)
	return r, nil
}

// chosen are the submissions that a set is about.
func (s *Service) chosen(ctx context.Context, n NewRejudge) ([]Submission, error) {
	wanted := map[string]bool{}
	for _, id := range n.Submissions {
		wanted[id] = true
	}
	var chosen []Submission
	q := SubmissionQuery{Problem: n.Problem, Verdict: n.Verdict, Limit: 500}
	for {
		page, err := s.store.Submissions(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, sub := range page {
			if len(wanted) == 0 || wanted[sub.ID] {
				chosen = append(chosen, sub)
				delete(wanted, sub.ID)
			}
		}
		if len(page) < q.Limit || len(n.Submissions) > 0 && len(wanted) == 0 || len(chosen) > maxRejudge {
			break
		}
		q.After = page[len(page)-1].Page()
	}
	if len(chosen) > maxRejudge {
		return nil, fault.Errorf(fault.Invalid, "a set has at most %d submissions, there are more", maxRejudge).WithHint("choose by verdict, or name them")
	}
	for id := range wanted {
		return nil, fault.Errorf(fault.NotFound, "problem %s has no submission %s that is asked for", n.Problem, id)
	}
	if len(chosen) == 0 {
		return nil, fault.Errorf(fault.Invalid, "no submission of problem %s is asked for", n.Problem)
	}
	return chosen, nil
}

// Rejudge gives a set with what it would change, or has changed.
func (s *Service) Rejudge(ctx context.Context, id string) (Rejudge, error) {
	if err := account.May(account.ActorOf(ctx), account.Read, rejudgeThing); err != nil {
		return Rejudge{}, err
	}
	r, err := s.store.Rejudge(ctx, id)
	if err != nil {
		return Rejudge{}, err
	}
	runs, err := s.store.RejudgeRuns(ctx, id)
	if err != nil {
		return Rejudge{}, err
	}
	for _, run := range runs {
		if run.changed() {
			r.Changes = append(r.Changes, run)
		}
	}
	return r, nil
}

// Rejudges are all sets, newest first, without their changes.
func (s *Service) Rejudges(ctx context.Context, after string, limit int) ([]Rejudge, error) {
	if err := account.May(account.ActorOf(ctx), account.List, rejudgeThing); err != nil {
		return nil, err
	}
	return s.store.Rejudges(ctx, after, limit)
}

// EndRejudge applies or cancels a set: see Store.EndRejudge.
func (s *Service) EndRejudge(ctx context.Context, id string, state RejudgeState) (Rejudge, error) {
	if err := account.May(account.ActorOf(ctx), account.Change, rejudgeThing); err != nil {
		return Rejudge{}, err
	}
	if err := s.store.EndRejudge(ctx, id, state); err != nil {
		return Rejudge{}, err
	}
	return s.Rejudge(ctx, id)
}
