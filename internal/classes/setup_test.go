package classes_test

import (
	"archive/zip"
	"bytes"
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/account"
	"assay/internal/blob"
	"assay/internal/classes"
	"assay/internal/course"
	"assay/internal/course/class"
	"assay/internal/course/grading"
	"assay/internal/fault"
	"assay/internal/sqlstore"
	"assay/internal/work"
)

// wakes counts what a queue was told.
type wakes struct{ sync.Map }

func (w *wakes) Wake(kind string) { w.Store(kind, true) }

// events is a bus in memory.
type events struct {
	mu   sync.Mutex
	subs map[string][]chan []byte
}

func (e *events) Publish(topic string, data []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.subs[topic] {
		select {
		case c <- data:
		default:
		}
	}
}

func (e *events) Subscribe(_ context.Context, topic string) (<-chan []byte, func(), error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := make(chan []byte, 16)
	if e.subs == nil {
		e.subs = map[string][]chan []byte{}
	}
	e.subs[topic] = append(e.subs[topic], c)
	return c, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.subs[topic] = slices.DeleteFunc(e.subs[topic], func(o chan []byte) bool { return o == c })
	}, nil
}

// addresses are those of accounts, by user.
type addresses map[string]string

func (a addresses) Email(_ context.Context, user string) (string, error) { return a[user], nil }

// grader passes the tests whose names are in the first file.
type grader struct{}

func (grader) Prepare(context.Context, *course.Assignment) error { return nil }

func (grader) Grade(_ context.Context, a *course.Assignment, s course.Submission, _ func(string)) (course.Grade, error) {
	text := string(s.Files[0].Data)
	var r course.Report
	if strings.Contains(text, "our failure") {
		r.Cause, r.Log = course.OurFailure, "the machine broke"
	}
	for _, t := range a.Tests {
		f := course.Finding{Test: t.ID, Status: course.Failed, Detail: "secret detail of " + t.Name}
		if strings.Contains(text, t.Name) {
			f.Status = course.Passed
		}
		r.Findings = append(r.Findings, f)
	}
	g := course.Decide(a, s, r)
	g.Run.Began = time.Now().UTC()
	g.Run.Finished = g.Run.Began
	return g, nil
}

func (g grader) Verify(ctx context.Context, a *course.Assignment, _ grading.VerifyOptions) ([]grading.Check, error) {
	got, err := g.Grade(ctx, a, course.Submission{Files: a.Solution}, nil)
	return []grading.Check{{Kind: "solution", Name: "solution", Want: a.Points.String(), Got: got.Score.String(), OK: got.Score.Cmp(a.Points) == 0}}, err
}

type ready struct{}

func (ready) Ready(context.Context, string) error { return nil }

// noTemplates is a host that cannot make its templates now.
type noTemplates struct{}

func (noTemplates) Ready(context.Context, string) error {
	return fault.Errorf(fault.Unavailable, "the disk is away")
}

// server is a real service over SQLite and a folder, with a worker.
type server struct {
	*classes.Service
	worker *classes.Worker
	db     *sqlstore.DB
	wakes  *wakes
	store  classes.Store
	// blobs is their folder.
	blobs string
}

func setup(t *testing.T) *server {
	t.Helper()
	return setupWith(t, 0)
}

func setupWith(t *testing.T, perMinute int) *server {
	t.Helper()
	dir := t.TempDir()
	db, err := sqlstore.Open(t.Context(), filepath.Join(dir, "assay.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	blobs, err := blob.OpenFolder(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	w := &wakes{}
	s, err := classes.New(classes.Options{
		Store: db.Classes(), Blobs: keeper{blobs}, Queue: w, Events: &events{}, CacheDir: filepath.Join(dir, "cache"), PerMinute: perMinute,
		Accounts: addresses{"u-ada": "ada@example.org", "u-bo": "bo@example.org", "u-tea": "tea@example.org"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &server{Service: s, worker: s.NewWorker(grader{}, ready{}), db: db, wakes: w, store: db.Classes(), blobs: filepath.Join(dir, "blobs")}
}

func as(t *testing.T, name string, role account.Role) context.Context {
	return account.WithActor(t.Context(), account.Actor{User: "u-" + name, Name: name, Role: role})
}

func staff(t *testing.T) context.Context { return as(t, "prof", account.Staff) }

func member(t *testing.T, name string) context.Context { return as(t, name, account.Member) }

// work does all jobs that wait, as a node does: what fails is tried three times
// and then given up.
func (s *server) work(t *testing.T) {
	t.Helper()
	for {
		j, ok := s.claim(t)
		if !ok {
			return
		}
		var err error
		if j.Tries >= 3 {
			err = s.worker.GiveUp(t.Context(), j)
		} else {
			err = s.worker.Run(t.Context(), j)
		}
		if err != nil {
			if j.Tries >= 3 {
				t.Fatal(err)
			}
			if err := s.db.Work().Retry(t.Context(), j.ID, j.Token, time.Now(), err.Error()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// claim takes a job, also one that waits to be tried again.
func (s *server) claim(t *testing.T) (work.Job, bool) {
	t.Helper()
	now := time.Now().Add(time.Hour)
	j, ok, err := s.db.Work().Claim(t.Context(), work.Claim{
		Node: "node", Kinds: []string{classes.GradeJob, classes.CheckJob}, Token: work.NewID(), Now: now, Until: now.Add(time.Minute),
	})
	if err != nil {
		t.Fatal(err)
	}
	return j, ok
}

func must[V any](v V, err error) func(t *testing.T) V {
	return func(t *testing.T) V {
		t.Helper()
		if err != nil {
			t.Fatalf("%v (%s)", err, fault.HintOf(err))
		}
		return v
	}
}

func wantKind(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Fatalf("got %v, want a fault of kind %s", err, kind)
	}
}

func packed(t *testing.T, files map[string]string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	// In order, so that the same files are the same bytes.
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

const task = `title: Total
mode: io
language: python3
files: [total.py]
tests:
  - {name: open, points: 4, stdin: "1", stdout: "1"}
  - {name: secret, points: 6, stdin: "2", stdout: "2", visibility: after_published}
`

const people = "email,name,role\nada@example.org,Ada,student\nbo@example.org,Bo,student\ntea@example.org,Tea,ta\n"

// newCourse makes the course c with Ada and Bo on its roster and Tea as staff.
func (s *server) newCourse(t *testing.T) {
	t.Helper()
	ctx := staff(t)
	must(s.NewCourse(ctx, class.Course{ID: "c", Title: "Course", Zone: "Europe/Warsaw"}))(t)
	_, digest, err := s.PlanRoster(ctx, "c", "people.csv", []byte(people))
	if err != nil {
		t.Fatal(err)
	}
	must(s.ImportRoster(ctx, "c", "people.csv", []byte(people), digest))(t)
}

// upload uploads lab1 with more rules, and has it checked.
func (s *server) upload(t *testing.T, rules, solution string) classes.Version {
	t.Helper()
	v := must(s.Upload(staff(t), "c", "lab1", packed(t, map[string]string{"assignment.yaml": task + rules, "solution/total.py": solution})))(t)
	s.work(t)
	return must(s.Version(staff(t), "c", "lab1", v.Number))(t)
}

// open makes the course c with lab1 open.
func (s *server) open(t *testing.T, rules string, o classes.Opening) {
	t.Helper()
	s.newCourse(t)
	v := s.upload(t, rules, "open secret")
	must(s.Open(staff(t), "c", "lab1", v.Number, o))(t)
}

func handIn(text string) classes.NewAttempt {
	return classes.NewAttempt{Course: "c", Assignment: "lab1", Files: []course.File{{Name: "total.py", Data: []byte(text)}}}
}

// keeper is a blob store as the service wants it.
type keeper struct{ *blob.Folder }
