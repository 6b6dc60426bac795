package app

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/account"
	"assay/internal/classes"
	"assay/internal/config"
	"assay/internal/course"
	"assay/internal/course/class"
	"assay/internal/require"
	"assay/internal/usage"
)

// runningServer is a server on SQLite, with machines, that runs until the test
// ends.
func runningServer(t *testing.T) *Server {
	t.Helper()
	s, err := OpenServer(t.Context(), ServerOptions{
		Config: config.Server{
			Listen: "127.0.0.1:0", PublicURL: "http://127.0.0.1", Role: "all", Node: "test", Jobs: 2, Pool: 1, Lease: 30 * time.Second, Drain: time.Second,
			OIDC: config.OIDC{Role: "member"}, Cost: config.Cost{Currency: "EUR", CPUHour: 1, GiBHour: 1},
		},
		DataDir: testData(t), BinDir: require.Binaries(t), Version: "test", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			t.Errorf("end the server: %v", err)
		}
	})
	s.Prepared()
	return s
}

// folderZip packs a folder.
func folderZip(t *testing.T, dir string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

const classSize = 30

// TestClassOfThirty: a teacher uploads an assignment, which is checked with its
// hostile submissions and opened; thirty students hand in at once, and each gets
// the mark that the same files always get.
func TestClassOfThirty(t *testing.T) {
	s := runningServer(t)
	system := account.WithActor(t.Context(), account.SystemActor())
	as := func(login string, role account.Role) context.Context {
		u, err := s.Accounts.CreateUser(system, account.NewUser{Login: login, Email: login + "@example.org", Role: role})
		if err != nil {
			t.Fatal(err)
		}
		return account.WithActor(t.Context(), account.Actor{User: u.ID, Name: u.Login, Role: u.Role})
	}
	teacher := as("teacher", account.Staff)
	roster := strings.Builder{}
	roster.WriteString("email,name\n")
	students := make([]context.Context, classSize)
	for i := range students {
		login := fmt.Sprintf("student%02d", i)
		students[i] = as(login, account.Member)
		fmt.Fprintf(&roster, "%s@example.org,%s\n", login, login)
	}
	if _, err := s.Classes.NewCourse(teacher, class.Course{ID: "c", Zone: "UTC"}); err != nil {
		t.Fatal(err)
	}
	_, digest, err := s.Classes.PlanRoster(teacher, "c", "roster.csv", []byte(roster.String()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Classes.ImportRoster(teacher, "c", "roster.csv", []byte(roster.String()), digest); err != nil {
		t.Fatal(err)
	}
	dir := "../../examples/assignments/word-count"
	v, err := s.Classes.Upload(teacher, "c", "words", folderZip(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	for v.State == classes.Checking {
		select {
		case <-t.Context().Done():
			t.Fatal("the check does not end")
		case <-time.After(200 * time.Millisecond):
		}
		if v, err = s.Classes.Version(teacher, "c", "words", v.Number); err != nil {
			t.Fatal(err)
		}
	}
	if v.State != classes.Passed || v.Class.Points.String() != "10" || len(v.Checks) < 10 {
		t.Fatalf("the example is %s: %s %+v", v.State, v.Why, v.Checks)
	}
	if _, err := s.Classes.Open(teacher, "c", "words", v.Number, classes.Opening{}); err != nil {
		t.Fatal(err)
	}
	work := []struct{ folder, score string }{{"solution", "10"}, {"proofs/case_matters", "7"}, {"proofs/forgets_empty_lines", "8"}, {"starter", "0"}}
	var wg sync.WaitGroup
	begin := time.Now()
	for i, student := range students {
		wg.Go(func() {
			data, err := os.ReadFile(filepath.Join(dir, work[i%len(work)].folder, "words.py"))
			if err != nil {
				t.Error(err)
				return
			}
			a, err := s.Classes.HandIn(student, classes.NewAttempt{Course: "c", Assignment: "words", Files: []course.File{{Name: "words.py", Data: data}}})
			if err != nil {
				t.Error(err)
				return
			}
			seen, err := s.Classes.Wait(student, "c", a.ID, 5*time.Minute)
			if err != nil || !seen.Graded || seen.OurFailure || seen.Scored || !seen.Student.HiddenRemain {
				t.Errorf("student %d sees %+v, %v", i, seen, err)
			}
		})
	}
	wg.Wait()
	t.Logf("%d attempts in %s", classSize, time.Since(begin).Round(time.Millisecond))
	book, err := s.Classes.Gradebook(teacher, "c")
	if err != nil || len(book.Rows) != classSize {
		t.Fatalf("the gradebook has %d rows, %v", len(book.Rows), err)
	}
	for i, row := range book.Rows {
		if got, want := row.Total.String(), work[i%len(work)].score; got != want {
			t.Errorf("%s has %s points, want %s", row.Person.Name, got, want)
		}
	}
	r, err := s.usage().Report(teacher, usage.Query{By: usage.ByCourse}, "")
	if err != nil || len(r.Lines) != 1 || r.Lines[0].Runs != classSize || r.Total.CPU <= 0 || r.Total.Memory <= 0 || r.Total.Cost <= 0 {
		t.Errorf("usage is %+v, %v", r, err)
	}
}
