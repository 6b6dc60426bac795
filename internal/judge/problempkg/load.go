package problempkg

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/judge/checker"
)

// Package is a problem package that was read and found sound. Its cases are
// read from the folder or zip when they are needed: Close it after the last run.
type Package struct {
	// Format is the one it is written in.
	Format  Format
	Problem judge.Problem
	// Submissions are the labelled ones, sorted by path.
	Submissions []Labelled
	// Proofs are cases that the validators themselves are tried on (2025-09).
	Proofs []Proof
	// Warnings are things that are odd but do no harm, for people.
	Warnings []string

	closer io.Closer
	// dir is the folder that was read, with no links in it; empty for a zip.
	dir string
}

// Format names a package format.
type Format string

// The formats. Drafts of 2025-09 count as that one.
const (
	Legacy  Format = "legacy"
	Rules   Format = "2025-09"
	Polygon Format = "polygon"
)

// Labelled is a submission of the package and what it must do.
type Labelled struct {
	// Path is where it lies ("submissions/accepted/sum.py").
	Path        string
	Submission  judge.Submission
	Expectation judge.Expectation
	// Bounds are what its run times say about the time limit, where that is
	// inferred or checked; none means that it is not used for that.
	Bounds []TimeBound
}

// TimeBound is what the slowest of some cases says about the time limit.
type TimeBound struct {
	// Upper says that the program must exceed the limit there; else it must stay
	// inside.
	Upper bool
	// Cases are indexes in Problem.Cases; nil is all.
	Cases []int
}

// ProofKind is what a case for the validators must show.
type ProofKind string

// The kinds of proof.
const (
	// InvalidInput must be refused by at least one input validator.
	InvalidInput ProofKind = "invalid_input"
	// InvalidOutput must be rejected by the output validator, ValidOutput
	// accepted; the input of both is valid.
	InvalidOutput ProofKind = "invalid_output"
	ValidOutput   ProofKind = "valid_output"
)

// Proof is a case that is no test of submissions. Case.Answer is empty for an
// InvalidInput; Output is what a program might have written, of the other kinds.
type Proof struct {
	Kind   ProofKind
	Case   judge.Case
	Output judge.Blob
}

// Close frees the folder or zip. The problem's cases cannot be read afterwards.
func (p *Package) Close() error { return p.closer.Close() }

// Find gives the labelled submission of the package that lies at a path on this
// host, as ReadSubmission takes it.
func (p *Package) Find(file string) (Labelled, bool) {
	abs, err := filepath.Abs(file)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil || p.dir == "" {
		return Labelled{}, false
	}
	for _, s := range p.Submissions {
		if filepath.Join(p.dir, filepath.FromSlash(s.Path)) == abs {
			return s, true
		}
	}
	return Labelled{}, false
}

// Options change how a package is read.
type Options struct {
	// TimeLimit is used where the package gives none.
	TimeLimit time.Duration
	// Name is how errors call the package; empty is its path.
	Name string
}

// Load reads a package with no options: see Options.Load.
func Load(path string) (*Package, error) { return Options{}.Load(path) }

// Load reads the package in a folder or in a .zip or .kpp file. A package that
// gives no time limit has Limits.CPU zero and says in Inference how to find it.
// Kinds of error: NotFound when nothing is there, Invalid for a package that is
// wrong or hostile, Unsupported for one that needs what Assay does not do.
func (o Options) Load(path string) (*Package, error) {
	called := o.Name
	if called == "" {
		called = path
	}
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
		return nil, inPackage(called, err)
	}
	name := filepath.Base(abs)
	if !info.IsDir() {
		name = strings.TrimSuffix(name, filepath.Ext(name))
	}
	if o.Name != "" {
		name = o.Name
	}
	p, err := o.read(raw, name)
	if err != nil {
		return nil, errors.Join(inPackage(called, err), closer.Close())
	}
	p.closer = closer
	if info.IsDir() {
		if p.dir, err = filepath.EvalSymlinks(abs); err != nil {
			p.dir = ""
		}
	}
	return p, nil
}

// inPackage says which package an error is about, and keeps kind and hint.
func inPackage(called string, err error) error {
	return fault.Errorf(fault.KindOf(err), "problem package %s: %w", called, err)
}

// languages are read once: they never change.
var languages = sync.OnceValues(judge.DefaultLanguages)

// reader reads one package.
type reader struct {
	t     *tree
	langs *judge.Languages
	meta  metadata
	side  sideFiles
	pkg   *Package
	// programBytes counts what the jury's programs and included code hold.
	programBytes int64
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
	langs, err := languages()
	if err != nil {
		return nil, err
	}
	r := &reader{t: t, langs: langs, pkg: &Package{Format: Legacy, Problem: judge.Problem{ShortName: name, Checker: checker.Default{}}}}
	read := r.read
	if t.files["problem.yaml"] == nil && t.files["problem.xml"] != nil {
		read, r.pkg.Format = r.polygon, Polygon
	}
	if err := read(); err != nil {
		return nil, err
	}
	p := &r.pkg.Problem
	if p.Name == "" {
		p.Name = p.ShortName
	}
	if p.Limits.CPU == 0 {
		p.Limits.CPU = o.TimeLimit
	}
	if p.Limits.CPU == 0 && p.Inference == nil {
		return nil, fault.Errorf(fault.Invalid, "the package gives no time limit")
	}
	r.pkg.Warnings = t.warnings
	return r.pkg, nil
}

// read reads a package with a problem.yaml.
func (r *reader) read() (err error) {
	if r.meta, err = readMetadata(r.t, r.langs); err != nil {
		return err
	}
	if r.meta.rules {
		r.pkg.Format = Rules
	}
	if r.side, err = readSideFiles(r.t); err != nil {
		return err
	}
	if r.meta.validatorFlags == "" && len(r.side.special) == 0 {
		r.meta.validatorFlags = strings.Join(r.side.compareArgs, " ")
	}
	p := &r.pkg.Problem
	p.Name, p.Limits, p.Languages, p.Scoring, p.Passes = r.meta.name, r.meta.limits, r.meta.languages, r.meta.scoring, r.meta.passes
	p.ReadOnly = r.meta.rules && !r.meta.writing
	p.Inference = &r.meta.inference
	if p.Name == "" {
		p.Name = r.side.name
	}
	if r.side.shortName != "" {
		p.ShortName = r.side.shortName
	}
	p.Limits.CPU = r.timeLimit()
	if p.Version, err = r.t.digest(); err != nil {
		return err
	}
	if err := r.validators(); err != nil {
		return err
	}
	if p.Include, err = r.include(); err != nil {
		return err
	}
	grading, err := r.gradingFormat()
	if err != nil {
		return err
	}
	if grading {
		err = r.rulesData()
	} else {
		err = r.legacyData()
	}
	if err != nil {
		return err
	}
	if err := r.checkFlags(); err != nil {
		return err
	}
	if r.meta.rules {
		if r.pkg.Proofs, err = r.proofs(); err != nil {
			return err
		}
	}
	r.warnOfStatement()
	return r.submissions()
}

// timeLimit takes the limit that the package gives, or 0.
func (r *reader) timeLimit() time.Duration {
	given := []struct {
		from string
		d    time.Duration
	}{{".timelimit", r.side.dotTimeLimit}, {iniName, r.side.iniTimeLimit}, {"problem.yaml", r.meta.limits.CPU}}
	if r.meta.rules {
		// The format's own key counts before files that other systems add.
		given[0], given[2] = given[2], given[0]
	}
	var limit time.Duration
	var from string
	for _, g := range given {
		switch {
		case g.d == 0:
		case limit == 0:
			limit, from = g.d, g.from
		case g.d != limit:
			r.t.warn("%s says %s and %s says %s: the first counts", from, limit, g.from, g.d)
		}
	}
	return limit
}
