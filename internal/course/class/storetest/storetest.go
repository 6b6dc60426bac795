// Package storetest is the one suite that every store of courses must pass.
// Start with Run. Behaviour that all stores share is tested here and in no
// store's own test.
//
// It must not know any store.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/course"
	"assay/internal/course/class"
	"assay/internal/fault"
	"assay/internal/judge"
)

// Run runs the suite. open gives a new empty store each time; it is closed by
// the test's cleanup.
func Run(t *testing.T, open func(t *testing.T) class.Store) {
	tests := []struct {
		name string
		run  func(t *testing.T, s class.Store)
	}{
		{"CoursesComeAndGo", coursesComeAndGo},
		{"EverythingComesBack", everythingComesBack},
		{"PutReplaces", putReplaces},
		{"OneAssignmentOnly", oneAssignmentOnly},
		{"AttemptsAreInOrder", attemptsAreInOrder},
		{"RunsStay", runsStay},
		{"CoursesAreApart", coursesAreApart},
		{"FailedWriteLeavesNothing", failedWriteLeavesNothing},
		{"ReadCannotWrite", readCannotWrite},
		{"ReadIsOneState", readIsOneState},
		{"WritersDoNotMix", writersDoNotMix},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(t, open(t))
		})
	}
}

var at = time.Date(2026, 3, 29, 1, 30, 0, 123_456_000, time.UTC)

func newCourse(t *testing.T, s class.Store, id string) class.Course {
	t.Helper()
	c := class.Course{ID: id, Title: "Ünïcode; \"quoted\"", Zone: "Europe/Warsaw", Created: at, Key: []byte{0, 1, 255}}
	if err := s.CreateCourse(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c
}

func score(t *testing.T, text string) judge.Score {
	t.Helper()
	v, err := judge.ParseScore(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func local(t *testing.T, text string) course.LocalTime {
	t.Helper()
	v, err := course.ParseLocalTime(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func write(t *testing.T, s class.Store, id string, fn func(ctx context.Context, r class.Records) error) {
	t.Helper()
	if err := s.Write(t.Context(), id, func(r class.Records) error { return fn(t.Context(), r) }); err != nil {
		t.Fatal(err)
	}
}

func state(t *testing.T, s class.Store, id, assignment string) (st class.State) {
	t.Helper()
	err := s.Read(t.Context(), id, func(r class.Records) (err error) {
		st, err = r.State(t.Context(), assignment)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func wantKind(t *testing.T, what string, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("%s: %v (%s), want %s", what, err, fault.KindOf(err), kind)
	}
}

func diff(t *testing.T, want, got any) {
	t.Helper()
	same := cmp.Options{
		cmp.Comparer(func(a, b judge.Score) bool { return a.Cmp(b) == 0 }),
		cmp.Comparer(func(a, b course.LocalTime) bool { return a == b }),
	}
	if d := cmp.Diff(want, got, same); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func coursesComeAndGo(t *testing.T, s class.Store) {
	ctx := t.Context()
	if list, err := s.Courses(ctx); err != nil || len(list) != 0 {
		t.Fatalf("new store has %v, %v", list, err)
	}
	b, a := newCourse(t, s, "b"), newCourse(t, s, "a")
	wantKind(t, "same ID again", s.CreateCourse(ctx, a), fault.Conflict)
	list, err := s.Courses(ctx)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, []class.Course{a, b}, list)
	write(t, s, "a", func(ctx context.Context, r class.Records) error { return r.PutPerson(ctx, class.Person{ID: "p"}) })
	if err := s.RemoveCourse(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "remove again", s.RemoveCourse(ctx, "a"), fault.NotFound)
	none := func(class.Records) error { return errors.New("was called") }
	wantKind(t, "read", s.Read(ctx, "a", none), fault.NotFound)
	wantKind(t, "write", s.Write(ctx, "a", none), fault.NotFound)
	newCourse(t, s, "a")
	diff(t, []class.Person(nil), state(t, s, "a", "").People)
}

// full is a state with something in every field.
func full(t *testing.T, c class.Course) class.State {
	revoked := &class.Note{By: "user:head", At: at.Add(time.Hour), Reason: "a mistake"}
	run := class.Run{
		ID: "r1", Attempt: "t1", Version: "sha256:1", Score: score(t, "3.333333333"), Points: score(t, "10"),
		Failed: true, Suspicious: true, Note: class.Note{By: "user:ta", At: at, Reason: "regrade"},
	}
	return class.State{
		Course: c,
		People: []class.Person{
			{ID: "p1", StudentID: "00042", Email: "a@example.org", Login: "aa", CanvasID: "77", Name: "Ä; \"B\"", Section: "1", Role: class.Student},
			{ID: "p2", Email: "b@example.org", Role: class.Staff, Removed: at},
		},
		Assignments: []class.Assignment{
			{
				Name: "lab2", Title: "Two", Version: "sha256:2", Points: score(t, "10.5"), Due: local(t, "2026-03-29T23:59"), Created: at, Published: at, Anonymous: true,
				Late:     course.LateRule{Grace: time.Minute, PerDay: score(t, "12.5"), Of: course.OfEarned, MaxDays: 3, Close: local(t, "2026-04-05T12:00")},
				Attempts: course.AttemptRule{Max: 5, Interval: time.Minute, PerDay: 2, Counts: course.CountBest},
			},
			{Name: "lab1", Created: at.Add(time.Second)},
		},
		Members:     []class.Member{{Assignment: "lab2", Person: "p1", Group: "red"}},
		Extensions:  []class.Extension{{ID: "e1", Assignment: "lab2", Person: "p1", Due: local(t, "2026-04-01T10:00"), Note: class.Note{By: "x", At: at, Reason: "ill"}, Revoked: revoked}, {ID: "e2", Assignment: "lab2", Group: "red", Days: 2, Note: class.Note{At: at}}},
		Adjustments: []class.Adjustment{{ID: "j1", Assignment: "lab2", Person: "p1", Points: score(t, "-0.5"), Note: class.Note{By: "x", At: at, Reason: "style"}}, {ID: "j2", Assignment: "lab2", Person: "p1", Set: true, Points: score(t, "4"), Note: class.Note{At: at.Add(1000)}, Revoked: revoked}},
		Attempts:    []class.Attempt{{ID: "t1", Assignment: "lab2", Person: "p1", Group: "red", Digest: "sha256:d", Received: at, Run: run}},
	}
}

func put(ctx context.Context, r class.Records, s class.State) error {
	var errs []error
	for _, p := range s.People {
		errs = append(errs, r.PutPerson(ctx, p))
	}
	for _, a := range s.Assignments {
		errs = append(errs, r.PutAssignment(ctx, a))
	}
	for _, m := range s.Members {
		errs = append(errs, r.PutMember(ctx, m))
	}
	for _, e := range s.Extensions {
		errs = append(errs, r.PutExtension(ctx, e))
	}
	for _, a := range s.Adjustments {
		errs = append(errs, r.PutAdjustment(ctx, a))
	}
	for _, a := range s.Attempts {
		errs = append(errs, r.PutRun(ctx, a.Run, []byte(`{"score":1}`)), r.PutAttempt(ctx, a))
	}
	return errors.Join(errs...)
}

func everythingComesBack(t *testing.T, s class.Store) {
	want := full(t, newCourse(t, s, "c"))
	write(t, s, "c", func(ctx context.Context, r class.Records) error {
		if err := put(ctx, r, want); err != nil {
			return err
		}
		// A write sees what it wrote.
		got, err := r.State(ctx, "")
		diff(t, want, got)
		return err
	})
	diff(t, want, state(t, s, "c", ""))
}

func putReplaces(t *testing.T, s class.Store) {
	want := full(t, newCourse(t, s, "c"))
	write(t, s, "c", func(ctx context.Context, r class.Records) error { return put(ctx, r, want) })
	note := &class.Note{By: "y", At: at, Reason: "no"}
	want.People[0].Name, want.People[1].Removed = "New", time.Time{}
	want.Assignments[0].Points, want.Assignments[0].Published = score(t, "20"), time.Time{}
	want.Members[0].Group = "blue"
	want.Extensions[1].Revoked, want.Adjustments[0].Revoked = note, note
	want.Attempts[0].Run = class.Run{ID: "r2", Attempt: "t1", Version: "sha256:2", Score: score(t, "5"), Points: score(t, "20"), Note: class.Note{At: at}}
	write(t, s, "c", func(ctx context.Context, r class.Records) error { return put(ctx, r, want) })
	diff(t, want, state(t, s, "c", ""))
	write(t, s, "c", func(ctx context.Context, r class.Records) error {
		return r.PutMember(ctx, class.Member{Assignment: "lab2", Person: "p1"})
	})
	want.Members = nil
	diff(t, want, state(t, s, "c", ""))
}

func oneAssignmentOnly(t *testing.T, s class.Store) {
	want := full(t, newCourse(t, s, "c"))
	write(t, s, "c", func(ctx context.Context, r class.Records) error { return put(ctx, r, want) })
	diff(t, want, state(t, s, "c", "lab2"))
	want.Members, want.Extensions, want.Adjustments, want.Attempts = nil, nil, nil, nil
	diff(t, want, state(t, s, "c", "lab1"))
}

func attemptsAreInOrder(t *testing.T, s class.Store) {
	newCourse(t, s, "c")
	write(t, s, "c", func(ctx context.Context, r class.Records) error {
		for _, a := range []class.Attempt{{ID: "b", Received: at}, {ID: "z"}, {ID: "a", Received: at}, {ID: "y", Received: at.Add(-time.Hour)}} {
			a.Run = class.Run{ID: "run" + a.ID, Attempt: a.ID}
			if err := errors.Join(r.PutRun(ctx, a.Run, []byte("{}")), r.PutAttempt(ctx, a)); err != nil {
				return err
			}
		}
		return nil
	})
	var ids []string
	for _, a := range state(t, s, "c", "").Attempts {
		ids = append(ids, a.ID)
	}
	diff(t, []string{"z", "y", "a", "b"}, ids)
}

func runsStay(t *testing.T, s class.Store) {
	newCourse(t, s, "c")
	a := class.Attempt{ID: "t", Assignment: "lab"}
	for i := range 3 {
		a.Run = class.Run{ID: fmt.Sprint("r", 9-i), Attempt: "t", Note: class.Note{At: at.Add(time.Duration(i) * time.Second)}}
		write(t, s, "c", func(ctx context.Context, r class.Records) error {
			return errors.Join(r.PutRun(ctx, a.Run, fmt.Appendf(nil, `{"n":%d}`, i)), r.PutAttempt(ctx, a))
		})
	}
	err := s.Read(t.Context(), "c", func(r class.Records) error {
		runs, err := r.Runs(t.Context(), "lab")
		if err != nil {
			return err
		}
		for i, run := range runs {
			grade, err := r.Grade(t.Context(), run.ID)
			if want := fmt.Sprintf(`{"n":%d}`, i); err != nil || string(grade) != want {
				t.Errorf("run %d has the grade %s, %v, want %s", i, grade, err, want)
			}
		}
		if len(runs) != 3 {
			t.Errorf("%d runs, want 3", len(runs))
		}
		if other, err := r.Runs(t.Context(), "other"); len(other) != 0 || err != nil {
			t.Errorf("another assignment has %v, %v", other, err)
		}
		_, err = r.Grade(t.Context(), "none")
		wantKind(t, "grade of no run", err, fault.NotFound)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	again := s.Write(t.Context(), "c", func(r class.Records) error { return r.PutRun(t.Context(), a.Run, []byte("{}")) })
	if again == nil {
		t.Error("a run was replaced")
	}
}

func coursesAreApart(t *testing.T, s class.Store) {
	c, d := newCourse(t, s, "c"), newCourse(t, s, "d")
	for _, id := range []string{"c", "d"} {
		write(t, s, id, func(ctx context.Context, r class.Records) error { return put(ctx, r, full(t, c)) })
	}
	if err := s.RemoveCourse(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	diff(t, full(t, d), state(t, s, "d", ""))
}

func failedWriteLeavesNothing(t *testing.T, s class.Store) {
	newCourse(t, s, "c")
	want := state(t, s, "c", "")
	stop := fault.Errorf(fault.Invalid, "stop")
	err := s.Write(t.Context(), "c", func(r class.Records) error {
		return errors.Join(put(t.Context(), r, full(t, want.Course)), stop)
	})
	if !errors.Is(err, stop) {
		t.Errorf("got %v, want the error of the function", err)
	}
	diff(t, want, state(t, s, "c", ""))
	// A writer that failed is in nobody's way.
	write(t, s, "c", func(ctx context.Context, r class.Records) error { return r.PutPerson(ctx, class.Person{ID: "p"}) })
}

func readCannotWrite(t *testing.T, s class.Store) {
	newCourse(t, s, "c")
	err := s.Read(t.Context(), "c", func(r class.Records) error { return r.PutPerson(t.Context(), class.Person{ID: "p"}) })
	if err == nil {
		t.Error("no error")
	}
	diff(t, []class.Person(nil), state(t, s, "c", "").People)
}

func readIsOneState(t *testing.T, s class.Store) {
	newCourse(t, s, "c")
	err := s.Read(t.Context(), "c", func(r class.Records) error {
		before, err := r.State(t.Context(), "")
		if err != nil {
			return err
		}
		write(t, s, "c", func(ctx context.Context, r class.Records) error { return r.PutPerson(ctx, class.Person{ID: "p"}) })
		after, err := r.State(t.Context(), "")
		diff(t, before, after)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// writersDoNotMix has many count in one place: none may be lost.
func writersDoNotMix(t *testing.T, s class.Store) {
	const writers, each = 8, 10
	newCourse(t, s, "c")
	write(t, s, "c", func(ctx context.Context, r class.Records) error {
		return r.PutAssignment(ctx, class.Assignment{Name: "n"})
	})
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				err := s.Write(t.Context(), "c", func(r class.Records) error {
					st, err := r.State(t.Context(), "")
					if err != nil {
						return err
					}
					a := st.Assignments[0]
					a.Points = a.Points.Add(judge.IntScore(1))
					return r.PutAssignment(t.Context(), a)
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	diff(t, judge.IntScore(writers*each), state(t, s, "c", "").Assignments[0].Points)
}
