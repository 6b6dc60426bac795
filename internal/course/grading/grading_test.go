package grading

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/course"
	"assay/internal/fault"
	"assay/internal/judge"
)

// wordGrader passes the tests whose names are words of the only file. It stands
// for a mode; what it grades is real.
type wordGrader struct {
	// fail is how often it fails before it works, of our kind.
	fail  atomic.Int32
	kind  fault.Kind
	calls atomic.Int32
	// late makes the first calls, as many, end a test for its time.
	late atomic.Int32
	// flaky makes every second call forget a test.
	flaky bool
}

func (g *wordGrader) Grade(ctx context.Context, a *course.Assignment, s course.Submission, _ func(string)) (course.Report, error) {
	n := g.calls.Add(1)
	if g.fail.Add(-1) >= 0 {
		return course.Report{}, fault.Errorf(g.kind, "the machine was lost")
	}
	var r course.Report
	words := strings.Fields(string(s.Files[0].Data))
	for i, t := range a.Tests {
		f := course.Finding{Test: t.ID, Status: course.Failed}
		if slices.Contains(words, t.Name) {
			f.Status = course.Passed
		}
		if i == 0 && g.late.Add(-1) >= 0 {
			f.Status, f.Cause = course.Errored, course.TimeLimit
		}
		if g.flaky && n%2 == 0 && i == 0 {
			f.Status = course.Failed
		}
		r.Findings = append(r.Findings, f)
	}
	return r, ctx.Err()
}

func words() *course.Assignment {
	a := &course.Assignment{
		Name: "words", Version: "sha256:1", Mode: course.IO, Expected: []course.ExpectedFile{{Pattern: "w.txt"}},
		Solution: file("one two three"), Starter: file("one"), Points: judge.IntScore(3),
	}
	for _, n := range []string{"one", "two", "three"} {
		a.Tests = append(a.Tests, course.Test{ID: n, Name: n, Points: judge.IntScore(1), Visibility: course.Visible})
	}
	return a
}

func file(text string) []course.File { return []course.File{{Name: "w.txt", Data: []byte(text)}} }

type memoryPins struct {
	mu    sync.Mutex
	tests map[string][]course.Test
}

func (p *memoryPins) Get(v string) ([]course.Test, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tests[v], nil
}

func (p *memoryPins) Put(v string, t []course.Test) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tests[v] = t
	return nil
}

func service(g course.Grader) *Service {
	modes := map[course.Mode]course.Grader{course.IO: g, course.Pytest: g}
	return New(modes, &memoryPins{tests: map[string][]course.Test{}}, judge.HostInfo{})
}

func TestOurFailureIsTriedAgain(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		fails int32
		kind  fault.Kind
		score string
		cause course.Cause
		tries int
		err   bool
	}{
		{"works", 0, 0, "2", course.NoCause, 1, false},
		{"fails once", 1, fault.Unavailable, "2", course.NoCause, 2, false},
		{"fails always", 9, fault.Unavailable, "0", course.OurFailure, 3, false},
		{"cannot work here", 9, fault.Unsupported, "", "", 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := &wordGrader{kind: tt.kind}
			g.fail.Store(tt.fails)
			got, err := service(g).Grade(t.Context(), words(), course.Submission{ID: "s", Files: file("one two")}, nil)
			if (err != nil) != tt.err {
				t.Fatalf("error %v", err)
			}
			if err == nil && (got.Score.String() != tt.score || got.Cause != tt.cause || got.Run.Tries != tt.tries) {
				t.Errorf("score %s, cause %q, %d tries", got.Score, got.Cause, got.Run.Tries)
			}
		})
	}
}

// TestTimeIsConfirmed: a busy host must not cost points.
func TestTimeIsConfirmed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		mode  course.Mode
		late  int32
		calls int32
		score string
	}{
		{"in time", course.Pytest, 0, 1, "2"},
		{"late once", course.Pytest, 1, 2, "2"},
		{"late always", course.Pytest, 9, 2, "1"},
		{"the judge confirms itself", course.IO, 1, 1, "1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g, a := &wordGrader{}, words()
			g.late.Store(tt.late)
			a.Mode = tt.mode
			got, err := service(g).Grade(t.Context(), a, course.Submission{ID: "s", Files: file("one two")}, nil)
			if err != nil || got.Score.String() != tt.score || g.calls.Load() != tt.calls {
				t.Errorf("score %s after %d calls, %v; want %s after %d", got.Score, g.calls.Load(), err, tt.score, tt.calls)
			}
		})
	}
}

func TestMissingFileIsNotRun(t *testing.T) {
	t.Parallel()
	g := &wordGrader{}
	got, err := service(g).Grade(t.Context(), words(), course.Submission{ID: "s", Files: []course.File{{Name: "W.TXT"}}}, nil)
	if err != nil || got.Cause != course.MissingFile || got.Score.Sign() != 0 || g.calls.Load() != 0 {
		t.Errorf("cause %q, score %s, %d calls, %v", got.Cause, got.Score, g.calls.Load(), err)
	}
	if !strings.Contains(got.Build, "W.TXT") {
		t.Errorf("the student reads %q, which does not name the file that is nearly right", got.Build)
	}
}

func entriesOf(texts ...string) []Entry {
	var list []Entry
	for i, text := range texts {
		list = append(list, Entry{ID: fmt.Sprintf("s%d", i), Open: func() (course.Submission, error) {
			if text == "broken" {
				return course.Submission{}, fault.Errorf(fault.Invalid, "evil.zip: a name leads out")
			}
			return course.Submission{Files: file(text)}, nil
		}})
	}
	return list
}

// TestRunGoesOn stops a run in the middle and starts it again: nothing is graded
// twice, and nothing is missing.
func TestRunGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := &wordGrader{}
	s, a := service(g), words()
	entries := entriesOf("one", "two", "one two", "broken", "one two three", "")
	run := func(stopAfter int) (kept, done int, err error) {
		f, err := OpenFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		err = s.Run(t.Context(), a, Class{Entries: entries, AtOnce: 1, Results: f, Done: func(o Outcome) error {
			done++
			if o.Kept {
				kept++
			}
			if done == stopAfter {
				return errors.New("stopped")
			}
			return nil
		}})
		return kept, done, err
	}
	if _, done, err := run(3); err == nil || done != 3 {
		t.Fatalf("%d done, %v", done, err)
	}
	// What a killed process left half written.
	if err := os.WriteFile(filepath.Join(dir, "grades", ".half-1"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	kept, done, err := run(0)
	if err != nil || kept != 3 || done != 6 {
		t.Fatalf("%d kept of %d, %v", kept, done, err)
	}
	if n := g.calls.Load(); n != 5 {
		t.Errorf("%d gradings, want 5: one entry is refused and none is graded twice", n)
	}
	f, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := f.All()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range all {
		got = append(got, fmt.Sprintf("%s %s %s", g.Submission, g.Score, g.Cause))
	}
	want := []string{"s0 1 ", "s1 1 ", "s2 2 ", "s3 0 refused_files", "s4 3 ", "s5 0 "}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*", ".half-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	sub, err := f.Submission(all[2])
	if err != nil || sub.Digest() != all[2].Digest {
		t.Errorf("the files of s2: %v", err)
	}
	if _, err := OpenFolder(dir); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second run in the same folder: %v, want a conflict", err)
	}
}

// TestOnlyChangesAreGraded: another version, or other files, are graded again.
func TestOnlyChangesAreGraded(t *testing.T) {
	t.Parallel()
	f, err := OpenFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	g := &wordGrader{}
	s, a := service(g), words()
	run := func(a *course.Assignment, again bool, texts ...string) int32 {
		before := g.calls.Load()
		if err := s.Run(t.Context(), a, Class{Entries: entriesOf(texts...), AtOnce: 2, Results: f, Again: again}); err != nil {
			t.Fatal(err)
		}
		return g.calls.Load() - before
	}
	newer := words()
	newer.Version = "sha256:2"
	for _, tt := range []struct {
		name string
		got  int32
		want int32
	}{
		{"first", run(a, false, "one", "two"), 2},
		{"the same", run(a, false, "one", "two"), 0},
		{"other files", run(a, false, "one", "three"), 1},
		{"again", run(a, true, "one", "three"), 2},
		{"another version", run(newer, false, "one", "three"), 2},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %d gradings, want %d", tt.name, tt.got, tt.want)
		}
	}
}

func TestTwoOfAName(t *testing.T) {
	t.Parallel()
	e := entriesOf("a")
	err := service(&wordGrader{}).Run(t.Context(), words(), Class{Entries: append(e, e...)})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), `"s0"`) {
		t.Errorf("error %v", err)
	}
}

// TestOrder: entries begin in their order, whatever others take.
func TestOrder(t *testing.T) {
	t.Parallel()
	var began []int
	err := service(&wordGrader{}).Run(t.Context(), words(), Class{
		Entries: entriesOf("a", "b", "c", "d", "e", "f", "g"), AtOnce: 3, Began: func(i int) { began = append(began, i) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(began) || len(began) != 7 {
		t.Errorf("began in the order %v", began)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	failed := func(g *wordGrader, change func(a *course.Assignment)) (list []string) {
		a := words()
		change(a)
		checks, err := service(g).Verify(t.Context(), a, VerifyOptions{AtOnce: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range checks {
			if !c.OK {
				list = append(list, c.Kind)
			}
		}
		return list
	}
	tests := []struct {
		name   string
		flaky  bool
		change func(a *course.Assignment)
		want   []string
	}{
		{"good", false, func(*course.Assignment) {}, nil},
		{"solution fails", false, func(a *course.Assignment) { a.Solution = file("one two") }, []string{"solution"}},
		{"flaky", true, func(*course.Assignment) {}, []string{"repeat"}},
		{"starter gets all", false, func(a *course.Assignment) { a.Starter = file("one two three") }, []string{"starter"}},
		{"starter gets something else", false, func(a *course.Assignment) {
			a.StarterProof = course.Proof{Name: "starter", Score: judge.IntScore(2)}
		}, []string{"starter"}},
		{"proofs", false, func(a *course.Assignment) {
			a.Proofs = []course.Proof{
				{Name: "right", Files: file("two three"), Score: judge.IntScore(2)},
				{Name: "full", Files: file("one two three"), Full: true},
				{Name: "wrong", Files: file("two"), Score: judge.IntScore(2)},
				{Name: "no cause", Files: file("two"), Score: judge.IntScore(1), Cause: course.TimeLimit},
			}
		}, []string{"proof", "proof"}},
		{"worth nothing", false, func(a *course.Assignment) { a.Points = judge.Score{} }, []string{"starter", "tests"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(tt.want, failed(&wordGrader{flaky: tt.flaky}, tt.change)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	t.Run("no solution", func(t *testing.T) {
		t.Parallel()
		a := words()
		a.Mode, a.Solution = course.Pytest, nil
		if err := service(&wordGrader{}).Prepare(t.Context(), a); !fault.Is(err, fault.Invalid) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("solution fails", func(t *testing.T) {
		t.Parallel()
		a := words()
		a.Mode, a.Solution = course.Pytest, file("one two")
		if err := service(&wordGrader{}).Prepare(t.Context(), a); err == nil || !strings.Contains(err.Error(), "does not pass the test three") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("once for a version", func(t *testing.T) {
		t.Parallel()
		g := &wordGrader{}
		s := service(g)
		for range 2 {
			a := words()
			a.Mode = course.Pytest
			if err := s.Prepare(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			if len(a.Tests) != 3 {
				t.Errorf("%d tests", len(a.Tests))
			}
		}
		if n := g.calls.Load(); n != 1 {
			t.Errorf("the solution ran %d times", n)
		}
	})
}

// TestCanonical: a grade read back from its file is the same, and times do not
// count.
func TestCanonical(t *testing.T) {
	t.Parallel()
	s, a := service(&wordGrader{}), words()
	grade := func(id string) course.Grade {
		g, err := s.Grade(t.Context(), a, course.Submission{ID: id, Files: file("one two")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	canonical := func(g course.Grade) string {
		data, err := Canonical(g)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	first := grade("s")
	if canonical(first) != canonical(grade("s")) {
		t.Error("two gradings differ")
	}
	data, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	var back course.Grade
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(canonical(first), canonical(back)); d != "" {
		t.Error(d)
	}
	if d := course.Compare(first, back); d.Changed {
		t.Errorf("it is said to differ: %v", d.Why)
	}
}

func TestFileName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 200)
	seen := map[string]string{}
	for _, id := range []string{"alice", "Alice", "../../etc/passwd", ".hidden", "a/b", "a%2Fb", "ä", "a b", long, long + "x", "con"} {
		name := FileName(id)
		if strings.ContainsAny(name, "/\x00 ") || strings.HasPrefix(name, ".") || len(name) > 250 || seen[name] != "" {
			t.Errorf("FileName(%q) = %q", id, name)
		}
		seen[name] = id
	}
}
