package problempkg

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/judge/checker"
)

// Package is a problem package that was read and found sound. Its cases are
// read from the folder or zip when they are needed: Close it after the last run.
type Package struct {
	Problem judge.Problem
	// Submissions are the labelled ones, sorted by path.
	Submissions []Labelled
	// Warnings are things that are odd but do no harm, for people.
	Warnings []string

	closer io.Closer
}

// Labelled is a submission of the package and what it must do.
type Labelled struct {
	// Path is where it lies ("submissions/accepted/sum.py").
	Path        string
	Submission  judge.Submission
	Expectation judge.Expectation
}

// Close frees the folder or zip. The problem's cases cannot be read afterwards.
func (p *Package) Close() error { return p.closer.Close() }

// Options change how a package is read.
type Options struct {
	// TimeLimit is used where the package gives none.
	TimeLimit time.Duration
}

// Load reads a package with no options: see Options.Load.
func Load(path string) (*Package, error) { return Options{}.Load(path) }

// Load reads the package in a folder or in a .zip or .kpp file. Kinds of error:
// NotFound when nothing is there, Invalid for a package that is wrong or
// hostile, Unsupported for one that needs what Assay does not do yet.
func (o Options) Load(path string) (*Package, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.Errorf(fault.NotFound, "problem package %s does not exist", path).
			WithHint("give the folder that holds problem.yaml, or a zip of it")
	case err != nil:
		return nil, fault.Errorf(fault.Invalid, "problem package: %w", err)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "problem package %s: %w", path, err)
	}
	var raw rawTree
	var closer io.Closer
	switch {
	case info.IsDir():
		raw, closer, err = openFolder(path)
	case info.Mode().IsRegular():
		raw, closer, err = openZipFile(path, info.Size())
	default:
		return nil, fault.Errorf(fault.Invalid, "problem package %s is neither a folder nor a file", path)
	}
	if err != nil {
		return nil, inPackage(path, err)
	}
	name := filepath.Base(abs)
	if !info.IsDir() {
		name = strings.TrimSuffix(name, filepath.Ext(name))
	}
	p, err := o.read(raw, name)
	if err != nil {
		return nil, errors.Join(inPackage(path, err), closer.Close())
	}
	p.closer = closer
	return p, nil
}

// inPackage says which package an error is about, and keeps kind and hint.
func inPackage(path string, err error) error {
	return fault.Errorf(fault.KindOf(err), "problem package %s: %w", path, err)
}

// read makes a package of a tree.
func (o Options) read(raw rawTree, name string) (*Package, error) {
	t, err := raw.resolve()
	if err != nil {
		return nil, err
	}
	if len(t.files) == 0 {
		return nil, fault.Errorf(fault.Invalid, "the package is empty").
			WithHint("a package holds at least problem.yaml and data/secret with one case")
	}
	meta, err := readMetadata(t)
	if err != nil {
		return nil, err
	}
	side, err := readSideFiles(t)
	if err != nil {
		return nil, err
	}
	if err := refuseUnsupported(t); err != nil {
		return nil, err
	}
	flags := strings.Fields(meta.validatorFlags)
	if _, err := checker.ParseOptions(flags); err != nil {
		return nil, at("problem.yaml", meta.validatorFlagsLine, err)
	}
	version, err := t.digest()
	if err != nil {
		return nil, err
	}
	cases, err := t.cases()
	if err != nil {
		return nil, err
	}
	for i := range cases {
		cases[i].CheckerArgs = flags
	}
	subs, err := t.submissions()
	if err != nil {
		return nil, err
	}
	p := &Package{
		Problem: judge.Problem{
			ShortName: name, Name: meta.name, Version: version, Limits: meta.limits, Cases: cases, Checker: checker.Default{},
		},
		Submissions: subs,
	}
	if side.shortName != "" {
		p.Problem.ShortName = side.shortName
	}
	if p.Problem.Name == "" {
		p.Problem.Name = p.Problem.ShortName
	}
	if p.Problem.Limits.CPU, err = o.timeLimit(t, meta, side); err != nil {
		return nil, err
	}
	p.Warnings = t.warnings
	return p, nil
}

// timeLimit takes the limit that the package gives. The format would have it
// inferred from the accepted submissions otherwise, which needs runs.
func (o Options) timeLimit(t *tree, meta metadata, side sideFiles) (time.Duration, error) {
	given := []struct {
		from string
		d    time.Duration
	}{{".timelimit", side.dotTimeLimit}, {"domjudge-problem.ini", side.iniTimeLimit}, {"problem.yaml", meta.limits.CPU}}
	var limit time.Duration
	var from string
	for _, g := range given {
		switch {
		case g.d == 0:
		case limit == 0:
			limit, from = g.d, g.from
		case g.d != limit:
			t.warn("%s says %s and %s says %s: the first counts", from, limit, g.from, g.d)
		}
	}
	if limit == 0 {
		limit = o.TimeLimit
	}
	if limit == 0 {
		return 0, fault.Errorf(fault.Unsupported, "the package gives no time limit, and finding one from its submissions is not supported yet").
			WithHint("write the limit in seconds into a file .timelimit beside problem.yaml")
	}
	return limit, nil
}

// refuseUnsupported refuses parts of the format that would change verdicts and
// that nothing here honours yet.
func refuseUnsupported(t *tree) error {
	for _, name := range t.names {
		if strings.HasPrefix(name, "include/") {
			return fault.Errorf(fault.Unsupported, "%s: code added to submissions (include/) is not supported yet", name)
		}
	}
	return t.checkTestdata()
}
