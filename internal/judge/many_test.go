package judge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/sandbox"
)

// countedMachines makes fake machines for several goroutines and counts those
// that live at once. slow keeps the runs of some programs going.
type countedMachines struct {
	fake *fakeMachines

	mu         sync.Mutex
	live, most int
	slow       func(source string)
}

func (c *countedMachines) Connect(ctx context.Context, a, b judge.Machine) (judge.Wire, error) {
	return c.fake.Connect(ctx, a, b)
}

func (c *countedMachines) Create(ctx context.Context, req judge.MachineRequest) (judge.Machine, error) {
	m, err := c.fake.Create(ctx, req)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live++
	c.most = max(c.most, c.live)
	return &countedMachine{Machine: m, owner: c}, nil
}

type countedMachine struct {
	judge.Machine
	owner *countedMachines
	gone  bool
}

func (m *countedMachine) Exec(ctx context.Context, spec sandbox.ExecSpec, in io.Reader, out, errs io.Writer) (sandbox.Result, error) {
	if m.owner.slow != nil {
		if f, err := m.ReadFile(ctx, "/box/src/main.fk"); err == nil {
			data, err := io.ReadAll(f)
			if err != nil {
				return sandbox.Result{}, err
			}
			m.owner.slow(string(data))
		}
	}
	// Fake machines share what they count.
	m.owner.mu.Lock()
	defer m.owner.mu.Unlock()
	return m.Machine.Exec(ctx, spec, in, out, errs)
}

func (m *countedMachine) WriteFile(ctx context.Context, path string, r io.Reader, mode fs.FileMode) error {
	m.owner.mu.Lock()
	defer m.owner.mu.Unlock()
	return m.Machine.WriteFile(ctx, path, r, mode)
}

func (m *countedMachine) Destroy(ctx context.Context) error {
	m.owner.mu.Lock()
	defer m.owner.mu.Unlock()
	if !m.gone {
		m.gone = true
		m.owner.live--
	}
	return m.Machine.Destroy(ctx)
}

type manyBundle struct {
	*bundle
	counted *countedMachines
}

func setupMany(t *testing.T) manyBundle {
	t.Helper()
	b := setup(t)
	langs, err := judge.LoadLanguages(fstest.MapFS{"fake.yaml": {Data: []byte(fakeLanguage)}})
	if err != nil {
		t.Fatal(err)
	}
	counted := &countedMachines{fake: b.machines}
	b.judge = judge.New(counted, langs, judge.Options{})
	return manyBundle{b, counted}
}

func job(text string) judge.Job { return judge.Job{Submission: source(text)} }

func TestRunManyGivesRunsInOrder(t *testing.T) {
	t.Parallel()
	b := setupMany(t)
	// The first begins only when the second is at work.
	second := make(chan struct{})
	var once sync.Once
	b.counted.slow = func(s string) {
		if strings.Contains(s, "complain 1") {
			once.Do(func() { close(second) })
		}
		if strings.Contains(s, "complain 0") {
			<-second
		}
	}
	var jobs []judge.Job
	for i := range 30 {
		jobs = append(jobs, job(fmt.Sprintf("complain %d\necho\nexit %d\n", i%3, i%2)))
	}
	var order []int
	events := map[int][]judge.Step{}
	err := b.judge.RunMany(t.Context(), b.problem, jobs, judge.Many{
		AtOnce:  3,
		Observe: func(i int, e judge.Event) { events[i] = append(events[i], e.Step) },
		Done: func(i int, r judge.Run) error {
			order = append(order, i)
			want := judge.Accepted
			if i%2 == 1 {
				want = judge.RunTimeError
			}
			if r.Verdict != want {
				t.Errorf("job %d: %s, want %s", i, r.Verdict, want)
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		if i >= len(order) || order[i] != i {
			t.Fatalf("order %v", order)
		}
		if s := events[i]; len(s) == 0 || s[0] != judge.StepCompiling || s[len(s)-1] != judge.StepDone {
			t.Errorf("events of job %d: %v", i, s)
		}
	}
	if b.counted.most > 3 || b.counted.most < 2 || b.counted.live != 0 {
		t.Errorf("%d machines at most, %d left", b.counted.most, b.counted.live)
	}
}

// TestRunManyWaitsForTheSlow sees that what has to wait for a slow job before it
// is bounded.
func TestRunManyWaitsForTheSlow(t *testing.T) {
	t.Parallel()
	b := setupMany(t)
	release := make(chan struct{})
	b.counted.slow = func(s string) {
		if strings.Contains(s, "complain slow") {
			<-release
		}
	}
	jobs := []judge.Job{job("complain slow\necho\n")}
	for range 100 {
		jobs = append(jobs, job("echo\n"))
	}
	finished, delivered := 0, 0
	err := b.judge.RunMany(t.Context(), b.problem, jobs, judge.Many{
		AtOnce: 2,
		Observe: func(i int, e judge.Event) {
			if e.Step != judge.StepDone || i == 0 {
				return
			}
			// Two at once may have sixteen begun that are not delivered; one of
			// them is the slow one.
			if finished++; finished == 15 {
				close(release)
			}
			if delivered == 0 && finished > 15 {
				t.Errorf("%d are finished and none is delivered", finished)
			}
		},
		Done: func(int, judge.Run) error { delivered++; return nil },
	})
	if err != nil || delivered != len(jobs) {
		t.Errorf("%d of %d delivered: %v", delivered, len(jobs), err)
	}
}

func TestRunManyStopsAtTheFirstError(t *testing.T) {
	t.Parallel()
	refused := fault.Errorf(fault.NotFound, "no such template")
	own := errors.New("the disk is full")
	tests := []struct {
		name string
		prep func(b manyBundle) (jobs []judge.Job, done func(int, judge.Run) error)
		kind fault.Kind
		is   error
	}{
		{"machine_refused", func(b manyBundle) ([]judge.Job, func(int, judge.Run) error) {
			b.machines.createErrs = []error{nil, nil, refused}
			return []judge.Job{job("echo"), job("echo"), job("echo"), job("echo"), job("echo"), job("echo")}, nil
		}, fault.NotFound, refused},
		{"no_sense", func(manyBundle) ([]judge.Job, func(int, judge.Run) error) {
			return []judge.Job{job("echo"), {Submission: judge.Submission{Name: "x", Files: []judge.SourceFile{{Name: "x.odd"}}}}, job("echo")}, nil
		}, fault.Invalid, nil},
		{"done_fails", func(manyBundle) ([]judge.Job, func(int, judge.Run) error) {
			return []judge.Job{job("echo"), job("echo"), job("echo")}, func(i int, _ judge.Run) error {
				if i == 1 {
					return own
				}
				return nil
			}
		}, fault.Internal, own},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setupMany(t)
			jobs, done := tt.prep(b)
			after := 0
			err := b.judge.RunMany(t.Context(), b.problem, jobs, judge.Many{AtOnce: 2, Done: func(i int, r judge.Run) error {
				after++
				if done != nil {
					return done(i, r)
				}
				return nil
			}})
			if err == nil || fault.KindOf(err) != tt.kind || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("error %v", err)
			}
			if after == len(jobs) {
				t.Error("all were delivered")
			}
			if b.counted.live != 0 {
				t.Errorf("%d machines are left", b.counted.live)
			}
		})
	}
}

func TestRunManyLenientSkips(t *testing.T) {
	t.Parallel()
	b := setupMany(t)
	odd := judge.Job{Submission: judge.Submission{Name: "x.odd", Files: []judge.SourceFile{{Name: "x.odd"}}}}
	var verdicts []judge.Verdict
	err := b.judge.RunMany(t.Context(), b.problem, []judge.Job{job("echo"), odd, job("exit 1")}, judge.Many{
		AtOnce: 2, Lenient: true,
		Done: func(i int, r judge.Run) error {
			verdicts = append(verdicts, r.Verdict)
			if i == 1 && (r.Reason == "" || r.Submission.Digest == "") {
				t.Errorf("skipped without a reason or digest: %+v", r)
			}
			return nil
		},
	})
	if err != nil || fmt.Sprint(verdicts) != "[AC SK RE]" {
		t.Errorf("%v, %v", verdicts, err)
	}
}

func TestRunManyEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := setupMany(t)
	ctx, cancel := context.WithCancel(t.Context())
	jobs := make([]judge.Job, 50)
	for i := range jobs {
		jobs[i] = job("echo")
	}
	err := b.judge.RunMany(ctx, b.problem, jobs, judge.Many{AtOnce: 2, Done: func(i int, _ judge.Run) error {
		if i == 3 {
			cancel()
		}
		return nil
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if b.counted.live != 0 {
		t.Errorf("%d machines are left", b.counted.live)
	}
}

// TestRunManyLooksAtAllCasesForALabel judges one that fails early in another
// way than its label says.
func TestRunManyLooksAtAllCasesForALabel(t *testing.T) {
	t.Parallel()
	b := setupMany(t)
	j := job("on a exit 1\non b cpu 5s\necho\n")
	j.Expectation = judge.Expectation{
		Permitted: []judge.Verdict{judge.Accepted, judge.RunTimeError, judge.TimeLimitExceeded}, Required: []judge.Verdict{judge.TimeLimitExceeded},
	}
	err := b.judge.RunMany(t.Context(), b.problem, []judge.Job{j}, judge.Many{AtOnce: 1, Done: func(_ int, r judge.Run) error {
		if !j.Expectation.Met(r) || verdicts(r) != "RE TLE AC" {
			t.Errorf("%s: %s", verdicts(r), j.Expectation.Problem(r))
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
}
