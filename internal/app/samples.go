package app

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/judge/problempkg"
	"assay/internal/judging"
)

// SampleRun is a labelled submission of a sample problem and what became of it.
type SampleRun struct {
	Problem    string
	Submission string
	Outcome    judge.Comparison
}

// samplesActor loads what comes with Assay.
func samplesActor(ctx context.Context) context.Context {
	a := account.SystemActor()
	a.Name = "sample"
	return account.WithActor(ctx, a)
}

// LoadSamples puts the problem packages of a folder on the server, open, and
// submits their labelled submissions. What is there already is not judged again.
// It returns when all have their verdict; Run must be running. tell hears of
// each, one at a time, with how many there are.
func (s *Server) LoadSamples(ctx context.Context, dir string, tell func(r SampleRun, done, total int)) error {
	ctx = samplesActor(ctx)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("sample problems: %w", err)
	}
	var waiting []sample
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		list, err := s.loadSample(ctx, filepath.Join(dir, e.Name()), e.Name())
		if err != nil {
			return fmt.Errorf("sample problem %s: %w", e.Name(), err)
		}
		waiting = append(waiting, list...)
	}
	for i, w := range waiting {
		run, err := s.awaitSample(ctx, w)
		if err != nil {
			return err
		}
		tell(SampleRun{Problem: w.problem, Submission: w.id, Outcome: w.expected.Compare(run)}, i+1, len(waiting))
	}
	return nil
}

// sample is a labelled submission that was submitted.
type sample struct {
	problem, id string
	expected    judge.Expectation
}

func (s *Server) loadSample(ctx context.Context, dir, id string) (list []sample, err error) {
	pkg, err := problempkg.Load(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := pkg.Close(); err == nil {
			err = cerr
		}
	}()
	var zip bytes.Buffer
	if _, err := problempkg.Zip(dir, &zip); err != nil {
		return nil, err
	}
	p, err := s.Judging.Upload(ctx, id, &zip)
	if err != nil {
		return nil, err
	}
	if !p.Open {
		if _, err := s.Judging.OpenProblem(ctx, id, true); err != nil {
			return nil, err
		}
	}
	for _, l := range pkg.Submissions {
		sub, err := s.Judging.Submit(ctx, judging.NewSubmission{
			Problem: id, Language: l.Submission.Language, Entry: l.Submission.Entry, Files: l.Submission.Files,
			Labels:      map[string]string{"sample": filepath.ToSlash(l.Path), "expected": l.Expectation.Text()},
			Idempotency: fmt.Sprintf("sample %s %s", p.Current.Digest, l.Path),
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.Path, err)
		}
		list = append(list, sample{id, sub.ID, l.Expectation})
	}
	return list, nil
}

// sampleWait is how long one look at a sample takes; there is another one after.
const sampleWait = 30 * time.Second

func (s *Server) awaitSample(ctx context.Context, w sample) (judge.Run, error) {
	for {
		sub, err := s.Judging.Wait(ctx, w.id, sampleWait)
		if err != nil {
			return judge.Run{}, err
		}
		if sub.Run.Result != nil {
			return *sub.Run.Result, nil
		}
		if err := ctx.Err(); err != nil {
			return judge.Run{}, context.Cause(ctx)
		}
	}
}

// sampleLogin is the account that commands of a sample server may use, and
// sampleTokenLife how long its token works.
const (
	sampleLogin     = "sample"
	sampleTokenLife = 24 * time.Hour
)

// SampleToken makes a token with which commands can speak to a server with
// samples: that of a member of staff whom nobody can sign in as. Those of earlier
// starts end.
func (s *Server) SampleToken(ctx context.Context) (string, error) {
	system := samplesActor(ctx)
	u, err := s.Accounts.User(system, sampleLogin)
	if fault.Is(err, fault.NotFound) {
		u, err = s.Accounts.CreateUser(system, account.NewUser{Login: sampleLogin, Name: "Sample", Role: account.Staff})
	}
	if err != nil {
		return "", err
	}
	as := account.WithActor(ctx, account.Actor{User: u.ID, Name: u.Login, Role: u.Role})
	before, err := s.Accounts.Tokens(as, "", "", 100)
	if err != nil {
		return "", err
	}
	for _, t := range before {
		if t.Revoked.IsZero() {
			if err := s.Accounts.RevokeToken(as, t.ID); err != nil {
				return "", err
			}
		}
	}
	_, secret, err := s.Accounts.CreateToken(as, account.NewToken{
		Name: "make run", Life: sampleTokenLife, Scopes: []account.Scope{account.ScopeJudge, account.ScopeSandboxes, account.ScopeClass},
	})
	return secret, err
}
