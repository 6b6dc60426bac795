package call

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"syscall"
	"time"

	"assay/internal/course"
	"assay/internal/course/pytest"
	"assay/internal/course/tagged"
	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/sandbox"
)

//go:embed caller.py
var pythonCaller []byte

const (
	// maxResult is how long the result of a test may be, in bytes.
	maxResult = 4 << 20
	// grace is how much longer than the caller the host waits: the caller ends a
	// late test itself, and costs no new process then.
	grace = 2 * time.Second
	// startTime is how long the caller may take to start.
	startTime = 60 * time.Second
)

// server is the runner for Python: one process loads the module and forks for
// each test. Where it dies, the test that it was in has the cause, and another is
// started for the next.
type server struct {
	x    *session
	live *process
	// warm says that the machine has a process that waits.
	warm bool
}

// process is the caller at work.
type process struct {
	in     *outbox
	out    *inbox
	stderr *kept
	stop   context.CancelFunc
	// used says that a test was run here.
	used bool
	// done has the end of the exec, once.
	done chan ending
}

type ending struct {
	res sandbox.Result
	err error
}

// warmKey names the process that has started up before a machine is handed out.
const warmKey = "caller"

// ready is what the caller writes when it has started up.
var ready = frame([]byte(`{"awake": true}`))

// spec runs the caller. One process serves all tests: times are counted for each
// by the caller, and by the host with a clock.
func (s *server) spec() sandbox.ExecSpec {
	spec := s.x.spec([]string{"python3", "-s", "-B", toolDir + "/caller.py"})
	spec.Limits.CPU, spec.Limits.Wall, spec.Limits.Output = 0, 0, 0
	return spec
}

// warmth is the state in which the caller waits for what to load; nil where it
// cannot begin without the student's files.
func (s *server) warmth() *judge.Warm {
	spec := s.spec()
	if spec.Argv[0] != "python3" {
		return nil
	}
	spec.Key, s.warm = warmKey, true
	return &judge.Warm{Dir: boxDir, Tree: archive(nil, s.tools()), Exec: spec, Ready: ready}
}

func (s *server) tools() []course.File {
	return []course.File{{Name: "caller.py", Data: pythonCaller}, {Name: "assay_tagged.py", Data: tagged.Python}, {Name: "assay_clock.py", Data: pytest.Clock()}}
}

// setup is the first request.
type setup struct {
	Sources string   `json:"sources"`
	Module  string   `json:"module"`
	CPU     int      `json:"cpu_seconds"`
	Wall    float64  `json:"wall_seconds"`
	Output  int64    `json:"output"`
	Result  int      `json:"result"`
	Folders []string `json:"folders"`
	Seed    int64    `json:"seed"`
	// Moved is by how many seconds the clock is ahead of the real one.
	Moved float64 `json:"clock_moved"`
}

func (s *server) prepare(ctx context.Context) (outcome, error) {
	l := s.x.limits()
	spec := s.spec()
	if s.warm {
		// The first process has started up before: this takes it over.
		s.warm = false
		spec.Key = warmKey
	}
	ctx2, stop := context.WithCancel(ctx)
	p := &process{in: newOutbox(), out: newInbox(), stderr: &kept{max: int(l.Output)}, stop: stop, done: make(chan ending, 1)}
	s.live = p
	go func() {
		res, err := judge.Exec(ctx2, s.x.machine, spec, p.in, p.out, p.stderr)
		p.done <- ending{res, err}
	}()
	if err := p.send(setup{
		Sources: srcDir, Module: pythonModule(s.x.entry), CPU: int(math.Ceil(l.CPU.Seconds())), Wall: l.Wall.Seconds(),
		Output: l.Output, Result: maxResult, Folders: append([]string{"/tmp", "/var/tmp", "/dev/shm"}, freshDirs...), Seed: s.x.assignment.Seed, Moved: s.moved(),
	}); err != nil {
		return outcome{}, err
	}
	data, end, err := s.await(ctx, startTime)
	if err == nil && end.Cause == course.NoCause && !bytes.Equal(frame(data), ready) {
		err = fault.Errorf(fault.Internal, "the caller begins with %q", clip(string(data)))
	}
	if end.Cause != course.NoCause && err == nil {
		err = fault.Errorf(fault.Unavailable, "the caller did not start: %s", end.How)
	}
	if err != nil {
		s.close()
		return outcome{}, err
	}
	data, end, err = s.await(ctx, l.Wall+grace)
	if err != nil || end.Cause != course.NoCause {
		end.How = strings.TrimSpace("while the module was loaded: " + end.How + "\n" + string(p.stderr.output().Data))
		return end, err
	}
	var g greeting
	switch err := strictly(data, &g); {
	case err != nil:
		s.close()
		return outcome{Cause: course.InvalidResult, How: "while the module was loaded: " + err.Error()}, nil
	case g.Failed != nil:
		s.close()
		end := g.outcome()
		if g.Failed.Class == s.x.dialect.exits {
			end.Cause = course.EndedTest
		}
		return end, nil
	case p.stderr.output().Size > l.Output:
		s.close()
		return flooded(l.Output), nil
	}
	return outcome{}, nil
}

// moved is how far the assignment's clock is ahead of ours, in seconds.
func (s *server) moved() float64 {
	if s.x.assignment.Clock.IsZero() {
		return 0
	}
	return time.Until(s.x.assignment.Clock).Seconds()
}

func (p *process) send(message any) error {
	data, err := json.Marshal(message)
	if err != nil {
		return fault.Errorf(fault.Internal, "encode a request: %w", err)
	}
	p.in.send(data)
	return nil
}

func (s *server) run(ctx context.Context, i int) (outcome, error) {
	t := s.x.assignment.Tests[i].Call
	r := newRequest(i+1, t)
	r.Stdin = t.Stdin
	for {
		if s.live == nil {
			if end, err := s.prepare(ctx); err != nil || end.Cause != course.NoCause {
				return end, err
			}
		}
		used := s.live.used
		s.live.used = true
		if err := s.live.send(r); err != nil {
			return outcome{}, err
		}
		data, end, err := s.await(ctx, s.x.limits().Wall+grace)
		if err != nil {
			return end, err
		}
		if end.Cause != course.NoCause {
			if used && end.Cause != course.TimeLimit && end.Cause != course.InvalidResult {
				// It may have died of an earlier test: this one gets a process where
				// nothing was before.
				continue
			}
			return end, nil
		}
		var a answer
		if err := strictly(data, &a); err != nil || a.ID != r.ID {
			s.close()
			return outcome{Cause: course.InvalidResult, How: "an answer of another form"}, nil
		}
		return a.outcome(s.x.limits()), nil
	}
}

// await waits for an answer. Where none comes, the process is gone afterwards,
// and the outcome says why.
func (s *server) await(ctx context.Context, wait time.Duration) ([]byte, outcome, error) {
	p := s.live
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var end ending
	timedOut := false
	select {
	case data, ok := <-p.out.answers:
		if ok {
			return data, outcome{}, nil
		}
		s.close()
		return nil, outcome{Cause: course.InvalidResult, How: "the program wrote something else than an answer"}, nil
	case <-timer.C:
		timedOut = true
		p.stop()
		end = <-p.done
	case end = <-p.done:
	}
	s.live = nil
	p.in.end()
	p.stop()
	if ctx.Err() != nil {
		return nil, outcome{}, context.Cause(ctx)
	}
	select {
	case data, ok := <-p.out.answers:
		// It answered and then died: the answer counts, the next test has another.
		if ok && !timedOut {
			return data, outcome{}, nil
		}
	default:
	}
	if timedOut {
		return nil, late(s.x.limits().Wall), nil
	}
	if end.err != nil {
		return nil, outcome{}, fmt.Errorf("run the caller: %w", end.err)
	}
	o, err := s.x.ended(end.res.Exit, end.res.Usage, output{})
	o.Usage = end.res.Usage
	return nil, o, err
}

// close ends the process, if there is one, and waits for its end.
func (s *server) close() {
	if s.live == nil {
		return
	}
	s.live.in.end()
	s.live.stop()
	<-s.live.done
	s.live = nil
}

// outcome is what an answer comes to.
func (a answer) outcome(l sandbox.Limits) outcome {
	var o outcome
	cpu := time.Duration(a.CPU) * time.Microsecond
	switch {
	case a.Stdout.Size > l.Output || a.Stderr.Size > l.Output:
		o = flooded(l.Output)
	case a.Ended == "wall":
		o = late(l.Wall)
	case a.Ended == "too_large":
		o = outcome{Cause: course.OutputLimit, How: fmt.Sprintf("the result has more than %d MiB", maxResult>>20)}
	case a.Ended != "" || a.Signal == int(syscall.SIGXCPU) || cpu > l.CPU:
		o = outcome{Cause: course.TimeLimit, How: "more than " + l.CPU.String() + " of processor time"}
	case a.Signal == int(syscall.SIGXFSZ):
		o = outcome{Cause: course.DiskLimit, How: fmt.Sprintf("more than %d MiB written to a file", l.FileSize>>20)}
	case a.Signal != 0:
		o = signaled(a.Signal, a.Memory)
	case a.Code != 0 || a.Results == "":
		o = exited(a.Code)
	default:
		o = claimed([]byte(a.Results))
	}
	o.Stdout, o.Stderr = a.Stdout, a.Stderr
	o.Usage = sandbox.Usage{
		CPUUser: cpu, Counted: cpu, MemoryPeak: a.Memory, StdoutBytes: a.Stdout.Size, StderrBytes: a.Stderr.Size,
	}
	return o
}
