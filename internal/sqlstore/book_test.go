package sqlstore_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/course"
	"assay/internal/course/class"
	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/sqlstore"
)

var scoresAreEqual = cmp.Comparer(func(a, b judge.Score) bool { return a.Cmp(b) == 0 })

// The book is tested here, over a real store: in its own package the fuzz tests
// would be built with the whole database in them.

// newBook has the course c with the students Ada (1), Bo (2) and Cy (3) and the
// assignment lab, of 10 points, whose version is v1.
func newBook(t *testing.T) *class.Book {
	t.Helper()
	db, err := sqlstore.Open(t.Context(), filepath.Join(t.TempDir(), "assay.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	b := class.NewBook(db.Courses())
	if _, err := b.NewCourse(t.Context(), class.Course{ID: "c", Zone: "UTC"}); err != nil {
		t.Fatal(err)
	}
	importRoster(t, b, "student id,name,role\n1,Ada,student\n2,Bo,student\n3,Cy,student\n9,Tee,staff\n")
	putLab(t, b, class.Assignment{Version: "v1"})
	return b
}

func importRoster(t *testing.T, b *class.Book, text string) {
	t.Helper()
	r, err := class.ReadRoster("roster.csv", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := b.PlanRoster(t.Context(), "c", r)
	if err == nil {
		err = b.ImportRoster(t.Context(), "c", r, plan)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func labOf(a class.Assignment) class.Assignment {
	a.Name, a.Points = "lab", judge.IntScore(10)
	return a
}

func putLab(t *testing.T, b *class.Book, a class.Assignment) {
	t.Helper()
	if err := b.PutAssignment(t.Context(), "c", labOf(a)); err != nil {
		t.Fatal(err)
	}
}

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// grade has two tests; the first one earns all points or none.
func grade(who, version string, score int64) course.Grade {
	status := course.Failed
	if score > 0 {
		status = course.Passed
	}
	return course.Grade{
		Submission: who, Digest: "sha256:" + who, Version: version, Score: judge.IntScore(score), Points: judge.IntScore(10),
		Tests: []course.TestResult{{Name: "first", Status: status, Score: judge.IntScore(score), Points: judge.IntScore(10)}, {Name: "second", Status: course.Passed}},
	}
}

func failedGrade(who, version string) course.Grade {
	g := grade(who, version, 0)
	g.Tests[1].Cause = course.OurFailure
	return g
}

func record(t *testing.T, b *class.Book, who string, minute int, g course.Grade) class.Recorded {
	t.Helper()
	r, err := b.Record(t.Context(), "c", class.HandIn{Assignment: "lab", Who: who, Received: noon.Add(time.Duration(minute) * time.Minute), Grade: g, By: "user:ta"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// marks are "Ada 8" for each student, "Ada -" without a mark.
func marks(t *testing.T, b *class.Book) string {
	t.Helper()
	g, err := b.Gradebook(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range g.Rows {
		text := r.Marks[0].Score.String()
		if r.Marks[0].None {
			text = "-"
		}
		out = append(out, r.Person.Name+" "+text)
	}
	return strings.Join(out, ", ")
}

func wantMarks(t *testing.T, b *class.Book, want string) {
	t.Helper()
	if got := marks(t, b); got != want {
		t.Errorf("marks are %s, want %s", got, want)
	}
}

func wantKind(t *testing.T, what string, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("%s: %v (%s), want %s", what, err, fault.KindOf(err), kind)
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	first := record(t, b, "1", 0, grade("1", "v1", 8))
	if !first.New || first.Known {
		t.Errorf("first: %+v", first)
	}
	again := record(t, b, "1", 0, grade("1", "v1", 8))
	if again.New || !again.Known || again.Attempt != first.Attempt {
		t.Errorf("the same again: %+v, want attempt %s", again, first.Attempt)
	}
	_, err := b.Record(t.Context(), "c", class.HandIn{Assignment: "lab", Who: "1", Received: noon, Grade: grade("1", "v1", 9)})
	wantKind(t, "another score", err, fault.Conflict)
	_, err = b.Record(t.Context(), "c", class.HandIn{Assignment: "lab", Who: "9", Received: noon, Grade: grade("9", "v1", 9)})
	wantKind(t, "staff", err, fault.Conflict)
	_, err = b.Record(t.Context(), "c", class.HandIn{Assignment: "lab", Who: "x", Received: noon, Grade: grade("x", "v1", 9)})
	wantKind(t, "nobody", err, fault.NotFound)
	_, err = b.Record(t.Context(), "c", class.HandIn{Assignment: "none", Who: "1", Received: noon, Grade: grade("1", "v1", 9)})
	wantKind(t, "no assignment", err, fault.NotFound)
	wantMarks(t, b, "Ada 8, Bo -, Cy -")
}

func TestOurFailureIsReplacedAndReplacesNothing(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	if r := record(t, b, "1", 0, failedGrade("1", "v1")); !r.New {
		t.Errorf("failed: %+v", r)
	}
	wantMarks(t, b, "Ada -, Bo -, Cy -")
	if r := record(t, b, "1", 0, grade("1", "v1", 8)); !r.New || !r.Known {
		t.Errorf("then graded: %+v", r)
	}
	if r := record(t, b, "1", 0, failedGrade("1", "v1")); r.New {
		t.Errorf("then failed: %+v", r)
	}
	wantMarks(t, b, "Ada 8, Bo -, Cy -")
}

func TestRecordSaysWhatTheRuleRefuses(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	putLab(t, b, class.Assignment{Version: "v1", Attempts: course.AttemptRule{Max: 2}})
	if err := b.SetGroups(t.Context(), "c", "lab", []class.GroupLine{{Who: "1", Group: "red"}, {Who: "2", Group: "red"}}); err != nil {
		t.Fatal(err)
	}
	// They are recorded in another order than they came in.
	for _, h := range []struct {
		who    string
		minute int
		want   course.Refusal
	}{{"1", 30, course.Accepted}, {"2", 20, course.Accepted}, {"1", 40, course.TooMany}, {"3", 40, course.Accepted}} {
		if r := record(t, b, h.who, h.minute, grade(fmt.Sprint(h.who, h.minute), "v1", 5)); r.Refused != h.want {
			t.Errorf("%s at %d: refused %q, want %q", h.who, h.minute, r.Refused, h.want)
		}
	}
	// An earlier one comes to light: the later one is beyond the limit then.
	if r := record(t, b, "2", 10, grade("2-10", "v1", 9)); r.Refused != course.Accepted {
		t.Errorf("refused %q", r.Refused)
	}
	wantMarks(t, b, "Ada 5, Bo 5, Cy 5")
}

func TestManyRecordAtOnce(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for range 4 {
		wg.Go(func() {
			for minute := range 10 {
				r, err := b.Record(t.Context(), "c", class.HandIn{
					Assignment: "lab", Who: "1", Received: noon.Add(time.Duration(minute) * time.Minute), Grade: grade("1", "v1", int64(minute)),
				})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				if r.New {
					made++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	list, err := b.Attempts(t.Context(), "c", "lab")
	if err != nil || len(list) != 10 || made != 10 {
		t.Errorf("%d attempts, %d new ones, %v; want 10", len(list), made, err)
	}
}

func TestRegrade(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	ada, bo, cy := record(t, b, "1", 0, grade("1", "v1", 8)), record(t, b, "2", 0, grade("2", "v1", 6)), record(t, b, "3", 0, grade("3", "v1", 4))
	list := []class.Regraded{
		{Attempt: ada.Attempt, Grade: grade("1", "v2", 10)}, {Attempt: bo.Attempt, Grade: failedGrade("2", "v2")}, {Attempt: cy.Attempt, Grade: grade("3", "v1", 4)},
	}
	next := labOf(class.Assignment{Version: "v2"})
	plan, err := b.PlanRegrade(t.Context(), "c", next, list)
	if err != nil {
		t.Fatal(err)
	}
	want := class.RegradePlan{
		Assignment: "lab", Before: "v1", After: "v2", Same: 1, Failed: []string{bo.Attempt},
		Attempts: []class.AttemptChange{{Attempt: ada.Attempt, Before: judge.IntScore(8), After: judge.IntScore(10), Why: []string{`test "first": 8 of 10 → 10 of 10`, "version v1 → v2"}}},
		Marks:    []class.MarkChange{{Who: "Ada", Before: judge.IntScore(8), After: judge.IntScore(10), Attempt: ada.Attempt}},
	}
	if diff := cmp.Diff(want, plan, scoresAreEqual); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	wantMarks(t, b, "Ada 8, Bo 6, Cy 4")

	wantKind(t, "without a reason", b.ApplyRegrade(t.Context(), "c", next, list, plan, class.Note{}), fault.Invalid)
	note := class.Note{By: "user:head", Reason: "a test was wrong"}
	if err := b.ApplyRegrade(t.Context(), "c", next, list, plan, note); err != nil {
		t.Fatal(err)
	}
	// Where we failed the old mark goes on to count.
	wantMarks(t, b, "Ada 10, Bo 6, Cy 4")
	wantKind(t, "applied again", b.ApplyRegrade(t.Context(), "c", next, list, plan, note), fault.Conflict)

	_, events, err := b.History(t.Context(), "c", "lab", "1")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s: %s %s %s", e.Kind, e.Text, e.By, e.Reason)))
	}
	wantEvents := []string{"attempt: handed in", "grade: graded 8 of 10 by version v1 user:ta", "grade: graded 10 of 10 by version v2 user:head a test was wrong"}
	if diff := cmp.Diff(wantEvents, got); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

func TestRegradeIsRefusedIfMarksChangedMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	ada := record(t, b, "1", 0, grade("1", "v1", 8))
	list := []class.Regraded{{Attempt: ada.Attempt, Grade: grade("1", "v2", 10)}}
	next := labOf(class.Assignment{Version: "v2"})
	plan, err := b.PlanRegrade(t.Context(), "c", next, list)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Adjust(t.Context(), "c", "1", class.Adjustment{Assignment: "lab", Points: judge.IntScore(1), Note: class.Note{Reason: "x"}}); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "apply", b.ApplyRegrade(t.Context(), "c", next, list, plan, class.Note{Reason: "x"}), fault.Conflict)
	wantMarks(t, b, "Ada 9, Bo -, Cy -")
}

func TestRegradeOfSomethingElseIsRefused(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	ada := record(t, b, "1", 0, grade("1", "v1", 8))
	next := labOf(class.Assignment{Version: "v2"})
	_, err := b.PlanRegrade(t.Context(), "c", next, []class.Regraded{{Attempt: ada.Attempt, Grade: grade("2", "v2", 10)}})
	wantKind(t, "other files", err, fault.Conflict)
	_, err = b.PlanRegrade(t.Context(), "c", next, []class.Regraded{{Attempt: "none", Grade: grade("1", "v2", 10)}})
	wantKind(t, "no attempt", err, fault.Invalid)
	_, err = b.PlanRegrade(t.Context(), "c", next, slices.Repeat([]class.Regraded{{Attempt: ada.Attempt, Grade: grade("1", "v2", 10)}}, 2))
	wantKind(t, "twice", err, fault.Invalid)
}

func TestAnonymousRegradeNamesNobody(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	putLab(t, b, class.Assignment{Version: "v1", Anonymous: true})
	ada := record(t, b, "1", 0, grade("1", "v1", 8))
	plan, err := b.PlanRegrade(t.Context(), "c", labOf(class.Assignment{Version: "v2"}), []class.Regraded{{Attempt: ada.Attempt, Grade: grade("1", "v2", 10)}})
	if err != nil {
		t.Fatal(err)
	}
	_, list, err := b.AnonymousMarks(t.Context(), "c", "lab")
	if err != nil {
		t.Fatal(err)
	}
	known := slices.ContainsFunc(list, func(m class.AnonymousMark) bool { return len(plan.Marks) == 1 && m.Pseudonym == plan.Marks[0].Who })
	if !known {
		t.Errorf("the plan names %v, want one of the pseudonyms %v", plan.Marks, list)
	}
	// By its pseudonym a mark can be changed, and its history seen.
	who := plan.Marks[0].Who
	if _, err := b.Adjust(t.Context(), "c", who, class.Adjustment{Assignment: "lab", Points: judge.IntScore(1), Note: class.Note{Reason: "x"}}); err != nil {
		t.Fatal(err)
	}
	person, events, err := b.History(t.Context(), "c", "lab", who)
	if err != nil || person.Name != who || person.StudentID != "" || len(events) != 3 {
		t.Errorf("history of %s is %+v of %+v, %v", who, events, person, err)
	}
	_, _, err = b.History(t.Context(), "c", "lab", "1")
	wantKind(t, "history by name", err, fault.Denied)
}

func TestRosterImportIsRefusedIfItChangedMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	r, err := class.ReadRoster("roster.csv", []byte("student id,name\n1,Ada\n4,Di\n"))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := b.PlanRoster(t.Context(), "c", r)
	if err != nil {
		t.Fatal(err)
	}
	importRoster(t, b, "student id,name\n1,Ada\n2,Bo\n3,Cy\n5,Ed\n")
	wantKind(t, "import", b.ImportRoster(t.Context(), "c", r, plan), fault.Conflict)
	wantMarks(t, b, "Ada -, Bo -, Cy -, Ed -")
}

func TestWhoComesBackHasTheOldMarks(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	record(t, b, "1", 0, grade("1", "v1", 8))
	importRoster(t, b, "student id,name\n2,Bo\n")
	wantMarks(t, b, "Bo -")
	importRoster(t, b, "student id,name\n2,Bo\n1,Ada L.\n")
	wantMarks(t, b, "Ada L. 8, Bo -")
}

func TestNobodyIsInTwoGroups(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	ctx := t.Context()
	read := func(text string) []class.GroupLine {
		lines, err := class.ReadGroups("groups.csv", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	err := b.SetGroups(ctx, "c", "lab", read("group;student id\nred;1\nblue;2\nblue;1\n"))
	want := "the groups cannot be used:\n  line 4: Ada is in the group \"red\" already"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if groups, err := b.Groups(ctx, "c", "lab"); err != nil || len(groups) != 0 {
		t.Errorf("groups are %v, %v; want none", groups, err)
	}
	if err := b.SetGroups(ctx, "c", "lab", read("group;student id\nred;1\nblue;2\n;3\n")); err != nil {
		t.Fatal(err)
	}
	putOther := class.Assignment{Name: "other"}
	if err := b.PutAssignment(ctx, "c", putOther); err != nil {
		t.Fatal(err)
	}
	if err := b.SetGroups(ctx, "c", "other", read("group,student id\nblue,1\n")); err != nil {
		t.Errorf("another assignment: %v", err)
	}
	if err := b.LeaveGroup(ctx, "c", "lab", []string{"1"}); err != nil {
		t.Fatal(err)
	}
	if err := b.SetGroups(ctx, "c", "lab", read("group,student id\nblue,1\n")); err != nil {
		t.Errorf("after leaving: %v", err)
	}
	wantKind(t, "staff", b.SetGroups(ctx, "c", "lab", read("group,student id\nblue,9\n")), fault.Invalid)
}

func TestAdjustmentsAreRevokedAndNeverDeleted(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	ctx := t.Context()
	adjust := func(points int64, set bool, reason string) (class.Adjustment, error) {
		return b.Adjust(ctx, "c", "1", class.Adjustment{Assignment: "lab", Points: judge.IntScore(points), Set: set, Note: class.Note{By: "user:ta", Reason: reason}})
	}
	for _, bad := range []struct {
		points int64
		set    bool
		reason string
	}{{1, false, " "}, {0, false, "x"}, {-1, true, "x"}, {2_000_000, false, "x"}} {
		_, err := adjust(bad.points, bad.set, bad.reason)
		wantKind(t, fmt.Sprintf("%+v", bad), err, fault.Invalid)
	}
	adj, err := adjust(7, true, "on paper\x1b[2J")
	if err != nil {
		t.Fatal(err)
	}
	wantMarks(t, b, "Ada 7, Bo -, Cy -")
	if err := b.Revoke(ctx, "c", adj.ID, class.Note{By: "user:head", Reason: "another student's"}); err != nil {
		t.Fatal(err)
	}
	wantMarks(t, b, "Ada -, Bo -, Cy -")
	wantKind(t, "revoke again", b.Revoke(ctx, "c", adj.ID, class.Note{Reason: "x"}), fault.Conflict)
	_, events, err := b.History(ctx, "c", "", "1")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		got = append(got, strings.Join([]string{e.Kind, e.Text, e.By, e.Reason}, "|"))
	}
	want := []string{"adjustment|=7 points|user:ta|on paper\ufffd[2J", "revoked|adjustment: =7 points|user:head|another student's"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

func TestAnonymityCannotBeTakenBack(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	ctx := t.Context()
	putLab(t, b, class.Assignment{Anonymous: true})
	putLab(t, b, class.Assignment{})
	g, err := b.Gradebook(ctx, "c")
	if err != nil || !g.Rows[0].Marks[0].Hidden {
		t.Errorf("marks are %+v, %v; want them hidden", g.Rows[0].Marks, err)
	}
	for range 2 {
		if err := b.Publish(ctx, "c", "lab"); err != nil {
			t.Fatal(err)
		}
	}
	putLab(t, b, class.Assignment{Version: "v2"})
	if g, err = b.Gradebook(ctx, "c"); err != nil || g.Rows[0].Marks[0].Hidden {
		t.Errorf("published marks are %+v, %v", g.Rows[0].Marks, err)
	}
}

func TestRemovedCourseIsGone(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	if err := b.RemoveCourse(context.WithoutCancel(t.Context()), "c"); err != nil {
		t.Fatal(err)
	}
	_, err := b.Gradebook(t.Context(), "c")
	wantKind(t, "gradebook", err, fault.NotFound)
}

func TestReleaseWaitsForTheLastExtension(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	due, err := course.ParseLocalTime("2026-05-01T12:00")
	if err != nil {
		t.Fatal(err)
	}
	late := course.LateRule{MaxDays: 2, Grace: time.Minute}
	putLab(t, b, class.Assignment{Due: due, Late: late})
	check := func(what string, now time.Time, want course.Release) {
		t.Helper()
		if got, err := b.Release(t.Context(), "c", "lab", now); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", what, got, err, want)
		}
	}
	end := noon.AddDate(0, 0, 2).Add(time.Minute)
	check("in the last late day", end, course.Release{})
	check("after it", end.Add(1), course.Release{AfterDue: true})
	if _, err := b.Extend(t.Context(), "c", "2", class.Extension{Assignment: "lab", Days: 3, Note: class.Note{Reason: "ill"}}); err != nil {
		t.Fatal(err)
	}
	check("somebody has more time", end.Add(1), course.Release{})
	check("it is over too", end.AddDate(0, 0, 3).Add(1), course.Release{AfterDue: true})
	late.MaxDays = course.AnyDays
	putLab(t, b, class.Assignment{Due: due, Late: late})
	check("late work for ever", end.AddDate(9, 0, 0), course.Release{})
	if err := b.Publish(t.Context(), "c", "lab"); err != nil {
		t.Fatal(err)
	}
	check("published", time.Now().Add(time.Minute), course.Release{Published: true})
	_, err = b.Release(t.Context(), "c", "none", noon)
	wantKind(t, "no assignment", err, fault.NotFound)
}
