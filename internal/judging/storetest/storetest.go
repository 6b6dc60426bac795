// Package storetest is the suite that every store of problems and submissions
// must pass. Start with Exercise.
//
// It is imported by tests only and must not know any store.
package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/judging"
	"assay/internal/work"
)

// Parts are a fresh store and its queue.
type Parts struct {
	Store judging.Store
	// Claim takes the job that is next; ok is false if there is none.
	Claim func(ctx context.Context) (j work.Job, ok bool, err error)
}

// Exercise runs the suite; open gives fresh parts for each test.
func Exercise(t *testing.T, open func(t *testing.T) Parts) {
	tests := []struct {
		name string
		run  func(*testing.T, Parts)
	}{
		{"versions", versions},
		{"problems", problems},
		{"submission_has_run_and_job", submissionHasRunAndJob},
		{"same_key_same_submission", sameKey},
		{"pages", pages},
		{"finish_once", finishOnce},
		{"submissions_go_before_rejudges", order},
		{"rejudge_is_applied_whole", rejudgeApplied},
		{"reasons_have_any_bytes", anyBytes},
		{"rejudge_is_cancelled", rejudgeCancelled},
		{"not_there", notThere},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(t, open(t))
		})
	}
}

var end = work.End{State: work.Done, At: begin}

var begin = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func version(problem, digest string) judging.Version {
	return judging.Version{
		Problem: problem, Digest: digest, Package: "sha256:" + digest, Uploaded: begin, By: "ada",
		About: judging.About{Title: "T " + digest, Format: "2025-09", TimeLimit: time.Second, Memory: 1 << 20, Cases: 3, Languages: []string{"c"}, Warnings: []string{"w"}},
	}
}

// put makes a problem with one version.
func put(t *testing.T, s judging.Store, problem string) judging.Version {
	t.Helper()
	v := version(problem, "v1")
	if err := s.PutVersion(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	return v
}

func submission(n int, problem, user string) judging.Submission {
	id := fmt.Sprintf("s%03d", n)
	at := begin.Add(time.Duration(n) * time.Second)
	return judging.Submission{
		ID: id, Problem: problem, Version: "v1", User: user, Login: "login of " + user, Language: "python3", Digest: "d" + id, Files: "sha256:" + id,
		Labels: map[string]string{"contest": "autumn"}, Received: at,
		Run: judging.Run{ID: "r" + id, Submission: id, Version: "v1", State: judging.Queued, Created: at},
	}
}

func add(t *testing.T, s judging.Store, sub judging.Submission) judging.Submission {
	t.Helper()
	kept, err := s.AddSubmission(t.Context(), sub)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// finish claims the next job and ends its run with a verdict.
func finish(t *testing.T, p Parts, v judge.Verdict, score string) judging.Run {
	t.Helper()
	j, ok, err := p.Claim(t.Context())
	if err != nil || !ok {
		t.Fatalf("claim: %v, %v", ok, err)
	}
	run := j.Ref
	if err := p.Store.BeginRun(t.Context(), run, "node", 1); err != nil {
		t.Fatal(err)
	}
	r, err := p.Store.Run(t.Context(), run)
	if err != nil || r.State != judging.Running || r.Node != "node" {
		t.Fatalf("a run that has begun is %+v, %v", r, err)
	}
	r = done(r, v, score)
	if err := p.Store.FinishRun(t.Context(), j, end, r); err != nil {
		t.Fatal(err)
	}
	return r
}

func done(r judging.Run, v judge.Verdict, score string) judging.Run {
	r.State, r.Verdict, r.Reason, r.FailedCase, r.TimeUS, r.Memory, r.Record = judging.Done, v, "why", 2, 1500, 4096, "sha256:record"
	r.Tries, r.Ended = 1, begin.Add(time.Hour)
	if score != "" {
		s, err := judge.ParseScore(score)
		if err != nil {
			panic(err)
		}
		r.Score = &s
	}
	r.Result = &judge.Run{ID: r.ID, Verdict: v, Reason: "why", Cases: []judge.CaseResult{{Number: 1, Verdict: v}}}
	return r
}

func versions(t *testing.T, p Parts) {
	first := put(t, p.Store, "sum")
	second := version("sum", "v2")
	second.Uploaded = begin.Add(time.Minute)
	for range 2 { // the same again changes nothing
		if err := p.Store.PutVersion(t.Context(), second); err != nil {
			t.Fatal(err)
		}
	}
	first.Number, second.Number = 1, 2
	got, err := p.Store.Versions(t.Context(), "sum")
	if diff := cmp.Diff([]judging.Version{second, first}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	problem, err := p.Store.Problem(t.Context(), "sum")
	if want := (judging.Problem{ID: "sum", Current: second, Created: begin}); err != nil || cmp.Diff(want, problem) != "" {
		t.Errorf("%v\n%s", err, cmp.Diff(want, problem))
	}
	// An old one is made current again.
	if err := p.Store.PutVersion(t.Context(), version("sum", "v1")); err != nil {
		t.Fatal(err)
	}
	if problem, err = p.Store.Problem(t.Context(), "sum"); err != nil || problem.Current.Digest != "v1" || problem.Current.Number != 1 {
		t.Errorf("current is %+v, %v", problem.Current, err)
	}
	if v, err := p.Store.Version(t.Context(), "sum", "v2"); err != nil || cmp.Diff(second, v) != "" {
		t.Errorf("%v\n%s", err, cmp.Diff(second, v))
	}
}

func problems(t *testing.T, p Parts) {
	for _, id := range []string{"c", "a", "b"} {
		put(t, p.Store, id)
	}
	if err := p.Store.OpenProblem(t.Context(), "b", true); err != nil {
		t.Fatal(err)
	}
	ids := func(q judging.ProblemQuery) (list []string) {
		got, err := p.Store.Problems(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, pr := range got {
			list = append(list, pr.ID)
		}
		return list
	}
	for _, tt := range []struct {
		q    judging.ProblemQuery
		want []string
	}{
		{judging.ProblemQuery{Limit: 10, Closed: true}, []string{"a", "b", "c"}},
		{judging.ProblemQuery{Limit: 2, Closed: true}, []string{"a", "b"}},
		{judging.ProblemQuery{Limit: 2, Closed: true, After: "b"}, []string{"c"}},
		{judging.ProblemQuery{Limit: 10}, []string{"b"}},
	} {
		if diff := cmp.Diff(tt.want, ids(tt.q)); diff != "" {
			t.Errorf("%+v: %s", tt.q, diff)
		}
	}
}

func submissionHasRunAndJob(t *testing.T, p Parts) {
	put(t, p.Store, "sum")
	sub := submission(1, "sum", "u1")
	add(t, p.Store, sub)
	got, err := p.Store.Submission(t.Context(), sub.ID)
	if diff := cmp.Diff(sub, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	want := finish(t, p, judge.WrongAnswer, "12.5")
	got, err = p.Store.Submission(t.Context(), sub.ID)
	want.Node = "node"
	if diff := cmp.Diff(want, got.Run, cmp.Comparer(sameScore)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if j, ok, err := p.Claim(t.Context()); ok || err != nil {
		t.Errorf("there is another job, of %q, %v", j.Ref, err)
	}
}

func sameScore(a, b judge.Score) bool { return a.Cmp(b) == 0 }

func sameKey(t *testing.T, p Parts) {
	put(t, p.Store, "sum")
	first, second, other := submission(1, "sum", "u1"), submission(2, "sum", "u1"), submission(3, "sum", "u2")
	first.Idempotency, first.IdempotencyBody = "k", "b1"
	second.Idempotency, second.IdempotencyBody = "k", "b2"
	other.Idempotency, other.IdempotencyBody = "k", "b3"
	for _, tt := range []struct{ sub, want judging.Submission }{{first, first}, {second, first}, {other, other}} {
		if got := add(t, p.Store, tt.sub); got.ID != tt.want.ID || got.IdempotencyBody != tt.want.IdempotencyBody {
			t.Errorf("%s with its key gives %s, want %s", tt.sub.ID, got.ID, tt.want.ID)
		}
	}
	for range 2 {
		finish(t, p, judge.Accepted, "")
	}
	if j, ok, err := p.Claim(t.Context()); ok || err != nil {
		t.Errorf("what was refused has a job, of %q, %v", j.Ref, err)
	}
	// Without a key nothing is the same.
	add(t, p.Store, submission(4, "sum", "u1"))
	if got := add(t, p.Store, submission(5, "sum", "u1")); got.ID != "s005" {
		t.Errorf("got %s", got.ID)
	}
	for _, tt := range []struct{ user, key, want string }{{"u1", "k", "s001"}, {"u2", "k", "s003"}, {"u3", "k", ""}, {"u1", "l", ""}, {"u1", "", ""}} {
		sub, err := p.Store.SubmissionByKey(t.Context(), tt.user, tt.key)
		if sub.ID != tt.want || fault.Is(err, fault.NotFound) != (tt.want == "") {
			t.Errorf("%s has made %q with key %q, %v, want %q", tt.user, sub.ID, tt.key, err, tt.want)
		}
	}
}

func pages(t *testing.T, p Parts) {
	put(t, p.Store, "sum")
	put(t, p.Store, "max")
	for n := range 5 {
		sub := submission(n, []string{"sum", "max"}[n%2], []string{"u1", "u2"}[n/3])
		if n == 2 {
			sub.Received = begin.Add(time.Second) // as number 1
			sub.Run.Created = sub.Received
		}
		add(t, p.Store, sub)
	}
	finish(t, p, judge.Accepted, "") // the first that came
	ids := func(q judging.SubmissionQuery) (list []string) {
		for {
			got, err := p.Store.Submissions(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range got {
				list = append(list, s.ID)
			}
			if len(got) < q.Limit {
				return list
			}
			q.After = got[len(got)-1].Page()
		}
	}
	for _, tt := range []struct {
		q    judging.SubmissionQuery
		want []string
	}{
		{judging.SubmissionQuery{Limit: 100}, []string{"s004", "s003", "s002", "s001", "s000"}},
		{judging.SubmissionQuery{Limit: 2}, []string{"s004", "s003", "s002", "s001", "s000"}},
		{judging.SubmissionQuery{Limit: 1, Problem: "max"}, []string{"s003", "s001"}},
		{judging.SubmissionQuery{Limit: 9, User: "u2"}, []string{"s004", "s003"}},
		{judging.SubmissionQuery{Limit: 9, Verdict: judge.Accepted}, []string{"s000"}},
		{judging.SubmissionQuery{Limit: 9, Verdict: judge.WrongAnswer}, nil},
	} {
		if diff := cmp.Diff(tt.want, ids(tt.q)); diff != "" {
			t.Errorf("%+v: %s", tt.q, diff)
		}
	}
	if _, err := p.Store.Submissions(t.Context(), judging.SubmissionQuery{After: "nonsense", Limit: 1}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a cursor that is none: %v", err)
	}
}

func finishOnce(t *testing.T, p Parts) {
	put(t, p.Store, "sum")
	add(t, p.Store, submission(1, "sum", "u1"))
	j, ok, err := p.Claim(t.Context())
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	run := j.Ref
	r, err := p.Store.Run(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	stale := j
	stale.Token = "another"
	if err := p.Store.FinishRun(t.Context(), stale, end, done(r, judge.WrongAnswer, "")); !fault.Is(err, fault.Conflict) {
		t.Errorf("with a lease that is not the job's: %v", err)
	}
	if got, err := p.Store.Run(t.Context(), run); err != nil || got.Verdict != "" {
		t.Errorf("it has left %+v, %v", got, err)
	}
	if err := p.Store.FinishRun(t.Context(), j, end, done(r, judge.Accepted, "")); err != nil {
		t.Fatal(err)
	}
	if err := p.Store.FinishRun(t.Context(), j, end, done(r, judge.WrongAnswer, "")); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second end: %v", err)
	}
	if got, err := p.Store.Run(t.Context(), run); err != nil || got.Verdict != judge.Accepted {
		t.Errorf("the verdict is now %s, %v", got.Verdict, err)
	}
}

// anyBytes: what a program or a checker says must not keep a verdict from being
// kept.
func anyBytes(t *testing.T, p Parts) {
	put(t, p.Store, "sum")
	add(t, p.Store, submission(1, "sum", "u1"))
	j, ok, err := p.Claim(t.Context())
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	r, err := p.Store.Run(t.Context(), j.Ref)
	if err != nil {
		t.Fatal(err)
	}
	r = done(r, judge.WrongAnswer, "")
	r.Reason = "got \x00\xff, want 7"
	r.Result.Reason = r.Reason
	with := end
	with.Reason = r.Reason
	if err := p.Store.FinishRun(t.Context(), j, with, r); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Store.Run(t.Context(), r.ID); err != nil || got.Reason != "got \uFFFD, want 7" {
		t.Errorf("the reason is %q, %v", got.Reason, err)
	}
}

func order(t *testing.T, p Parts) {
	put(t, p.Store, "sum")
	add(t, p.Store, submission(1, "sum", "u1"))
	finish(t, p, judge.WrongAnswer, "")
	rejudge(t, p, "x1", "s001")
	add(t, p.Store, submission(2, "sum", "u1"))
	for _, want := range []string{"rs002", "x1-s001"} {
		if got := finish(t, p, judge.Accepted, ""); got.ID != want {
			t.Errorf("next is %s, want %s", got.ID, want)
		}
	}
}

// rejudge makes a set of submissions.
func rejudge(t *testing.T, p Parts, id string, submissions ...string) judging.Rejudge {
	t.Helper()
	r := judging.Rejudge{ID: id, Problem: "sum", Version: "v1", Reason: "new tests", State: judging.RejudgeRunning, By: "ada", Created: begin.Add(time.Hour), Total: len(submissions)}
	var runs []judging.Run
	for _, s := range submissions {
		runs = append(runs, judging.Run{ID: id + "-" + s, Submission: s, Version: "v1", State: judging.Queued, Created: r.Created, Rejudge: id})
	}
	if err := p.Store.AddRejudge(t.Context(), r, runs); err != nil {
		t.Fatal(err)
	}
	return r
}

func rejudgeApplied(t *testing.T, p Parts) {
	put(t, p.Store, "sum")
	for n := range 3 {
		add(t, p.Store, submission(n, "sum", "u1"))
		finish(t, p, judge.WrongAnswer, "1")
	}
	want := rejudge(t, p, "x1", "s000", "s001", "s002")
	if err := p.Store.EndRejudge(t.Context(), "x1", judging.RejudgeApplied); !fault.Is(err, fault.Conflict) {
		t.Errorf("applied before its end: %v", err)
	}
	finish(t, p, judge.Accepted, "2")
	finish(t, p, judge.WrongAnswer, "1")
	got, err := p.Store.Rejudge(t.Context(), "x1")
	want.Done = 2
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	finish(t, p, judge.JudgeError, "")
	if got, err = p.Store.Rejudge(t.Context(), "x1"); err != nil || got.State != judging.RejudgeReady || got.Failed != 1 {
		t.Errorf("after all runs: %+v, %v", got, err)
	}
	if sub, err := p.Store.Submission(t.Context(), "s000"); err != nil || sub.Run.Verdict != judge.WrongAnswer {
		t.Errorf("before it is applied a verdict is %s, %v", sub.Run.Verdict, err)
	}
	if err := p.Store.EndRejudge(t.Context(), "x1", judging.RejudgeApplied); err != nil {
		t.Fatal(err)
	}
	verdicts := map[string]judge.Verdict{"s000": judge.Accepted, "s001": judge.WrongAnswer, "s002": judge.WrongAnswer}
	for id, want := range verdicts {
		if sub, err := p.Store.Submission(t.Context(), id); err != nil || sub.Run.Verdict != want {
			t.Errorf("%s is %s, want %s, %v", id, sub.Run.Verdict, want, err)
		}
	}
	runs, err := p.Store.RejudgeRuns(t.Context(), "x1")
	if err != nil || len(runs) != 3 || runs[0].Before.Verdict != judge.WrongAnswer || runs[0].After.Verdict != judge.Accepted {
		t.Errorf("what it changed: %+v, %v", runs, err)
	}
	for _, state := range []judging.RejudgeState{judging.RejudgeApplied, judging.RejudgeCancelled} {
		if err := p.Store.EndRejudge(t.Context(), "x1", state); !fault.Is(err, fault.Conflict) {
			t.Errorf("%s again: %v", state, err)
		}
	}
	all, err := p.Store.Runs(t.Context(), "s000")
	if err != nil || len(all) != 2 || all[0].Rejudge != "" || all[1].Rejudge != "x1" {
		t.Errorf("all runs: %+v, %v", all, err)
	}
}

func rejudgeCancelled(t *testing.T, p Parts) {
	put(t, p.Store, "sum")
	for n := range 2 {
		add(t, p.Store, submission(n, "sum", "u1"))
		finish(t, p, judge.WrongAnswer, "")
	}
	rejudge(t, p, "x1", "s000", "s001")
	// One is under way.
	j, ok, err := p.Claim(t.Context())
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	run := j.Ref
	if err := p.Store.EndRejudge(t.Context(), "x1", judging.RejudgeCancelled); err != nil {
		t.Fatal(err)
	}
	r, err := p.Store.Run(t.Context(), run)
	if err != nil || r.State != judging.Cancelled {
		t.Fatalf("a run of it is %s, %v", r.State, err)
	}
	// Whoever works on it has lost the job.
	if err := p.Store.FinishRun(t.Context(), j, end, done(r, judge.Accepted, "")); !fault.Is(err, fault.Conflict) {
		t.Errorf("finish a run that was cancelled: %v", err)
	}
	if again, err := p.Store.Run(t.Context(), run); err != nil || again != r {
		t.Errorf("after that it is %+v, %v", again, err)
	}
	if j, ok, err := p.Claim(t.Context()); ok || err != nil {
		t.Errorf("there is a job left, of %q, %v", j.Ref, err)
	}
	sets, err := p.Store.Rejudges(t.Context(), "", 10)
	if err != nil || len(sets) != 1 || sets[0].State != judging.RejudgeCancelled || sets[0].Ended.IsZero() {
		t.Errorf("the sets are %+v, %v", sets, err)
	}
	if sets, err = p.Store.Rejudges(t.Context(), sets[0].Page(), 10); err != nil || len(sets) != 0 {
		t.Errorf("the page after is %+v, %v", sets, err)
	}
}

func notThere(t *testing.T, p Parts) {
	put(t, p.Store, "sum")
	for name, err := range map[string]error{
		"problem":    second(p.Store.Problem(t.Context(), "x")),
		"version":    second(p.Store.Version(t.Context(), "sum", "x")),
		"open":       p.Store.OpenProblem(t.Context(), "x", true),
		"submission": second(p.Store.Submission(t.Context(), "x")),
		"run":        second(p.Store.Run(t.Context(), "x")),
		"rejudge":    second(p.Store.Rejudge(t.Context(), "x")),
		"end":        p.Store.EndRejudge(t.Context(), "x", judging.RejudgeApplied),
	} {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
