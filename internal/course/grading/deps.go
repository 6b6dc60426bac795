package grading

import (
	"context"

	"assay/internal/course"
)

// Pins keeps which tests a version of an assignment has, where only a run of
// the solution can tell. It may be used from many goroutines and processes.
type Pins interface {
	// Get gives nil where nothing is kept.
	Get(version string) ([]course.Test, error)
	Put(version string, tests []course.Test) error
}

// Preparer is a Grader that has work to do once for each assignment version
// before the first grading: building a template, compiling the teacher's files.
// It fills what it finds into the assignment.
type Preparer interface {
	Prepare(ctx context.Context, a *course.Assignment) error
}

// Pinner is a Grader that finds the tests itself. Where a Grader is none, the
// tests are the findings of the solution's run.
type Pinner interface {
	Pin(ctx context.Context, a *course.Assignment) ([]course.Test, error)
}

// Results keeps the grades of one class's run. It may be used from many
// goroutines.
type Results interface {
	// Get gives the grade that is kept of a submission, or nil.
	Get(id string) (*course.Grade, error)
	// Put keeps a grade and the files that it is of: after a crash either both are
	// there or the ones before.
	Put(g course.Grade, s course.Submission) error
}
