// Package pytest is the grading mode pytest: the teacher's ordinary pytest and
// unittest files run unchanged in the grader's machine, where the student's
// modules are stand-ins (standin.py); every use of them is carried by the host
// to the student's machine (agent.py) and back. Start with Grader and, for how
// the machines talk, border.py and carrier.
//
// Neither machine holds anything of the other: there are no tests and no
// expected values beside the student's code, and no student's code beside the
// tests. What the student's machine sends is checked frame by frame; a process
// that breaks a limit or the rules fails the test at work, and the next test
// gets a new one.
//
// The package must not know drivers, stores or who asks.
package pytest

import (
	"context"
	"fmt"
	"io"
	"time"

	"assay/internal/course"
	"assay/internal/judge"
	"assay/internal/sandbox"
)

// Grader grades assignments of mode pytest. It may be used from many goroutines
// at once.
type Grader struct{ machines judge.Machines }

// New makes a Grader that takes its machines from machines.
func New(machines judge.Machines) *Grader { return &Grader{machines} }

var _ course.Grader = (*Grader)(nil)

// Grade implements course.Grader. Without tests in the assignment it finds them:
// the findings are in the order of collection, and Finding.Test is the node ID.
//
// Limits of time and output hold for each test; those of memory, processes and
// disk are the assignment's, for the student's process in all tests.
func (g *Grader) Grade(ctx context.Context, a *course.Assignment, s course.Submission, observe func(string)) (course.Report, error) {
	x := &session{grader: g, assignment: a, submission: s, limits: filled(a)}
	defer x.close(ctx)
	began := time.Now()
	if !a.Clock.IsZero() {
		x.moved = a.Clock.Sub(began)
	}
	if err := x.prepare(ctx); err != nil {
		return course.Report{}, fmt.Errorf("prepare the machines of %s: %w", s.ID, err)
	}
	ready := time.Now()
	c := &carrier{limits: x.limits, observe: observe, begin: x.startStudent, found: newFindings()}
	c.grader = start(ctx, x.tests, graderSpec(a))
	if err := c.run(ctx); err != nil {
		return course.Report{}, fmt.Errorf("grade %s: %w", s.ID, err)
	}
	r := c.found.report(a, s)
	if c.forged {
		r.Suspicions = append(r.Suspicions, course.Suspicion{Kind: "forged_result", Text: "the student's process wrote into the talk between the machines by itself"})
	}
	r.Machines = x.used
	r.Phases = []course.Phase{
		{Name: "machines", Began: began.UTC(), Took: ready.Sub(began)},
		{Name: "tests", Began: ready.UTC(), Took: time.Since(ready)},
	}
	return r, nil
}

// session is one grading with its machines.
type session struct {
	grader     *Grader
	assignment *course.Assignment
	submission course.Submission
	limits     course.Limits

	// moved is by how much the clock of the assignment is ahead of ours.
	moved time.Duration

	student, tests judge.Machine
	// clean says that the student's folder is as handed in, restarted that the
	// process which waited in the machine has been used.
	clean, restarted bool
	used             []judge.MachineInfo
}

func (x *session) prepare(ctx context.Context) error {
	of, err := warm(graderSpec(x.assignment))
	if err != nil {
		return err
	}
	tests := judge.MachineRequest{Template: x.assignment.Template, Warm: of}
	student, err := x.request()
	if err != nil {
		return err
	}
	student.Besides = []judge.MachineRequest{tests}
	if x.student, err = x.grader.machines.Create(ctx, student); err != nil {
		return err
	}
	x.used = append(x.used, x.student.Describe())
	tests.Beside = x.student
	if x.tests, err = x.grader.machines.Create(ctx, tests); err != nil {
		return err
	}
	x.used = append(x.used, x.tests.Describe())
	if err := x.fillStudent(ctx); err != nil {
		return err
	}
	tree, err := graderTree(x.assignment, x.submission, x.limits, x.moved)
	if err != nil {
		return err
	}
	return fill(ctx, x.tests, tree)
}

// request is for the student's machine.
func (x *session) request() (judge.MachineRequest, error) {
	of, err := warm(studentSpec(x.assignment, x.limits))
	// Beside what the student's code may use, the machine itself needs some.
	return judge.MachineRequest{Template: x.assignment.Template, Memory: x.limits.Memory + 128<<20, Warm: of}, err
}

func (x *session) fillStudent(ctx context.Context) error {
	tree, err := studentTree(x.submission, x.moved)
	if err != nil {
		return err
	}
	x.clean = true
	return fill(ctx, x.student, tree)
}

func fill(ctx context.Context, m judge.Machine, tree io.Reader) error {
	if err := m.WriteTree(ctx, boxDir, tree); err != nil {
		return fmt.Errorf("write %s: %w", boxDir, err)
	}
	return nil
}

// warmKey names the process that waits in a machine that is handed out.
const warmKey = "first"

// warm is the state in which a machine is made: our own files are there, and the
// process has started up.
func warm(spec sandbox.ExecSpec) (*judge.Warm, error) {
	tree, err := libraryTree()
	if err != nil {
		return nil, err
	}
	return &judge.Warm{Dir: boxDir, Tree: tree, Exec: spec, Ready: []byte(awake)}, nil
}

// startStudent starts a process in the student's machine, in a new machine if
// the last one ended, with the files as they were handed in.
func (x *session) startStudent(ctx context.Context) (*process, error) {
	if _, ended := x.student.Ended(); ended {
		request, err := x.request()
		if err != nil {
			return nil, err
		}
		request.Beside = x.tests
		m, err := x.grader.machines.Create(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("make the student's machine again: %w", err)
		}
		if err := x.student.Destroy(ctx); err != nil {
			return nil, err
		}
		x.student, x.clean, x.restarted = m, false, false
	} else if !x.clean {
		x.restarted = true
		if err := x.student.Remove(ctx, studentDir); err != nil {
			return nil, fmt.Errorf("empty %s: %w", studentDir, err)
		}
		if err := x.student.MakeDir(ctx, studentDir, 0o777); err != nil {
			return nil, fmt.Errorf("make %s: %w", studentDir, err)
		}
	}
	if !x.clean {
		if err := x.fillStudent(ctx); err != nil {
			return nil, err
		}
	}
	x.clean = false
	spec := studentSpec(x.assignment, x.limits)
	if x.restarted {
		spec.Key = "" // The one that waited has been used.
	}
	return start(ctx, x.student, spec), nil
}

func (x *session) close(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	for _, m := range []judge.Machine{x.tests, x.student} {
		if m != nil {
			// The reaper takes what is left at the machine's deadline.
			_ = m.Destroy(ctx)
		}
	}
}
