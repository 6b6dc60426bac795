package judging

import (
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/judge/problempkg"
)

// Problem is a problem with its current version.
type Problem struct {
	ID string
	// Open says that members may see it and submit.
	Open    bool
	Current Version
	Created time.Time
}

// Version is one immutable package of a problem.
type Version struct {
	Problem string
	// Digest is of all that is in the package ("sha256:…").
	Digest string
	// Number counts a problem's versions from 1.
	Number int
	// Package is the blob that holds the zip.
	Package string
	About
	Uploaded time.Time
	By       string
}

// About is what there is to tell of a package without reading it again.
type About struct {
	Title  string `json:"title"`
	Format string `json:"format"`
	// TimeLimit is CPU time of one case.
	TimeLimit time.Duration `json:"time_limit_ns"`
	// Memory is in bytes; zero is the machine's.
	Memory    int64    `json:"memory_bytes"`
	Cases     int      `json:"cases"`
	Scoring   bool     `json:"scoring"`
	Checker   string   `json:"checker"`
	Languages []string `json:"languages,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
}

func (p Problem) thing() account.Thing {
	return account.Thing{Kind: account.ProblemThing, ID: p.ID, Open: p.Open}
}

// maxPackage bounds a package, in bytes.
const maxPackage = 1 << 30

var problemID = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$`)

// Upload makes a package, a zip, the next version of a problem, which is made if
// it is not there; a new problem is closed. The package that is current already
// changes nothing. A package that cannot be judged leaves nothing behind. Kinds
// of error: Invalid for the package, Denied, Exhausted when there is no room.
func (s *Service) Upload(ctx context.Context, id string, zip io.Reader) (_ Problem, err error) {
	actor := account.ActorOf(ctx)
	if err := account.May(actor, account.Change, account.Thing{Kind: account.ProblemThing}); err != nil {
		return Problem{}, err
	}
	if !problemID.MatchString(id) || strings.Contains(id, "..") {
		return Problem{}, fault.Errorf(fault.Invalid, "problem ID %q", id).WithHint("1 to 64 small letters, digits, dots, dashes or underscores")
	}
	part, err := s.packages.write(ctx, zip, maxPackage)
	if err != nil {
		return Problem{}, err
	}
	defer func() { err = errors.Join(err, removeQuietly(part)) }()
	pkg, err := sound(part, id)
	if err != nil {
		return Problem{}, err
	}
	defer func() { err = errors.Join(err, pkg.Close()) }()
	digest, err := s.keepFile(ctx, part)
	if err != nil {
		return Problem{}, err
	}
	p := pkg.Problem
	v := Version{
		Problem: id, Digest: p.Version, Package: digest, Uploaded: now(), By: actor.Name,
		About: About{
			Title: p.Name, Format: string(pkg.Format), TimeLimit: p.Limits.CPU, Memory: p.Limits.Memory, Cases: len(p.Cases),
			Scoring: p.Scoring, Checker: p.DescribeChecker(), Languages: p.Languages, Warnings: pkg.Warnings,
		},
	}
	if v.Title == "" {
		v.Title = id
	}
	if err := s.store.PutVersion(ctx, v); err != nil {
		return Problem{}, err
	}
	return s.store.Problem(ctx, id)
}

// sound reads a package that somebody uploaded.
func sound(path, id string) (*problempkg.Package, error) {
	pkg, err := problempkg.Options{Name: id}.Load(path)
	if fault.Is(err, fault.Unsupported) {
		// To who uploads it, that is a package to change.
		err = fault.Errorf(fault.Invalid, "%w", err).WithHint("%s", fault.HintOf(err))
	}
	if err != nil {
		return nil, onDisk(err)
	}
	if pkg.Problem.Limits.CPU == 0 {
		err := fault.Errorf(fault.Invalid, "problem %s: the package gives no time limit", id).
			WithHint(`"assay verify" finds one from its submissions: write it into the package`)
		return nil, errors.Join(err, pkg.Close())
	}
	return pkg, nil
}

// keepFile keeps a file as a blob.
func (s *Service) keepFile(ctx context.Context, path string) (digest string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", onDisk(err)
	}
	defer f.Close()
	digest, _, err = s.blobs.Put(ctx, f, maxPackage)
	return digest, err
}

// Problem gives a problem that the actor may see.
func (s *Service) Problem(ctx context.Context, id string) (Problem, error) {
	return s.problem(ctx, id, account.Read)
}

func (s *Service) problem(ctx context.Context, id string, do account.Action) (Problem, error) {
	actor := account.ActorOf(ctx)
	// Who may see none must not learn which there are.
	if err := account.May(actor, account.List, account.Thing{Kind: account.ProblemThing}); err != nil {
		return Problem{}, err
	}
	p, err := s.store.Problem(ctx, id)
	if err != nil {
		return Problem{}, err
	}
	if err := account.May(actor, do, p.thing()); err != nil {
		return Problem{}, err
	}
	return s.shown(actor, p), nil
}

// shown takes out what is for staff.
func (s *Service) shown(actor account.Actor, p Problem) Problem {
	if account.May(actor, account.ReadHidden, p.thing()) != nil {
		p.Current.Warnings, p.Current.By = nil, ""
	}
	return p
}

// Problems are those that the actor may see, by ID, from the one after.
func (s *Service) Problems(ctx context.Context, after string, limit int) ([]Problem, error) {
	actor := account.ActorOf(ctx)
	if err := account.May(actor, account.List, account.Thing{Kind: account.ProblemThing}); err != nil {
		return nil, err
	}
	closed := account.May(actor, account.Read, account.Thing{Kind: account.ProblemThing}) == nil
	list, err := s.store.Problems(ctx, ProblemQuery{After: after, Limit: limit, Closed: closed})
	for i := range list {
		list[i] = s.shown(actor, list[i])
	}
	return list, err
}

// Versions are all of a problem, newest first; for staff.
func (s *Service) Versions(ctx context.Context, id string) ([]Version, error) {
	if _, err := s.problem(ctx, id, account.ReadHidden); err != nil {
		return nil, err
	}
	return s.store.Versions(ctx, id)
}

// OpenProblem lets members see a problem and submit, or no longer.
func (s *Service) OpenProblem(ctx context.Context, id string, open bool) (Problem, error) {
	if _, err := s.problem(ctx, id, account.Change); err != nil {
		return Problem{}, err
	}
	if err := s.store.OpenProblem(ctx, id, open); err != nil {
		return Problem{}, err
	}
	return s.store.Problem(ctx, id)
}
