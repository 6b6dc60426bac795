package cli

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rogpeppe/go-internal/testscript"

	"assay/internal/account"
	"assay/internal/blob"
	"assay/internal/classes"
	"assay/internal/course"
	"assay/internal/course/grading"
	"assay/internal/fault"
	"assay/internal/httpapi"
	"assay/internal/judge"
	"assay/internal/judging"
	"assay/internal/sqlstore"
	"assay/internal/usage"
	"assay/internal/work"
)

// fixedTokens are accounts whose tokens are their logins.
type fixedTokens map[string]account.Role

func (f fixedTokens) ByToken(_ context.Context, secret string) (account.Actor, error) {
	if role, ok := f[secret]; ok {
		return account.Actor{User: "u-" + secret, Name: secret, Role: role}, nil
	}
	return account.Actor{}, fault.Errorf(fault.Unauthenticated, "the token is wrong")
}

func (f fixedTokens) BySession(context.Context, string) (account.Actor, error) {
	return account.Actor{}, nil
}

func (fixedTokens) Email(_ context.Context, user string) (string, error) {
	return strings.TrimPrefix(user, "u-") + "@example.org", nil
}

// silentBus tells nobody: workers and those who follow look by themselves.
type silentBus struct{}

func (silentBus) Wake(string)                                   {}
func (silentBus) Waits(string) (<-chan struct{}, func(), error) { return nil, func() {}, nil }
func (silentBus) Publish(string, []byte)                        {}
func (silentBus) Subscribe(context.Context, string) (<-chan []byte, func(), error) {
	return nil, func() {}, nil
}

// textGrader passes the tests whose names are in the first file.
type textGrader struct{}

func (textGrader) Ready(context.Context, string) error               { return nil }
func (textGrader) Prepare(context.Context, *course.Assignment) error { return nil }

func (textGrader) Grade(_ context.Context, a *course.Assignment, s course.Submission, _ func(string)) (course.Grade, error) {
	var r course.Report
	for _, t := range a.Tests {
		f := course.Finding{Test: t.ID, Status: course.Failed}
		if strings.Contains(string(s.Files[0].Data), t.Name) {
			f.Status = course.Passed
		}
		r.Findings = append(r.Findings, f)
	}
	return course.Decide(a, s, r), nil
}

func (g textGrader) Verify(ctx context.Context, a *course.Assignment, _ grading.VerifyOptions) ([]grading.Check, error) {
	got, err := g.Grade(ctx, a, course.Submission{Files: a.Solution}, nil)
	return []grading.Check{{Kind: "solution", Name: "solution", Want: a.Points.String(), Got: got.Score.String(), OK: got.Score.Cmp(a.Points) == 0}}, err
}

// textJudge accepts a source with the word "right" in it, and from its third run on
// all: then a rejudge has something to change.
type textJudge struct{ runs int }

func (*textJudge) Options() judge.Options { return judge.Options{} }

func (j *textJudge) Run(_ context.Context, _ judge.Problem, s judge.Submission, _ judge.Observer) (judge.Run, error) {
	j.runs++
	r := judge.Run{
		Verdict: judge.WrongAnswer, FailedCase: 1, Submission: judge.SubmissionInfo{Name: s.Name, Language: s.Language, Digest: s.Digest()},
		Cases: []judge.CaseResult{{Number: 1, Name: "sample/1", Sample: true, Verdict: judge.WrongAnswer, Message: "not what was asked"}},
	}
	if j.runs > 2 || strings.Contains(string(s.Files[0].Data), "right") {
		r.Verdict, r.FailedCase, r.Cases = judge.Accepted, 0, nil
	}
	return r, nil
}

// startClassServer starts a server with a judge, courses and a worker without
// machines. done stops both.
func startClassServer(ctx context.Context, dir string) (url string, done func(), err error) {
	db, err := sqlstore.Open(ctx, filepath.Join(dir, "server", "assay.db"))
	if err != nil {
		return "", nil, err
	}
	blobs, err := blob.OpenFolder(filepath.Join(dir, "server", "blobs"))
	if err != nil {
		return "", nil, err
	}
	who := fixedTokens{"prof": account.Staff, "ada": account.Member, "bo": account.Member}
	s, err := classes.New(classes.Options{
		Store: db.Classes(), Blobs: blobs, Queue: silentBus{}, Events: silentBus{}, Accounts: who, CacheDir: filepath.Join(dir, "server", "uploads"),
	})
	if err != nil {
		return "", nil, err
	}
	j, err := judging.New(judging.Options{
		Store: db.Judging(), Blobs: blobs, Queue: silentBus{}, Events: silentBus{}, CacheDir: filepath.Join(dir, "server", "packages"),
	})
	if err != nil {
		return "", nil, err
	}
	door, err := httpapi.New(httpapi.Options{
		Log: slog.New(slog.DiscardHandler), Accounts: who, Server: noNodes{}, Metrics: prometheus.NewRegistry(), Classes: s, Judge: j,
		Usage: usage.New(db.Usage(), usage.Rates{Currency: "EUR"}), Ready: func(context.Context) error { return nil },
	})
	if err != nil {
		return "", nil, err
	}
	web := httptest.NewServer(door)
	h := s.NewWorker(textGrader{}, textGrader{})
	w := &work.Worker{
		Store: db.Work(), Wakes: silentBus{}, Node: "node", Capacity: 1, Poll: 20 * time.Millisecond,
		Handlers: map[string]work.Handler{
			classes.GradeJob: h, classes.CheckJob: h, judging.JobKind: j.NewWorker(&textJudge{}, textGrader{}),
		},
	}
	ctx, cancel := context.WithCancel(ctx)
	var working sync.WaitGroup
	working.Go(func() { _ = w.Run(ctx) }) // ends with its context only
	return web.URL, func() {
		web.Close()
		cancel()
		working.Wait()
		// Nothing was written that the test wants.
		_ = j.Close()
		_ = db.Close()
	}, nil
}

// TestRemoteScripts runs the commands of courses on a server; each script has one
// of its own. The tokens are prof, ada and bo.
func TestRemoteScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "remote"),
		Setup: func(env *testscript.Env) error {
			url, done, err := startClassServer(context.Background(), env.WorkDir)
			if err != nil {
				return err
			}
			env.Defer(done)
			env.Setenv("ASSAY_SERVER", url)
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			return nil
		},
	})
}
