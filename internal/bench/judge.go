package bench

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/judge/checker"
	"assay/internal/sandbox"
)

// JudgeOptions say how much to measure.
type JudgeOptions struct {
	// N is how often each thing is measured, Rounds how often a rate is, and
	// Cases how many cases a submission has whose rate is measured; at least 1.
	N, Rounds, Cases int
	// AtOnce is how many submissions are judged side by side, at least 1.
	AtOnce int
	// Peer is the address of a go-judge to compare rates with, or empty.
	Peer string
	// Pooled is a judge whose machines come from a pool, and Full waits until the
	// pool is.
	Pooled *judge.Judge
	Full   func(context.Context) error
	// Stage is told what is measured now, and may be nil.
	Stage func(name string)
}

// JudgeLanguage is the ID of the language of what Judge judges.
const JudgeLanguage = "cpp"

//go:embed programs/hello.cc
var helloSource []byte

//go:embed programs/sum.cc
var sumSource []byte

//go:embed programs/mix.cc
var mixSource []byte

// Judge measures the way from a submission to its verdict, compiling, what a
// case costs beside its program's own run, and how many cases are judged in a
// second with all processors busy; with a peer also how many that one runs, turn
// by turn. It needs g++ on the host to compare with (Unsupported without), and
// fails with Unavailable when the peer does not do what it is asked to.
func Judge(ctx context.Context, j *judge.Judge, o JudgeOptions) (_ Report, err error) {
	dir, err := os.MkdirTemp("", "assay-bench-")
	if err != nil {
		return Report{}, err
	}
	defer os.RemoveAll(dir)
	b := &judgeBench{ctx: ctx, judge: j, o: o, dir: dir}
	return measureAll(ctx, o.Stage, []step{
		{"submit to verdict", b.hello},
		{"compile", b.compile},
		{"build the programs to compare", b.build},
		{"cost of a case", b.overhead},
		{"cases in a second", b.rates},
	})
}

type judgeBench struct {
	ctx   context.Context // of one run of the benchmark, which is one call
	judge *judge.Judge
	o     JudgeOptions
	dir   string
	// native is mix.cc as the host's compiler made it, and loads its inputs.
	native string
	loads  []load
}

// load is an input of mix.cc and what it has to print.
type load struct {
	name          string
	input, answer []byte
	// least is what the peer's rate is multiplied with to be the target.
	least float64
}

// problemOf is a problem whose n cases are all the same.
func problemOf(name string, input, answer []byte, n int) judge.Problem {
	p := judge.Problem{
		ShortName: name, Name: name, Checker: checker.Default{},
		// Machines as the template has them: the pool holds such ones.
		Limits: judge.ProblemLimits{CPU: 2 * time.Second, Memory: 256 << 20, Output: 1 << 20, CompileMemory: 512 << 20},
	}
	in, ans := judge.BytesBlob("case.in", input), judge.BytesBlob("case.ans", answer)
	for i := range n {
		p.Cases = append(p.Cases, judge.Case{Name: fmt.Sprintf("secret/%d", i+1), Input: in, Answer: ans})
	}
	return p
}

func sourceOf(name string, source []byte) judge.Submission {
	return judge.Submission{Name: name, Language: JudgeLanguage, Files: []judge.SourceFile{{Name: "main.cpp", Data: source}}}
}

// accepted is an error unless our own program was accepted: else the figures
// would be of something else.
func accepted(r judge.Run) error {
	if r.Verdict == judge.Accepted {
		return nil
	}
	return fault.Errorf(fault.Internal, "%s is judged %s: %s %s", r.Submission.Name, r.Verdict, r.Reason, r.Compile.Output)
}

// run judges a submission that has to be accepted.
func (b *judgeBench) run(p judge.Problem, s judge.Submission, observe judge.Observer) (judge.Run, error) {
	r, err := b.judge.Run(b.ctx, p, s, observe)
	if err == nil {
		err = accepted(r)
	}
	return r, err
}

// hello is from the call to the verdict of the only case. The compiler's own
// run, as the machine saw it, is not ours to speed up and is taken off.
func (b *judgeBench) hello() ([]Row, error) {
	var rows []Row
	for _, way := range []struct {
		name string
		from sandbox.BootMode
		on   *judge.Judge
		full func(context.Context) error
	}{
		{"machine from pool", sandbox.BootPool, b.o.Pooled, b.o.Full},
		{"no pool", sandbox.BootSnapshot, b.judge, nil},
	} {
		var whole, ends []float64
		values, err := sample(b.ctx, b.o.N, func() (time.Duration, error) {
			if way.full != nil {
				if err := way.full(b.ctx); err != nil {
					return 0, err
				}
				time.Sleep(poolRest)
			}
			r, verdict, all, err := b.toVerdict(way.on)
			if err == nil && r.Machine.BootMode != way.from {
				err = fault.Errorf(fault.Internal, "the machine came from %s, not from %s", r.Machine.BootMode, way.from)
			}
			whole = append(whole, float64(verdict.Nanoseconds())/1e3)
			ends = append(ends, float64((all-verdict).Nanoseconds())/1e3)
			return verdict - r.Compile.Usage.Wall, err
		})
		if err != nil {
			return nil, err
		}
		rows = append(rows,
			row("hello world in C++, submit to verdict without the compiler, "+way.name, "us", values, 150e3),
			row("  with the compiler", "us", whole, 0),
			row("  from the verdict until the machine is gone", "us", ends, 0))
	}
	return rows, nil
}

// toVerdict judges a hello world: how long until its verdict, and until all was over.
func (b *judgeBench) toVerdict(on *judge.Judge) (r judge.Run, verdict, all time.Duration, err error) {
	t0 := time.Now()
	r, err = on.Run(b.ctx, problemOf("hello", nil, []byte("hello\n"), 1), sourceOf("hello.cc", helloSource), func(e judge.Event) {
		if e.Step == judge.StepCaseDone {
			verdict = time.Since(t0)
		}
	})
	all = time.Since(t0)
	if err == nil {
		err = accepted(r)
	}
	return r, verdict, all, err
}

// compile compares turn by turn.
func (b *judgeBench) compile() ([]Row, error) {
	p, s := problemOf("sum", []byte("1 2\n"), []byte("3\n"), 1), sourceOf("sum.cc", sumSource)
	var inside, native, ratios []float64
	for range b.o.N {
		r, err := b.run(p, s, nil)
		if err != nil {
			return nil, err
		}
		_, d, err := b.hostCompile("sum", sumSource, "-O2")
		if err != nil {
			return nil, err
		}
		in, out := float64(r.Compile.Usage.Wall.Nanoseconds())/1e3, float64(d.Nanoseconds())/1e3
		inside, native, ratios = append(inside, in), append(native, out), append(ratios, ratio(in, out))
	}
	return []Row{
		row("compile A+B with bits/stdc++.h -O2 in the machine", "us", inside, 0),
		row("the same by the host's plain g++", "us", native, 0),
		row("machine / host", "x", ratios, 0.7),
	}, nil
}

// hostCompile compiles a program on the host.
func (b *judgeBench) hostCompile(name string, source []byte, flags ...string) (program string, took time.Duration, err error) {
	src, bin := filepath.Join(b.dir, name+".cc"), filepath.Join(b.dir, name)
	if err := os.WriteFile(src, source, 0o600); err != nil {
		return "", 0, err
	}
	t0 := time.Now()
	out, err := exec.CommandContext(b.ctx, "g++", append(flags, "-o", bin, src)...).CombinedOutput()
	took = time.Since(t0)
	if err != nil {
		return "", 0, fault.Errorf(fault.Unsupported, "compile %s on the host: %w: %s", name, err, out).WithHint("apt-get install g++")
	}
	return bin, took, nil
}

// build makes the program for native runs and finds how many rounds it computes
// in the times that are asked for.
func (b *judgeBench) build() ([]Row, error) {
	var err error
	if b.native, _, err = b.hostCompile("mix", mixSource, "-O2", "-std=gnu++20", "-static"); err != nil {
		return nil, err
	}
	const probe = 20_000_000
	best := func(rounds int) (time.Duration, error) {
		var least time.Duration
		for range 5 {
			_, d, err := b.runNative(rounding(rounds))
			if err != nil {
				return 0, err
			}
			if least == 0 || d < least {
				least = d
			}
		}
		return least, nil
	}
	base, err := best(1)
	if err != nil {
		return nil, err
	}
	long, err := best(probe)
	if err != nil {
		return nil, err
	}
	for _, l := range []struct {
		name  string
		time  time.Duration
		least float64
	}{{"1 ms", time.Millisecond, 0.5}, {"100 ms", 100 * time.Millisecond, 1}} {
		one := load{name: l.name, input: rounding(roundsFor(l.time, base, long, probe)), least: l.least}
		if one.answer, _, err = b.runNative(one.input); err != nil {
			return nil, err
		}
		b.loads = append(b.loads, one)
	}
	return nil, nil
}

func rounding(rounds int) []byte { return fmt.Appendf(nil, "%d\n", rounds) }

// roundsFor is how many rounds take a time, when 1 takes base and probe take
// long. A program that takes longer than that to start computes only once.
func roundsFor(want, base, long time.Duration, probe int) int {
	each := max(float64(long-base), 1) / float64(probe)
	return max(int(float64(want-base)/each), 1)
}

func (b *judgeBench) runNative(input []byte) (output []byte, took time.Duration, err error) {
	cmd := exec.CommandContext(b.ctx, b.native)
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout = bytes.NewReader(input), &out
	t0 := time.Now()
	err = cmd.Run()
	took = time.Since(t0)
	if err != nil {
		err = fault.Errorf(fault.Internal, "run the program natively: %w", err)
	}
	return out.Bytes(), took, err
}

// overhead is how much longer a case takes (its input, the run, the verdict)
// than a native run of the same program, turn by turn.
func (b *judgeBench) overhead() ([]Row, error) {
	var rows []Row
	for _, l := range b.loads {
		var begin time.Time
		var costs, took []float64
		var nativeErr error
		_, err := b.run(problemOf("mix", l.input, l.answer, b.o.N), sourceOf("mix.cc", mixSource), func(e judge.Event) {
			switch e.Step {
			case judge.StepCase:
				begin = time.Now()
			case judge.StepCaseDone:
				whole := time.Since(begin)
				_, native, err := b.runNative(l.input)
				if err != nil {
					nativeErr = err
					return
				}
				took = append(took, float64(whole.Nanoseconds())/1e3)
				costs = append(costs, float64((whole-native).Nanoseconds())/1e3)
			}
		})
		if err == nil {
			err = nativeErr
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows,
			row("a case of a "+l.name+" program", "us", took, 0),
			row("  of it not in a native run", "us", costs, 15e3))
	}
	return rows, nil
}
