package bench

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"assay/internal/course"
	"assay/internal/course/assignment"
	"assay/internal/course/grading"
	"assay/internal/fault"
)

// assignments have ten tests each of the same little task, one for each mode.
//
//go:embed assignments
var assignments embed.FS

// GradeTemplate is the template that Grade needs.
const GradeTemplate = "base"

// GradeOptions say what Grade measures.
type GradeOptions struct {
	// Modes are what is measured, of call, io and pytest.
	Modes []course.Mode
	// Rounds is how often each rate is measured, Submissions how many are graded
	// for one.
	Rounds, Submissions int
	// Class is how many submissions the mixed class has; 0 leaves it out.
	Class  int
	AtOnce int
	Stage  func(name string)
}

// leastGraded is how many submissions of a small Python assignment should be
// graded in a second by two cores.
const leastGraded = 3

// Grade measures how many submissions are graded in a second, in each mode, and
// a class of right, wrong, slow and hostile ones. That one of them gets another
// grade than it must get is an error.
func Grade(ctx context.Context, s *grading.Service, o GradeOptions) (Report, error) {
	dir, err := os.MkdirTemp("", "assay-bench-")
	if err != nil {
		return Report{}, err
	}
	defer os.RemoveAll(dir)
	b := &gradeBench{ctx: ctx, service: s, dir: dir, o: o}
	var steps []step
	for _, mode := range o.Modes {
		steps = append(steps, step{fmt.Sprintf("mode %s, %d submissions, %d rounds", mode, o.Submissions, o.Rounds), func() ([]Row, error) {
			return b.rate(mode)
		}})
		if o.Class > 0 {
			steps = append(steps, step{fmt.Sprintf("mode %s, a mixed class of %d", mode, o.Class), func() ([]Row, error) { return b.class(mode) }})
		}
	}
	return measureAll(ctx, o.Stage, steps)
}

type gradeBench struct {
	ctx     context.Context // of one run of the benchmark, which is one call
	service *grading.Service
	dir     string
	o       GradeOptions
}

func (b *gradeBench) rate(mode course.Mode) ([]Row, error) {
	a, err := b.assignment(mode)
	if err != nil {
		return nil, err
	}
	var rates []float64
	for round := range b.o.Rounds {
		rate, _, err := b.grade(a, b.o.Submissions, func(int) handedIn { return handIns[0] }, round)
		if err != nil {
			return nil, err
		}
		rates = append(rates, rate)
	}
	r := row(fmt.Sprintf("submissions in mode %s, 10 tests, %d at once", mode, b.o.AtOnce), "rate", rates, leastGraded)
	r.AtLeast = true
	return []Row{r}, nil
}

// class grades submissions of all handIns.
func (b *gradeBench) class(mode course.Mode) ([]Row, error) {
	a, err := b.assignment(mode)
	if err != nil {
		return nil, err
	}
	rate, took, err := b.grade(a, b.o.Class, func(i int) handedIn { return handIns[i%len(handIns)] }, b.o.Rounds)
	return []Row{
		row(fmt.Sprintf("  a mixed class of %d", b.o.Class), "rate", []float64{rate}, 0),
		row("  one submission of it", "us", took, 0),
	}, err
}

// assignment gives the assignment of a mode, prepared.
func (b *gradeBench) assignment(mode course.Mode) (*course.Assignment, error) {
	sub, err := fs.Sub(assignments, "assignments/"+string(mode))
	if err != nil {
		return nil, err
	}
	to := filepath.Join(b.dir, string(mode))
	if err := os.CopyFS(to, sub); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	a, err := assignment.Load(to)
	if err != nil {
		return nil, err
	}
	return a, b.service.Prepare(b.ctx, a)
}

// handedIn is one sort of submission and the tests that it must pass.
type handedIn struct {
	name string
	code string
	want int
	// cause must be that of at least one test, or of the run; empty is any.
	cause course.Cause
}

const leapCode = "def is_leap(year):\n    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)\n"

// handIns are the submissions of a mixed class, of ten: six right, two wrong, one
// slow, one hostile. Each ends with the same few lines for mode io.
var handIns = []handedIn{
	{"right", leapCode, 10, ""},
	{"right", leapCode, 10, ""},
	{"wrong", "def is_leap(year):\n    return year % 4 == 0\n", 7, ""},
	{"right", leapCode, 10, ""},
	{"slow", "def is_leap(year):\n    while year == 2000:\n        pass\n    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)\n", 9, course.TimeLimit},
	{"right", leapCode, 10, ""},
	{"hostile", "import os\n\n\ndef is_leap(year):\n    if os.fork() == 0:\n        os.setsid()\n        os.write(1, b'True\\n' * 1000)\n    os._exit(0)\n", 0, ""},
	{"right", leapCode, 10, ""},
	{"nothing", "def is_leap(year):\n    return None\n", 0, ""},
	{"right", leapCode, 10, ""},
}

const mainCode = "\n\nif __name__ == \"__main__\":\n    print(is_leap(int(input())))\n"

// grade grades n submissions and gives how many in a second, and what each
// took in microseconds. No two are the same bytes.
func (b *gradeBench) grade(a *course.Assignment, n int, of func(int) handedIn, round int) (float64, []float64, error) {
	entries := make([]grading.Entry, n)
	for i := range entries {
		code := fmt.Sprintf("# %d of round %d\n%s%s", i, round, of(i).code, mainCode)
		entries[i] = grading.Entry{ID: fmt.Sprintf("s%03d", i), Open: func() (course.Submission, error) {
			return course.Submission{Files: []course.File{{Name: "leap.py", Data: []byte(code)}}}, nil
		}}
	}
	var took []float64
	began := time.Now()
	err := b.service.Run(b.ctx, a, grading.Class{Entries: entries, AtOnce: b.o.AtOnce, Done: func(out grading.Outcome) error {
		g := out.Grade
		took = append(took, float64(g.Run.Finished.Sub(g.Run.Began).Microseconds()))
		return asItMustBe(of(out.Index), g)
	}})
	return float64(n) / time.Since(began).Seconds(), took, err
}

// asItMustBe says whether a submission got what its kind must get.
func asItMustBe(k handedIn, g course.Grade) error {
	passed, died := 0, k.cause == "" || g.Cause == k.cause
	var why []string
	for _, t := range g.Tests {
		if t.Status == course.Passed {
			passed++
		} else {
			why = append(why, fmt.Sprintf("%s: %s %s %s", t.Name, t.Status, t.Cause, t.Detail))
		}
		died = died || t.Cause == k.cause
	}
	if passed == k.want && died {
		return nil
	}
	return fault.Errorf(fault.Internal, "the %s submission %s in mode %s passed %d tests, not %d (%s): %s",
		k.name, g.Submission, g.Mode, passed, k.want, g.Cause, strings.Join(why, "; ")+g.Log)
}
