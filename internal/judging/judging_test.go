package judging_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/account"
	"assay/internal/blob"
	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/judge/problempkg"
	"assay/internal/judging"
	"assay/internal/sqlstore"
	"assay/internal/work"
)

// desk is a service on real stores, with a queue that wakes nobody.
type desk struct {
	*judging.Service
	db     *sqlstore.DB
	events *hub
}

// hub hands events to whoever listens.
type hub struct {
	mu   sync.Mutex
	subs map[string][]chan []byte
	gone bool
}

func (*hub) Wake(string) {}

func (h *hub) Publish(topic string, data []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.subs[topic] {
		c <- data
	}
}

func (h *hub) Subscribe(_ context.Context, topic string) (<-chan []byte, func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return nil, nil, fault.Errorf(fault.Unavailable, "the bus is gone")
	}
	c := make(chan []byte, 100)
	h.subs[topic] = append(h.subs[topic], c)
	return c, func() {}, nil
}

var (
	staff  = account.Actor{User: "usr_s", Name: "sam", Role: account.Staff}
	alice  = account.Actor{User: "usr_a", Name: "alice", Role: account.Member}
	bob    = account.Actor{User: "usr_b", Name: "bob", Role: account.Member}
	nobody = account.Actor{}
)

func as(t *testing.T, a account.Actor) context.Context { return account.WithActor(t.Context(), a) }

func newDesk(t *testing.T, perMinute int) desk {
	t.Helper()
	dir := t.TempDir()
	db, err := sqlstore.Open(t.Context(), filepath.Join(dir, "assay.db"))
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := blob.OpenFolder(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	events := &hub{subs: map[string][]chan []byte{}}
	s, err := judging.New(judging.Options{
		Store: db.Judging(), Blobs: blobs, Queue: events, Events: events, CacheDir: filepath.Join(dir, "packages"), PerMinute: perMinute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), blobs.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return desk{s, db, events}
}

// problem puts a small package on the desk, open.
func (d desk) problem(t *testing.T, id string) judging.Problem {
	t.Helper()
	dir := filepath.Join(t.TempDir(), id)
	if err := problempkg.New(dir, problempkg.PassFailTemplate, ""); err != nil {
		t.Fatal(err)
	}
	var zip bytes.Buffer
	if _, err := problempkg.Zip(dir, &zip); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Upload(as(t, staff), id, &zip); err != nil {
		t.Fatal(err)
	}
	p, err := d.OpenProblem(as(t, staff), id, true)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func python(problem string) judging.NewSubmission {
	return judging.NewSubmission{Problem: problem, Files: []judge.SourceFile{{Name: "main.py", Data: []byte("print(1)\n")}}}
}

func (d desk) submit(t *testing.T, a account.Actor, n judging.NewSubmission) judging.Submission {
	t.Helper()
	sub, err := d.Submit(as(t, a), n)
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

func TestSubmitRefuses(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 0)
	d.problem(t, "sum")
	if _, err := d.OpenProblem(as(t, staff), "sum", true); err != nil {
		t.Fatal(err)
	}
	d.problem(t, "closed")
	if _, err := d.OpenProblem(as(t, staff), "closed", false); err != nil {
		t.Fatal(err)
	}
	change := func(f func(*judging.NewSubmission)) judging.NewSubmission {
		n := python("sum")
		f(&n)
		return n
	}
	file := func(name string, size int) func(*judging.NewSubmission) {
		return func(n *judging.NewSubmission) { n.Files = []judge.SourceFile{{Name: name, Data: make([]byte, size)}} }
	}
	for _, tt := range []struct {
		name string
		who  account.Actor
		n    judging.NewSubmission
		want fault.Kind
	}{
		{"nobody", nobody, python("sum"), fault.Unauthenticated},
		{"unknown_problem", alice, python("x"), fault.NotFound},
		{"closed_problem", alice, python("closed"), fault.NotFound},
		{"no_file", alice, change(func(n *judging.NewSubmission) { n.Files = nil }), fault.Invalid},
		{"folder_in_name", alice, change(file("../main.py", 1)), fault.Invalid},
		{"no_name", alice, change(file("", 1)), fault.Invalid},
		{"too_large", alice, change(file("main.py", 5<<20)), fault.Invalid},
		{"unknown_language", alice, change(file("main.xyz", 1)), fault.Invalid},
		{"named_language", alice, change(func(n *judging.NewSubmission) { n.Language = "klingon" }), fault.Invalid},
		{"label", alice, change(func(n *judging.NewSubmission) { n.Labels = map[string]string{"k": strings.Repeat("x", 201)} }), fault.Invalid},
		{"version", staff, change(func(n *judging.NewSubmission) { n.Version = "sha256:0" }), fault.NotFound},
		{"version_of_member", alice, change(func(n *judging.NewSubmission) { n.Version = "sha256:0" }), fault.Denied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := d.Submit(as(t, tt.who), tt.n); !fault.Is(err, tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestSameKey(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 0)
	d.problem(t, "sum")
	n := python("sum")
	n.Idempotency = "k"
	first := d.submit(t, alice, n)
	if again := d.submit(t, alice, n); again.ID != first.ID {
		t.Errorf("the same again is %s, want %s", again.ID, first.ID)
	}
	if other := d.submit(t, bob, n); other.ID == first.ID {
		t.Error("somebody else's key is the same")
	}
	n.Files = []judge.SourceFile{{Name: "main.py", Data: []byte("print(2)\n")}}
	if _, err := d.Submit(as(t, alice), n); !fault.Is(err, fault.Conflict) {
		t.Errorf("the key for something else: %v", err)
	}
	// Whatever has changed since: it is the answer that may have been lost.
	if _, err := d.OpenProblem(as(t, staff), "sum", false); err != nil {
		t.Fatal(err)
	}
	n = python("sum")
	n.Idempotency = "k"
	if again := d.submit(t, alice, n); again.ID != first.ID {
		t.Errorf("the same again is %s, want %s", again.ID, first.ID)
	}
}

func TestTooManySubmissions(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 2)
	d.problem(t, "sum")
	for range 2 {
		d.submit(t, alice, python("sum"))
	}
	_, err := d.Submit(as(t, alice), python("sum"))
	if wait := fault.AfterOf(err); !fault.Is(err, fault.Limited) || wait <= 0 || wait > time.Minute {
		t.Errorf("got %v, wait %v", err, wait)
	}
	d.submit(t, bob, python("sum"))
	for range 4 {
		d.submit(t, staff, python("sum"))
	}
}

// fixed is a judge that always gives the same.
type fixed struct {
	run judge.Run
	err error
	// seen, if not nil, is closed when somebody has seen how far it is.
	seen chan struct{}
}

func (f fixed) Run(_ context.Context, _ judge.Problem, s judge.Submission, observe judge.Observer) (judge.Run, error) {
	observe(judge.Event{Step: judge.StepCase, Case: 1, Cases: 2})
	if f.seen != nil {
		<-f.seen
	}
	f.run.Submission = judge.SubmissionInfo{Name: s.Name, Language: s.Language, Digest: s.Digest()}
	return f.run, f.err
}

func (fixed) Options() judge.Options { return judge.Options{} }

// Ready makes fixed the templates, too.
func (fixed) Ready(context.Context, string) error { return nil }

func (d desk) claim(t *testing.T) work.Job {
	t.Helper()
	now := time.Now()
	j, ok, err := d.db.Work().Claim(t.Context(), work.Claim{Node: "one", Kinds: []string{judging.JobKind}, Token: work.NewID(), Now: now, Until: now.Add(time.Minute)})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return j
}

func TestWorkerKeepsWhatCameOfARun(t *testing.T) {
	t.Parallel()
	hidden := judge.Run{
		Verdict: judge.WrongAnswer, Reason: "expected 41 in case secret/07", FailedCase: 2,
		Cases: []judge.CaseResult{
			{Number: 1, Name: "sample/1", Sample: true, Verdict: judge.Accepted},
			{Number: 2, Name: "secret/07", Verdict: judge.WrongAnswer, Reason: "expected 41", Staff: &judge.StaffInfo{CheckMessage: "expected 41"}},
		},
	}
	for _, tt := range []struct {
		name    string
		judge   fixed
		verdict judge.Verdict
		fails   bool
	}{
		{"verdict", fixed{run: hidden}, judge.WrongAnswer, false},
		{"makes_no_sense", fixed{err: fault.Errorf(fault.Invalid, "no entry point")}, judge.JudgeError, false},
		{"our_failure", fixed{err: errors.New("the disk is full")}, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, 0)
			d.problem(t, "sum")
			sub := d.submit(t, alice, python("sum"))
			w := d.NewWorker(tt.judge, tt.judge)
			j := d.claim(t)
			if err := w.Run(t.Context(), j); (err != nil) != tt.fails {
				t.Fatal(err)
			}
			got, err := d.Submission(as(t, staff), sub.ID)
			if err != nil || got.Run.Verdict != tt.verdict {
				t.Fatalf("the verdict is %q, want %q, %v", got.Run.Verdict, tt.verdict, err)
			}
			if tt.fails {
				j.Tries, j.Reason = 5, "the disk is full"
				if err := w.GiveUp(t.Context(), j); err != nil {
					t.Fatal(err)
				}
				got, err := d.Submission(as(t, staff), sub.ID)
				if err != nil || got.Run.Verdict != judge.JudgeError || !strings.Contains(got.Run.Reason, "the disk is full") {
					t.Errorf("given up: %+v, %v", got.Run, err)
				}
				return
			}
			mine, err := d.Submission(as(t, alice), sub.ID)
			if err != nil || strings.Contains(mine.Run.Reason, "41") || mine.Run.Node != "" {
				t.Errorf("its owner sees %+v, %v", mine.Run, err)
			}
			for _, c := range mine.Run.Result.Cases {
				if c.Staff != nil || !c.Sample && (c.Reason != "" || strings.Contains(c.Name, "secret")) {
					t.Errorf("its owner sees %+v", c)
				}
			}
			if _, err := d.Submission(as(t, bob), sub.ID); !fault.Is(err, fault.NotFound) {
				t.Errorf("somebody else: %v", err)
			}
			if _, err := d.Runs(as(t, alice), sub.ID); !fault.Is(err, fault.Denied) {
				t.Errorf("its owner asks for all runs: %v", err)
			}
			r, err := d.Record(as(t, staff), got.Run.ID)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			rec, err := judge.ReadRecord(r)
			if err != nil || rec.Run.ID != got.Run.ID || string(rec.Sources[0].Data) != "print(1)\n" {
				t.Errorf("the record is %+v, %v", rec, err)
			}
		})
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	for _, busGone := range []bool{false, true} {
		t.Run(map[bool]string{false: "with_events", true: "without_a_bus"}[busGone], func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, 0)
			d.events.gone = busGone
			d.problem(t, "sum")
			sub := d.submit(t, alice, python("sum"))
			f := fixed{run: judge.Run{Verdict: judge.Accepted}}
			if !busGone {
				f.seen = make(chan struct{})
			}
			w, first := d.NewWorker(f, f), make(chan struct{})
			var judged sync.WaitGroup
			judged.Go(func() {
				<-first
				if err := w.Run(context.Background(), d.claim(t)); err != nil {
					t.Error(err)
				}
			})
			defer judged.Wait()
			var states []judging.State
			progress := 0
			err := d.Follow(as(t, alice), sub.ID, func(judging.Progress) error {
				if progress++; progress == 1 {
					close(f.seen)
				}
				return nil
			}, func(s judging.Submission) error {
				if states = append(states, s.Run.State); len(states) == 1 {
					close(first)
				}
				return nil
			})
			if err != nil || states[0] != judging.Queued || states[len(states)-1] != judging.Done {
				t.Errorf("the states are %v, %v", states, err)
			}
			if !busGone && progress == 0 {
				t.Error("no progress was told")
			}
		})
	}
}
