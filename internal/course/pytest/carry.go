package pytest

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"syscall"
	"time"

	"assay/internal/course"
	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

// carrier stands between the two processes: it passes on every frame, knows who
// has the turn, counts the time that the student's process takes, and decides
// why it ended. It is used by one goroutine.
type carrier struct {
	limits  course.Limits
	observe func(string)
	// begin starts a new process of the student.
	begin func(ctx context.Context) (*process, error)

	grader  *process
	student *process // nil: none is running
	// ready says that the student's process has begun; epoch is which one it is.
	ready bool
	epoch int
	// asked are the questions under way, innermost last; theirs is true for one
	// of the student.
	asked []question
	// clock ends the student's turn, watch the whole test.
	clock, watch *time.Timer
	turnBegan    time.Time
	watched      int

	found  findings
	forged bool
}

// question is an ask that has no answer yet.
type question struct {
	theirs bool
	op     string
	module string
}

// run carries until the tests are done. An error is ours.
func (c *carrier) run(ctx context.Context) error {
	c.clock, c.watch = stoppedTimer(), time.NewTimer(startTime+c.limits.Wall)
	defer func() {
		c.clock.Stop()
		c.watch.Stop()
		if c.student != nil {
			c.student.kill()
		}
		c.grader.kill()
	}()
	// Both processes take their time to begin.
	if err := c.startStudent(ctx, 0); err != nil {
		return err
	}
	for {
		var lines, texts chan []byte
		var ended chan exit
		if c.student != nil {
			lines, texts, ended = c.student.lines, c.student.texts, c.student.ended
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case line := <-c.grader.lines:
			done, err := c.fromGrader(ctx, line)
			if done || err != nil {
				return err
			}
		case end := <-c.grader.ended:
			return c.graderEnded(end)
		case line := <-lines:
			c.fromStudent(line)
		case end := <-ended:
			c.student = nil
			if err := c.studentEnded(end); err != nil {
				return err
			}
		case text := <-texts:
			c.printed(printed{text: string(text), isStderr: true})
		case text := <-c.grader.texts:
			c.found.log.add(string(text))
		case <-c.clock.C:
			if !c.ready {
				return fault.Errorf(fault.Unavailable, "the student's process did not begin in %v", startTime)
			}
			c.end(course.TimeLimit, "ran longer than its time limit")
		case <-c.watch.C:
			if !c.overdue() {
				return nil
			}
		}
	}
}

// fromGrader takes a frame of the tests' process. That process is the
// teacher's: what it should not send is our failure.
func (c *carrier) fromGrader(ctx context.Context, line []byte) (done bool, err error) {
	var f graderFrame
	if line == nil {
		return false, fault.Errorf(fault.Invalid, "a test hands over a value of more than %d MiB", maxFrame>>20)
	}
	if err := json.Unmarshal(line, &f); err != nil {
		return false, fault.Errorf(fault.Internal, "the tests' process sent what is no frame: %w", err)
	}
	switch {
	case f.Kind == kindReport:
		return c.report(f), nil
	case f.Kind == kindAsk:
		if c.student == nil && f.Epoch > c.epoch {
			if err := c.startStudent(ctx, f.Epoch); err != nil {
				return false, err
			}
		}
		c.asked = append(c.asked, question{op: f.Op, module: f.Name})
	case f.Kind == kindAnswer && len(c.asked) > 0 && c.asked[len(c.asked)-1].theirs:
		c.asked = c.asked[:len(c.asked)-1]
	case f.Kind == kindAnswer && c.student == nil:
		// To a question of a process that has ended meanwhile.
	default:
		return false, fault.Errorf(fault.Internal, "the tests' process sent a frame of kind %q out of turn", f.Kind)
	}
	if c.student == nil {
		c.tellDead(f.Kind == kindAsk && len(c.asked) == 1 && !c.found.diedHere())
		return false, nil
	}
	c.student.in.line(line)
	c.startClock()
	return false, nil
}

func (c *carrier) startStudent(ctx context.Context, epoch int) error {
	p, err := c.begin(ctx)
	if err != nil {
		return err
	}
	c.student, c.epoch, c.ready, c.asked = p, epoch, false, nil
	return nil
}

// startClock begins the student's turn.
func (c *carrier) startClock() {
	c.turnBegan = time.Now()
	if !c.ready {
		c.clock.Reset(startTime)
		return
	}
	c.clock.Reset(max(0, c.limits.Wall-c.found.used()))
}

// stopClock ends it.
func (c *carrier) stopClock() {
	if !c.turnBegan.IsZero() {
		c.clock.Stop()
		if c.ready {
			c.found.use(time.Since(c.turnBegan))
		}
		c.turnBegan = time.Time{}
	}
}

// theirTurn reports whether the student's process may send.
func (c *carrier) theirTurn() bool { return !c.turnBegan.IsZero() }

// fromStudent takes a frame of the student's process.
func (c *carrier) fromStudent(line []byte) {
	if line == nil {
		c.end(course.OutputLimit, fmt.Sprintf("gave a value of more than %d MiB", maxFrame>>20))
		return
	}
	f, err := parseStudent(line)
	if err == nil && ((f.kind == kindReady) == c.ready || c.ready && !c.theirTurn()) {
		err = fault.Errorf(fault.Invalid, "a frame of kind %q out of turn", f.kind)
	}
	if err != nil {
		c.forge(err)
		return
	}
	if c.found.carried(len(line)) > maxCarried {
		c.end(course.OutputLimit, fmt.Sprintf("gave values of more than %d MiB in one test", maxCarried>>20))
		return
	}
	for _, p := range f.out {
		if !c.printed(p) {
			return
		}
	}
	switch f.kind {
	case kindReady:
		c.ready = true
		if c.theirTurn() {
			c.startClock()
		}
		return
	case kindOut:
		c.grader.in.line(line)
		return
	case kindAsk:
		c.asked = append(c.asked, question{theirs: true})
	case kindAnswer:
		last := len(c.asked) - 1
		if last < 0 || c.asked[last].theirs {
			c.forge(fault.Errorf(fault.Invalid, "an answer to no question"))
			return
		}
		if f.failed && c.asked[last].op == "import" {
			c.found.notImported(c.asked[last].module, f.text)
		}
		c.asked = c.asked[:last]
	}
	c.stopClock()
	c.grader.in.line(line)
}

// printed takes what the student's code printed; false: it was too much, and
// the process is no more.
func (c *carrier) printed(p printed) bool {
	if c.found.print(p) <= c.limits.Output {
		return true
	}
	if c.student != nil {
		c.end(course.OutputLimit, "printed more than its output limit")
	}
	return false
}

// forge ends a student's process that does not keep to the rules. Our agent
// does, so somebody wrote frames by hand.
func (c *carrier) forge(err error) {
	c.forged = true
	c.end(course.InvalidResult, "broke into the talk between the machines: "+err.Error())
}

// end kills the student's process and lets the tests know why.
func (c *carrier) end(cause course.Cause, text string) {
	if c.student != nil {
		c.student.kill()
		c.student = nil
	}
	c.dead(cause, text)
}

// dead notes why the student's process is no more.
func (c *carrier) dead(cause course.Cause, text string) {
	theirs := c.theirTurn()
	c.stopClock()
	c.asked = nil
	c.found.die(cause, text)
	if theirs {
		c.tellDead(false)
	}
}

// tellDead refuses what the tests ask or answer. With anew they may ask again,
// of a new process: this one ended in an earlier test, and they did not know.
func (c *carrier) tellDead(anew bool) {
	c.asked = nil
	if !anew {
		c.found.blame()
	}
	frame, err := json.Marshal(map[string]any{"k": kindDead, "text": c.found.death(), "anew": anew})
	if err != nil {
		panic(err) // strings always marshal
	}
	c.grader.in.line(frame)
}

// studentEnded decides from how a process ended why it did.
func (c *carrier) studentEnded(end exit) error {
	if end.err != nil {
		return fmt.Errorf("run the student's process: %w", end.err)
	}
	e := end.res.Exit
	if !c.ready && e.Cause == guest.Exited {
		return fault.Errorf(fault.Unavailable, "the student's process ended with code %d before any of the student's code ran: %s", e.Code, c.found.tail())
	}
	switch e.Cause {
	case guest.CPULimit, guest.WallLimit:
		c.dead(course.TimeLimit, "ran longer than its time limit")
	case guest.MemoryLimit:
		c.dead(course.MemoryLimit, "used more memory than its limit")
	case guest.OutputLimit:
		c.dead(course.OutputLimit, "printed more than its output limit")
	case guest.ProcessLimit:
		c.dead(course.ProcessLimit, "started more processes than its limit")
	case guest.DiskLimit:
		c.dead(course.DiskLimit, "wrote more files than its disk limit")
	case guest.Signaled:
		if e.Signal == int(syscall.SIGPROF) {
			// The timer that our agent sets for each test.
			c.dead(course.TimeLimit, "used more processor time than its limit")
			break
		}
		c.dead(course.Crashed, fmt.Sprintf("was ended by signal %d", e.Signal))
	case guest.Exited:
		c.dead(course.EndedTest, fmt.Sprintf("ended the process of the test with exit code %d", e.Code))
	default:
		return fault.Errorf(fault.Unavailable, "the student's machine was lost")
	}
	return nil
}

// overdue acts on a test that takes far too long, whoever is at work; false:
// the tests' process cannot be brought to go on.
func (c *carrier) overdue() bool {
	c.watched++
	if c.watched > 1 {
		c.found.stuck()
		return false
	}
	c.watch.Reset(testGrace)
	c.end(course.TimeLimit, "the test ran longer than its time limit")
	return true
}

// report takes what the tests' process says of the tests; true: it is done.
func (c *carrier) report(f graderFrame) bool {
	c.watched = 0
	c.watch.Reset(c.limits.Wall + testGrace)
	switch f.What {
	case "start":
		c.found.start(f.ID)
		if c.observe != nil {
			c.observe(f.ID)
		}
	case "collected":
		c.found.collected(f.IDs)
	case "uncollected":
		c.found.uncollected(f.ID, f.Text)
	case "phase":
		c.found.phase(f)
	case "finish":
		c.found.finish()
	case "done":
		return true
	}
	return false
}

// graderEnded is for a tests' process that ended without saying that it is done.
func (c *carrier) graderEnded(end exit) error {
	if end.err != nil {
		return fmt.Errorf("run the tests' process: %w", end.err)
	}
	switch end.res.Exit.Cause {
	case guest.MemoryLimit, guest.DiskLimit:
		// What the student's code gave may have been too much for the test; it
		// would be so again.
		c.found.stuck()
		return nil
	}
	e := end.res.Exit
	return fault.Errorf(fault.Unavailable, "the tests' process ended (%s, code %d, signal %d) before the tests did: %s", e.Cause, e.Code, e.Signal, c.found.tail()).
		WithHint("a test must not end its process")
}

// specs of the two processes.

func studentSpec(a *course.Assignment, l course.Limits) sandbox.ExecSpec {
	return sandbox.ExecSpec{
		Key: warmKey, Argv: []string{"python3", "-s", "-P", "-m", "_assay.agent", settings}, Dir: studentDir, User: "user", Env: environment(a),
		Isolated: true, WritableDirs: []string{studentDir}, Limits: studentLimits(l),
	}
}

func graderSpec(a *course.Assignment) sandbox.ExecSpec {
	return sandbox.ExecSpec{
		Key: warmKey, Argv: []string{"python3", "-s", "-P", "-m", "_assay.grade", settings}, Dir: testsDir, User: "user", Env: environment(a),
		Isolated: true, WritableDirs: []string{testsDir}, Limits: sandbox.Limits{Output: machineOutput},
	}
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// moduleFile reports whether a file of the submission is the module.
func moduleFile(files []course.File, module string) bool {
	name := strings.ReplaceAll(module, ".", "/")
	for _, f := range files {
		if f.Name == name+".py" || f.Name == name+"/__init__.py" || path.Base(f.Name) == name+".py" {
			return true
		}
	}
	return false
}
