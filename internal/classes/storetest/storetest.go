// Package storetest is the suite that every store of courses on a server must
// pass, beside that of package class. Start with Run.
//
// It is imported by tests only and must not know any store.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"assay/internal/classes"
	"assay/internal/course"
	"assay/internal/course/class"
	"assay/internal/course/grading"
	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/work"
)

// Parts are a fresh store and its queue.
type Parts struct {
	Store classes.Store
	// Claim takes the job of a kind that is next; the zero one is that there is
	// none.
	Claim func(ctx context.Context, kind string) (work.Job, error)
}

// Run runs the suite; open gives fresh parts for each test.
func Run(t *testing.T, open func(t *testing.T) Parts) {
	tests := []struct {
		name string
		run  func(t *testing.T, p Parts)
	}{
		{"CoursesAreArchived", coursesAreArchived},
		{"AccountsAreFoundOnRosters", accountsAreFoundOnRosters},
		{"VersionsAreChecked", versionsAreChecked},
		{"BrokenVersionsAreCheckedAgain", brokenVersionsAreCheckedAgain},
		{"VersionsAreOpenedWhole", versionsAreOpenedWhole},
		{"AttemptHasGradingAndJob", attemptHasGradingAndJob},
		{"RefusedAttemptLeavesNothing", refusedAttemptLeavesNothing},
		{"SameKeySameAttempt", sameKeySameAttempt},
		{"WaitingAttemptsAreSeen", waitingAttemptsAreSeen},
		{"GradingEndsOnce", gradingEndsOnce},
		{"FailedRecordLeavesNothing", failedRecordLeavesNothing},
		{"AttemptsArePaged", attemptsArePaged},
		{"RegradeIsAppliedWhole", regradeIsAppliedWhole},
		{"RegradeIsCancelled", regradeIsCancelled},
		{"RemovedCourseLeavesNothing", removedCourseLeavesNothing},
		{"WhatIsNotThere", whatIsNotThere},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(t, open(t))
		})
	}
}

var at = time.Date(2026, 9, 1, 12, 0, 0, 123_456_000, time.UTC)

// newCourse makes a course with two students, ada (a1) and bo (b1), and a
// teacher.
func newCourse(t *testing.T, s classes.Store, id string) {
	t.Helper()
	if err := s.CreateCourse(t.Context(), class.Course{ID: id, Title: "T", Zone: "UTC", Created: at, Key: []byte{1}}); err != nil {
		t.Fatal(err)
	}
	must(t, s.Write(t.Context(), id, func(r class.Records) error {
		return errors.Join(
			r.PutPerson(t.Context(), class.Person{ID: "a1", Email: "Ada@example.org", Name: "Ada", Role: class.Student}),
			r.PutPerson(t.Context(), class.Person{ID: "b1", Login: "bo", Name: "Bo", Role: class.Student}),
			r.PutPerson(t.Context(), class.Person{ID: "t1", Email: "tea@example.org", Name: "Tea", Role: class.Staff}),
		)
	}))
}

// claim takes the next job.
func claim(t *testing.T, p Parts, kind string) work.Job {
	t.Helper()
	j, err := p.Claim(t.Context(), kind)
	must(t, err)
	return j
}

func ended() work.End { return work.End{State: work.Done, At: at} }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// diff compares scores by value; nothing in a list is no list.
func diff(want, got any) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty(),
		cmp.Comparer(func(x, y judge.Score) bool { return x.Cmp(y) == 0 }),
		cmp.Comparer(func(x, y course.LocalTime) bool { return x.String() == y.String() }))
}

func wantKind(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Fatalf("got %v, want a fault of kind %s", err, kind)
	}
}

func version(courseID, id string) classes.Version {
	return classes.Version{
		ID: id, Course: courseID, Assignment: "lab1", Digest: "sha256:d", Package: "sha256:" + id, State: classes.Checking, Uploaded: at, By: "tea",
		About: classes.About{
			Class: class.Assignment{Name: "lab1", Title: "Lab 1", Points: judge.IntScore(10), Version: "sha256:d"}, Mode: course.IO, Language: "python3",
			Tests: 3, Stdout: course.Hidden, Expected: []classes.ExpectedFile{{Pattern: "a.py"}},
		},
	}
}

// opened makes a course with lab1 open in its first version.
func opened(t *testing.T, p Parts, id string) classes.Version {
	t.Helper()
	newCourse(t, p.Store, id)
	return open(t, p, version(id, "v-"+id))
}

// open adds a version, checks and opens it.
func open(t *testing.T, p Parts, v classes.Version) classes.Version {
	t.Helper()
	v, err := p.Store.AddVersion(t.Context(), v)
	must(t, err)
	j := claim(t, p, classes.CheckJob)
	if j.Ref != v.ID {
		t.Fatalf("the job is about %q, want %q", j.Ref, v.ID)
	}
	v.State = classes.Passed
	must(t, p.Store.FinishVersion(t.Context(), j, ended(), v))
	v.Opened = at
	must(t, p.Store.OpenVersion(t.Context(), v, func(r class.Records) error { return r.PutAssignment(t.Context(), v.Class) }))
	return v
}

func attempt(courseID string, n int, person string) classes.Attempt {
	id := fmt.Sprintf("%s-s%03d", courseID, n)
	received := at.Add(time.Duration(n) * time.Second)
	return classes.Attempt{
		ID: id, Course: courseID, Assignment: "lab1", Person: person, User: "u-" + person, Login: "login of " + person, Version: 1, VersionDigest: "sha256:d",
		Digest: "sha256:" + id, Files: "sha256:f" + id, Notes: []string{"a note"}, Received: received,
		Grading: classes.Grading{ID: "g" + id, Attempt: id, Course: courseID, Assignment: "lab1", Version: 1, State: classes.Queued, Created: received},
	}
}

func add(t *testing.T, s classes.Store, a classes.Attempt) classes.Attempt {
	t.Helper()
	kept, err := s.AddAttempt(t.Context(), classes.AttemptKey{Course: a.Course, Assignment: a.Assignment, User: a.User, Idempotency: a.Idempotency},
		func(class.State, []class.Attempt) (classes.Attempt, error) { return a, nil })
	must(t, err)
	return kept
}

// end claims the next grading and ends it.
func end(t *testing.T, p Parts, score int64) classes.Grading {
	t.Helper()
	j := claim(t, p, classes.GradeJob)
	must(t, p.Store.BeginGrading(t.Context(), j.Ref, "node", 1))
	g, err := p.Store.Grading(t.Context(), j.Ref)
	must(t, err)
	if g.State != classes.Running || g.Node != "node" {
		t.Fatalf("a grading that has begun is %+v", g)
	}
	g = done(g, score)
	a, err := p.Store.Attempt(t.Context(), g.Attempt)
	must(t, err)
	must(t, p.Store.FinishGrading(t.Context(), j, ended(), g, record(t.Context(), a, g, score)))
	return g
}

func done(g classes.Grading, score int64) classes.Grading {
	g.State, g.Node, g.Tries, g.CPU, g.MemoryTime, g.Ended = classes.Done, "node", 1, 1500*time.Microsecond, 2.5, at.Add(time.Hour)
	if g.Regrade != "" {
		g.Grade = fmt.Appendf(nil, `{"score":%d}`, score)
	}
	return g
}

// record writes a run, as the service does of a grading that is in no set.
func record(ctx context.Context, a classes.Attempt, g classes.Grading, score int64) func(class.Records) error {
	if g.Regrade != "" {
		return nil
	}
	return func(r class.Records) error {
		run := class.Run{ID: "run" + g.ID, Attempt: a.ID, Version: "sha256:d", Score: judge.IntScore(score), Points: judge.IntScore(10), Note: class.Note{By: "assay", At: at}}
		return errors.Join(r.PutRun(ctx, run, []byte(`{}`)), r.PutAttempt(ctx, class.Attempt{
			ID: a.ID, Assignment: a.Assignment, Person: a.Person, Digest: a.Digest, Received: a.Received, Run: run,
		}))
	}
}

func coursesAreArchived(t *testing.T, p Parts) {
	newCourse(t, p.Store, "c1")
	must(t, p.Store.Archive(t.Context(), "c1", at))
	got, err := p.Store.Archived(t.Context())
	must(t, err)
	if d := diff(map[string]time.Time{"c1": at}, got); d != "" {
		t.Error(d)
	}
	must(t, p.Store.Archive(t.Context(), "c1", time.Time{}))
	if got, err := p.Store.Archived(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v after it was opened again", got, err)
	}
	if err := p.Store.Archive(t.Context(), "nothing", at); !fault.Is(err, fault.NotFound) {
		t.Errorf("a course that is not there: %v", err)
	}
}

func accountsAreFoundOnRosters(t *testing.T, p Parts) {
	newCourse(t, p.Store, "c1")
	newCourse(t, p.Store, "c2")
	must(t, p.Store.Write(t.Context(), "c2", func(r class.Records) error {
		// Who has left is nobody; a login that is somebody else's address comes second.
		return errors.Join(
			r.PutPerson(t.Context(), class.Person{ID: "a1", Email: "ada@example.org", Role: class.Student, Removed: at}),
			r.PutPerson(t.Context(), class.Person{ID: "a2", Login: "ada", Role: class.Student}),
			r.PutPerson(t.Context(), class.Person{ID: "z1", Email: "other@example.org", Role: class.Student}))
	}))
	for _, tt := range []struct{ name, login, email, c1, c2 string }{
		{"by_address", "x", "ADA@example.org", "a1", ""},
		{"by_login", "BO", "", "b1", "b1"},
		{"address_goes_first", "ada", "other@example.org", "", "z1"},
		{"nobody", "", "", "", ""},
		{"stranger", "eve", "eve@example.org", "", ""},
	} {
		var want []string
		for id, person := range map[string]string{"c1": tt.c1, "c2": tt.c2} {
			got, err := p.Store.OnRoster(t.Context(), id, tt.login, tt.email)
			must(t, err)
			if got.ID != person {
				t.Errorf("%s: in %s got %q, want %q", tt.name, id, got.ID, person)
			}
			if person != "" {
				want = append(want, id)
			}
		}
		slices.Sort(want)
		got, err := p.Store.OnRosters(t.Context(), tt.login, tt.email)
		must(t, err)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got the courses %v, want %v", tt.name, got, want)
		}
	}
}

func versionsAreChecked(t *testing.T, p Parts) {
	newCourse(t, p.Store, "c1")
	first, err := p.Store.AddVersion(t.Context(), version("c1", "v1"))
	must(t, err)
	again := version("c1", "other")
	again.Package = first.Package
	if same, err := p.Store.AddVersion(t.Context(), again); err != nil || same.ID != "v1" || same.Number != 1 {
		t.Fatalf("the same package gave %+v, %v", same, err)
	}
	second, err := p.Store.AddVersion(t.Context(), version("c1", "v2"))
	must(t, err)
	if first.Number != 1 || second.Number != 2 {
		t.Fatalf("numbers %d and %d", first.Number, second.Number)
	}
	j := claim(t, p, classes.CheckJob)
	if j.Ref != "v1" {
		t.Fatalf("the job is about %q, want v1", j.Ref)
	}
	first.State, first.Why, first.Tests = classes.Failed, "why", 7
	first.Checks = []grading.Check{{Kind: "solution", Name: "solution", Want: "10", Got: "9"}}
	must(t, p.Store.FinishVersion(t.Context(), j, ended(), first))
	wantKind(t, p.Store.FinishVersion(t.Context(), j, ended(), first), fault.Conflict)
	for _, get := range []func() (classes.Version, error){
		func() (classes.Version, error) { return p.Store.Version(t.Context(), "c1", "lab1", 1) },
		func() (classes.Version, error) { return p.Store.VersionByID(t.Context(), "v1") },
	} {
		got, err := get()
		must(t, err)
		if d := diff(first, got); d != "" {
			t.Error(d)
		}
	}
	if j := claim(t, p, classes.CheckJob); j.Ref != "v2" {
		t.Errorf("the next job is about %q, want v2: the same package needs no check", j.Ref)
	}
	all, err := p.Store.Versions(t.Context(), "c1", "lab1")
	must(t, err)
	if len(all) != 2 || all[0].ID != "v2" {
		t.Errorf("got %+v, want the newest first", all)
	}
}

func brokenVersionsAreCheckedAgain(t *testing.T, p Parts) {
	newCourse(t, p.Store, "c1")
	v, err := p.Store.AddVersion(t.Context(), version("c1", "v1"))
	must(t, err)
	v.State, v.Why = classes.Broken, "the disk was away"
	must(t, p.Store.FinishVersion(t.Context(), claim(t, p, classes.CheckJob), ended(), v))
	again := version("c1", "later")
	again.Package = v.Package
	// Only the first one has something to check again.
	for range 2 {
		got, err := p.Store.AddVersion(t.Context(), again)
		must(t, err)
		if got.ID != "v1" || got.Number != 1 || got.State != classes.Checking || got.Why != "" {
			t.Fatalf("the same package gave %+v", got)
		}
	}
	j := claim(t, p, classes.CheckJob)
	if j.ID != "later" || j.Ref != "v1" {
		t.Fatalf("job %s is about %q, want one about v1", j.ID, j.Ref)
	}
	v.State, v.Why = classes.Passed, ""
	must(t, p.Store.FinishVersion(t.Context(), j, ended(), v))
	got, err := p.Store.VersionByID(t.Context(), "v1")
	must(t, err)
	if got.State != classes.Passed {
		t.Errorf("after the second check it is %s", got.State)
	}
}

func versionsAreOpenedWhole(t *testing.T, p Parts) {
	newCourse(t, p.Store, "c1")
	v, err := p.Store.AddVersion(t.Context(), version("c1", "v1"))
	must(t, err)
	wantKind(t, p.Store.OpenTask(t.Context(), "c1", "lab1", true), fault.Conflict)
	broken := errors.New("broken")
	v.Opened, v.Despite = at, "it is fine"
	if err := p.Store.OpenVersion(t.Context(), v, func(class.Records) error { return broken }); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	tasks, err := p.Store.Tasks(t.Context(), "c1")
	must(t, err)
	if len(tasks) != 1 || tasks[0].Open || tasks[0].Current.Number != 0 || tasks[0].Newest != 1 {
		t.Fatalf("got %+v, want a task that is not open", tasks)
	}
	must(t, p.Store.OpenVersion(t.Context(), v, func(r class.Records) error { return r.PutAssignment(t.Context(), v.Class) }))
	if _, err := p.Store.AddVersion(t.Context(), version("c1", "v2")); err != nil {
		t.Fatal(err)
	}
	tasks, err = p.Store.Tasks(t.Context(), "c1")
	must(t, err)
	if len(tasks) != 1 || !tasks[0].Open || tasks[0].Newest != 2 {
		t.Fatalf("got %+v, want an open task", tasks)
	}
	if d := diff(v, tasks[0].Current); d != "" {
		t.Error(d)
	}
	must(t, p.Store.OpenTask(t.Context(), "c1", "lab1", false))
	if tasks, err := p.Store.Tasks(t.Context(), "c1"); err != nil || tasks[0].Open {
		t.Errorf("got %+v, %v after closing", tasks, err)
	}
}

func attemptHasGradingAndJob(t *testing.T, p Parts) {
	opened(t, p, "c1")
	want := attempt("c1", 1, "a1")
	add(t, p.Store, want)
	got, err := p.Store.Attempt(t.Context(), want.ID)
	must(t, err)
	if d := diff(want, got); d != "" {
		t.Error(d)
	}
	if _, _, err := p.Store.Recorded(t.Context(), "c1", want.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v before it is graded, want not found", err)
	}
	g := end(t, p, 7)
	run, grade, err := p.Store.Recorded(t.Context(), "c1", want.ID)
	must(t, err)
	if run.Score.Cmp(judge.IntScore(7)) != 0 || string(grade) != "{}" {
		t.Errorf("got %+v %s", run, grade)
	}
	got, err = p.Store.Attempt(t.Context(), want.ID)
	must(t, err)
	if d := diff(g, got.Grading); d != "" {
		t.Error(d)
	}
	if j := claim(t, p, classes.GradeJob); j.Ref != "" {
		t.Errorf("a job is left: %q", j.Ref)
	}
}

func refusedAttemptLeavesNothing(t *testing.T, p Parts) {
	opened(t, p, "c1")
	refused := fault.Errorf(fault.Limited, "too many")
	_, err := p.Store.AddAttempt(t.Context(), classes.AttemptKey{Course: "c1", Assignment: "lab1", User: "u"},
		func(class.State, []class.Attempt) (classes.Attempt, error) { return classes.Attempt{}, refused })
	wantKind(t, err, fault.Limited)
	if all, err := p.Store.Attempts(t.Context(), classes.AttemptQuery{Course: "c1", Limit: 10}); err != nil || len(all) != 0 {
		t.Errorf("got %v, %v", all, err)
	}
	if j := claim(t, p, classes.GradeJob); j.Ref != "" {
		t.Errorf("got a job %q", j.Ref)
	}
}

func sameKeySameAttempt(t *testing.T, p Parts) {
	opened(t, p, "c1")
	first := attempt("c1", 1, "a1")
	first.Idempotency, first.IdempotencyBody = "key", "body"
	add(t, p.Store, first)
	second := attempt("c1", 2, "a1")
	second.Idempotency, second.IdempotencyBody = "key", "other body"
	kept := add(t, p.Store, second)
	if kept.ID != first.ID || kept.IdempotencyBody != "body" {
		t.Errorf("got %+v, want the first one", kept)
	}
	third := attempt("c1", 3, "b1")
	third.Idempotency = "key"
	if kept := add(t, p.Store, third); kept.ID != third.ID {
		t.Errorf("got %+v: a key is one user's", kept)
	}
	add(t, p.Store, attempt("c1", 4, "a1"))
	for user, want := range map[string]string{first.User: first.ID, third.User: third.ID, "nobody": ""} {
		for _, key := range []string{"key", "other key", ""} {
			if key != "key" {
				want = ""
			}
			a, err := p.Store.AttemptByKey(t.Context(), user, key)
			if a.ID != want || fault.Is(err, fault.NotFound) != (want == "") {
				t.Errorf("%s has made %q with key %q, %v, want %q", user, a.ID, key, err, want)
			}
		}
	}
}

// waitingAttemptsAreSeen: of many that come at once each sees those before it, so
// that a rule of attempts holds.
func waitingAttemptsAreSeen(t *testing.T, p Parts) {
	opened(t, p, "c1")
	const most = 3
	var mu sync.Mutex
	taken := 0
	var wg sync.WaitGroup
	for n := range 10 {
		wg.Go(func() {
			_, err := p.Store.AddAttempt(t.Context(), classes.AttemptKey{Course: "c1", Assignment: "lab1"},
				func(_ class.State, waiting []class.Attempt) (classes.Attempt, error) {
					if len(waiting) >= most {
						return classes.Attempt{}, fault.Errorf(fault.Limited, "too many")
					}
					return attempt("c1", n, "a1"), nil
				})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				taken++
			case !fault.Is(err, fault.Limited):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if taken != most {
		t.Errorf("%d were taken, want %d", taken, most)
	}
}

func gradingEndsOnce(t *testing.T, p Parts) {
	opened(t, p, "c1")
	a := add(t, p.Store, attempt("c1", 1, "a1"))
	j := claim(t, p, classes.GradeJob)
	g, err := p.Store.Grading(t.Context(), j.Ref)
	must(t, err)
	g = done(g, 5)
	stolen := j
	stolen.Token = "not the lease's"
	wantKind(t, p.Store.FinishGrading(t.Context(), stolen, ended(), g, record(t.Context(), a, g, 5)), fault.Conflict)
	must(t, p.Store.FinishGrading(t.Context(), j, ended(), g, record(t.Context(), a, g, 5)))
	wantKind(t, p.Store.FinishGrading(t.Context(), j, ended(), g, nil), fault.Conflict)
	must(t, p.Store.BeginGrading(t.Context(), j.Ref, "late", 2))
	if got, err := p.Store.Grading(t.Context(), j.Ref); err != nil || got.State != classes.Done || got.Node != "node" {
		t.Errorf("got %+v, %v: what has ended does not begin", got, err)
	}
}

func failedRecordLeavesNothing(t *testing.T, p Parts) {
	opened(t, p, "c1")
	add(t, p.Store, attempt("c1", 1, "a1"))
	j := claim(t, p, classes.GradeJob)
	g, err := p.Store.Grading(t.Context(), j.Ref)
	must(t, err)
	broken := errors.New("broken")
	if err := p.Store.FinishGrading(t.Context(), j, ended(), done(g, 5), func(class.Records) error { return broken }); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if got, err := p.Store.Grading(t.Context(), j.Ref); err != nil || got.State != classes.Queued {
		t.Errorf("got %+v, %v, want it as it was", got, err)
	}
	must(t, p.Store.EndJob(t.Context(), j, ended()))
	wantKind(t, p.Store.EndJob(t.Context(), j, ended()), fault.Conflict)
}

func attemptsArePaged(t *testing.T, p Parts) {
	opened(t, p, "c1")
	opened(t, p, "c2")
	for n := range 5 {
		a := attempt("c1", n, []string{"a1", "b1"}[n%2])
		if n == 3 {
			a.Group = "red"
		}
		add(t, p.Store, a)
	}
	add(t, p.Store, attempt("c2", 9, "a1"))
	ids := func(q classes.AttemptQuery) (ids []string) {
		t.Helper()
		q.Course = "c1"
		for {
			page, err := p.Store.Attempts(t.Context(), q)
			must(t, err)
			for _, a := range page {
				ids = append(ids, a.ID)
			}
			if len(page) < q.Limit {
				return ids
			}
			q.After = page[len(page)-1].Page()
		}
	}
	for _, tt := range []struct {
		name string
		q    classes.AttemptQuery
		want []string
	}{
		{"all", classes.AttemptQuery{Limit: 2}, []string{"c1-s004", "c1-s003", "c1-s002", "c1-s001", "c1-s000"}},
		{"one_person", classes.AttemptQuery{Limit: 2, Person: "a1"}, []string{"c1-s004", "c1-s002", "c1-s000"}},
		{"with_a_group", classes.AttemptQuery{Limit: 10, Person: "a1", Groups: map[string]string{"lab1": "red"}}, []string{"c1-s004", "c1-s003", "c1-s002", "c1-s000"}},
		{"another_assignments_group", classes.AttemptQuery{Limit: 10, Person: "x", Groups: map[string]string{"lab2": "red"}}, nil},
		{"one_account", classes.AttemptQuery{Limit: 10, User: "u-b1"}, []string{"c1-s003", "c1-s001"}},
		{"another_assignment", classes.AttemptQuery{Limit: 10, Assignment: "lab2"}, nil},
	} {
		if d := diff(tt.want, ids(tt.q)); d != "" {
			t.Errorf("%s: %s", tt.name, d)
		}
	}
	_, err := p.Store.Attempts(t.Context(), classes.AttemptQuery{Course: "c1", After: "nonsense", Limit: 1})
	wantKind(t, err, fault.Invalid)
}

// regradeSet makes two graded attempts and a set over both.
func regradeSet(t *testing.T, p Parts) classes.Regrade {
	t.Helper()
	opened(t, p, "c1")
	set := classes.Regrade{ID: "set", Course: "c1", Assignment: "lab1", Version: 1, Reason: "why", State: classes.RegradeRunning, By: "tea", Created: at, Total: 2}
	var gradings []classes.Grading
	for n := range 2 {
		a := add(t, p.Store, attempt("c1", n, "a1"))
		end(t, p, 5)
		gradings = append(gradings, classes.Grading{
			ID: "again" + a.ID, Attempt: a.ID, Course: "c1", Assignment: "lab1", Regrade: "set", Version: 1, State: classes.Queued, Created: at,
		})
	}
	must(t, p.Store.AddRegrade(t.Context(), set, gradings))
	return set
}

func regradeIsAppliedWhole(t *testing.T, p Parts) {
	set := regradeSet(t, p)
	open(t, p, version("c1", "v2"))
	must(t, p.Store.OpenTask(t.Context(), "c1", "lab1", false))
	// What is handed in goes before what is graded again.
	add(t, p.Store, attempt("c1", 9, "b1"))
	if g := end(t, p, 1); g.Regrade != "" {
		t.Fatalf("the set goes before what is handed in: %+v", g)
	}
	end(t, p, 8)
	apply := func(class.Records, []classes.Grading) error { return nil }
	wantKind(t, p.Store.EndRegrade(t.Context(), "set", classes.RegradeApplied, apply), fault.Conflict)
	end(t, p, 9)
	got, err := p.Store.Regrade(t.Context(), "set")
	must(t, err)
	set.State, set.Done = classes.RegradeReady, 2
	if d := diff(set, got); d != "" {
		t.Error(d)
	}
	broken := errors.New("broken")
	if err := p.Store.EndRegrade(t.Context(), "set", classes.RegradeApplied, func(class.Records, []classes.Grading) error { return broken }); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	var scores []string
	must(t, p.Store.EndRegrade(t.Context(), "set", classes.RegradeApplied, func(r class.Records, done []classes.Grading) error {
		scores = nil
		for _, g := range done {
			scores = append(scores, string(g.Grade))
		}
		_, err := r.State(t.Context(), "lab1")
		return err
	}))
	slices.Sort(scores)
	if d := diff([]string{`{"score":8}`, `{"score":9}`}, scores); d != "" {
		t.Error(d)
	}
	tasks, err := p.Store.Tasks(t.Context(), "c1")
	must(t, err)
	if tasks[0].Current.Number != set.Version || tasks[0].Open {
		t.Errorf("got %+v, want the set's version, closed as before", tasks[0])
	}
	wantKind(t, p.Store.EndRegrade(t.Context(), "set", classes.RegradeCancelled, nil), fault.Conflict)
	if page, err := p.Store.Regrades(t.Context(), "c1", "", 5); err != nil || len(page) != 1 || page[0].State != classes.RegradeApplied || page[0].Ended.IsZero() {
		t.Errorf("got %+v, %v", page, err)
	}
}

func regradeIsCancelled(t *testing.T, p Parts) {
	set := regradeSet(t, p)
	j := claim(t, p, classes.GradeJob)
	must(t, p.Store.EndRegrade(t.Context(), set.ID, classes.RegradeCancelled, nil))
	g, err := p.Store.Grading(t.Context(), j.Ref)
	must(t, err)
	if g.State != classes.Cancelled {
		t.Errorf("got %+v, want it cancelled", g)
	}
	wantKind(t, p.Store.FinishGrading(t.Context(), j, ended(), done(g, 3), nil), fault.Conflict)
	if j := claim(t, p, classes.GradeJob); j.Ref != "" {
		t.Errorf("a job is left: %q", j.Ref)
	}
}

func removedCourseLeavesNothing(t *testing.T, p Parts) {
	opened(t, p, "c1")
	opened(t, p, "c2")
	add(t, p.Store, attempt("c1", 1, "a1"))
	add(t, p.Store, attempt("c2", 2, "a1"))
	must(t, p.Store.Archive(t.Context(), "c1", at))
	must(t, p.Store.RemoveCourse(t.Context(), "c1"))
	_, err := p.Store.Attempt(t.Context(), "c1-s001")
	wantKind(t, err, fault.NotFound)
	_, err = p.Store.Version(t.Context(), "c1", "lab1", 1)
	wantKind(t, err, fault.NotFound)
	if j := claim(t, p, classes.GradeJob); j.Ref != "gc2-s002" {
		t.Errorf("got the job %q, want that of the other course", j.Ref)
	}
	wantKind(t, p.Store.RemoveCourse(t.Context(), "c1"), fault.NotFound)
}

func whatIsNotThere(t *testing.T, p Parts) {
	newCourse(t, p.Store, "c1")
	ctx := t.Context()
	for name, get := range map[string]func() error{
		"version":       func() error { _, err := p.Store.Version(ctx, "c1", "lab1", 1); return err },
		"version_by_id": func() error { _, err := p.Store.VersionByID(ctx, "x"); return err },
		"versions":      func() error { _, err := p.Store.Versions(ctx, "c1", "lab1"); return err },
		"open":          func() error { return p.Store.OpenTask(ctx, "c1", "lab1", true) },
		"attempt":       func() error { _, err := p.Store.Attempt(ctx, "x"); return err },
		"grading":       func() error { _, err := p.Store.Grading(ctx, "x"); return err },
		"regrade":       func() error { _, err := p.Store.Regrade(ctx, "x"); return err },
		"end_regrade":   func() error { return p.Store.EndRegrade(ctx, "x", classes.RegradeCancelled, nil) },
		"course": func() error {
			_, err := p.Store.AddAttempt(ctx, classes.AttemptKey{Course: "x"}, func(class.State, []class.Attempt) (classes.Attempt, error) {
				return attempt("x", 1, "a1"), nil
			})
			return err
		},
	} {
		if err := get(); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: got %v, want not found", name, err)
		}
	}
}
