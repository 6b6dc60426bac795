package sqlstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/account"
	"assay/internal/classes"
	"assay/internal/course/class"
	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/judging"
	"assay/internal/sandbox"
	"assay/internal/sandboxes"
	"assay/internal/usage"
	"assay/internal/work"
)

// TestUsage counts one use of each source by each kind of line.
func TestUsage(t *testing.T) {
	t.Parallel()
	suiteOnBoth(t, testUsage, func(t *testing.T, open func(t *testing.T) *DB) *DB { return open(t) })
}

var usageDay = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func testUsage(t *testing.T, open func(t *testing.T) *DB) {
	db := open(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	for _, login := range []string{"ada", "bo"} {
		must(db.Accounts().CreateUser(ctx, account.User{ID: "u-" + login, Login: login, Role: account.Member, Created: usageDay}))
	}
	useSandboxes(t, db)
	useJudge(t, db)
	useClasses(t, db)
	from, to := usageDay.Add(-time.Hour), usageDay.Add(time.Hour)
	for _, tt := range []struct {
		name string
		q    usage.Query
		want []string
	}{
		// The snapshot of 1000 bytes was kept for half an hour of the time.
		{"by_user", usage.Query{By: usage.ByUser, From: from, To: to}, []string{"ada 2s 20 0 1 0", "ada 0s 0 1800000 0 0", "ada 40ms 8192 0 0 1", "bo 5ms 64 0 0 1"}},
		{"one_user", usage.Query{By: usage.ByUser, From: from, To: to, User: "u-bo"}, []string{"bo 5ms 64 0 0 1"}},
		{"by_sandbox", usage.Query{By: usage.BySandbox, From: from, To: to}, []string{"sb1 2s 20 0 1 0", "sb1 0s 0 1800000 0 0"}},
		{"by_problem", usage.Query{By: usage.ByProblem, From: from, To: to}, []string{"pairs 40ms 8192 0 0 1"}},
		{"by_course", usage.Query{By: usage.ByCourse, From: from, To: to}, []string{"c 5ms 64 0 0 1"}},
		{"by_label", usage.Query{By: "label:contest", From: from, To: to}, []string{"autumn 2s 20 0 1 0", "autumn 0s 0 1800000 0 0", "autumn 40ms 8192 0 0 1"}},
		{"before", usage.Query{By: usage.ByUser, From: from.Add(-time.Hour), To: from}, nil},
		// What was not removed goes on to be kept.
		{"after", usage.Query{By: usage.ByUser, From: to.Add(time.Hour), To: to.Add(2 * time.Hour)}, nil},
	} {
		lines, err := db.Usage().Used(ctx, tt.q)
		must(err)
		var got []string
		for _, l := range lines {
			got = append(got, fmt.Sprintf("%s %s %.0f %.0f %d %d", l.Key, l.CPU, l.Memory, l.Snapshots, l.Sandboxes, l.Runs))
		}
		slices.Sort(got)
		slices.Sort(tt.want)
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: %s", tt.name, d)
		}
	}
	if id, err := db.Usage().UserID(ctx, "Ada"); err != nil || id != "u-ada" {
		t.Errorf("got %q, %v", id, err)
	}
	if _, err := db.Usage().UserID(ctx, "eve"); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v, want not found", err)
	}
}

func useSandboxes(t *testing.T, db *DB) {
	t.Helper()
	s := db.Sandboxes()
	r := sandboxes.Record{
		ID: "sb1", Owner: "u-ada", Node: "n", Labels: map[string]string{"contest": "autumn"}, Template: "base", Shape: sandbox.Shape{Memory: 10}, Created: usageDay, Deadline: usageDay.Add(time.Hour),
	}
	if err := s.AddSandbox(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := s.AddUsage(t.Context(), []sandboxes.Used{{Sandbox: "sb1", Owner: "u-ada", Day: usageDay, CPU: 2 * time.Second, ByteSeconds: 20}}); err != nil {
		t.Fatal(err)
	}
	snap := sandboxes.Snapshot{ID: "sn1", Owner: "u-ada", Node: "n", Labels: map[string]string{"contest": "autumn"}, Sandbox: "sb1", Template: "base", Bytes: 1000, Taken: usageDay.Add(30 * time.Minute)}
	if err := s.AddSnapshot(t.Context(), snap); err != nil {
		t.Fatal(err)
	}
	if err := s.EndSnapshot(t.Context(), "sn1", usageDay.Add(90*time.Minute)); err != nil {
		t.Fatal(err)
	}
}

func useJudge(t *testing.T, db *DB) {
	t.Helper()
	s := db.Judging()
	if err := s.PutVersion(t.Context(), judging.Version{Problem: "pairs", Digest: "v", Uploaded: usageDay}); err != nil {
		t.Fatal(err)
	}
	run := judging.Run{ID: "r1", Submission: "s1", Version: "v", State: judging.Queued, Created: usageDay}
	if _, err := s.AddSubmission(t.Context(), judging.Submission{
		ID: "s1", Problem: "pairs", Version: "v", User: "u-ada", Login: "ada", Labels: map[string]string{"contest": "autumn"}, Received: usageDay, Run: run,
	}); err != nil {
		t.Fatal(err)
	}
	j := claimed(t, db, judging.JobKind)
	run.State, run.Ended = judging.Done, usageDay
	run.Result = &judge.Run{
		Cases: []judge.CaseResult{{TimeUS: 15_000}, {TimeUS: 25_000}}, Machine: judge.MachineInfo{Shape: sandbox.Shape{Memory: 4096}},
		StartedAt: usageDay, FinishedAt: usageDay.Add(2 * time.Second),
	}
	if err := s.FinishRun(t.Context(), j, work.End{State: work.Done, At: usageDay}, run); err != nil {
		t.Fatal(err)
	}
}

func useClasses(t *testing.T, db *DB) {
	t.Helper()
	s := db.Classes()
	if err := s.CreateCourse(t.Context(), class.Course{ID: "c", Zone: "UTC", Created: usageDay}); err != nil {
		t.Fatal(err)
	}
	g := classes.Grading{ID: "g1", Attempt: "a1", Course: "c", Assignment: "lab1", Version: 1, State: classes.Queued, Created: usageDay}
	if _, err := s.AddAttempt(t.Context(), classes.AttemptKey{Course: "c", Assignment: "lab1"}, func(class.State, []class.Attempt) (classes.Attempt, error) {
		return classes.Attempt{ID: "a1", Course: "c", Assignment: "lab1", User: "u-bo", Login: "bo", Received: usageDay, Grading: g}, nil
	}); err != nil {
		t.Fatal(err)
	}
	j := claimed(t, db, classes.GradeJob)
	g.State, g.CPU, g.MemoryTime, g.Ended = classes.Done, 5*time.Millisecond, 64, usageDay
	if err := s.FinishGrading(t.Context(), j, work.End{State: work.Done, At: usageDay}, g, nil); err != nil {
		t.Fatal(err)
	}
}

func claimed(t *testing.T, db *DB, kind string) work.Job {
	t.Helper()
	now := time.Now()
	j, ok, err := db.Work().Claim(t.Context(), work.Claim{Node: "n", Kinds: []string{kind}, Token: work.NewID(), Now: now, Until: now.Add(time.Minute)})
	if err != nil || !ok {
		t.Fatalf("no job of kind %s: %v", kind, err)
	}
	return j
}
