package cli

import (
	"fmt"
	"strings"

	"assay/internal/judge"
)

// board shows how far submissions are that are judged side by side. RunMany
// calls its methods one at a time.
type board struct {
	p     *Progress
	jobs  []judge.Job
	total int64
	// at is where each one that is at work is; verdicts are of those that ended.
	at       map[int]string
	verdicts map[int]judge.Verdict
	// last is the one that something was heard of last.
	last int
}

func newBoard(env *Env, title string, jobs []judge.Job) *board {
	return &board{
		p: env.UI.Progress(title, int64(len(jobs))), jobs: jobs, total: int64(len(jobs)),
		at: map[int]string{}, verdicts: map[int]judge.Verdict{},
	}
}

func (b *board) observe(i int, e judge.Event) {
	switch e.Step {
	case judge.StepDone:
		b.take(i, judge.Verdict(e.Text))
		return
	case judge.StepCase:
		b.at[i] = fmt.Sprintf("case %d/%d", e.Case, e.Cases)
	case judge.StepCompiling, judge.StepRetrying:
		b.at[i] = string(e.Step)
		// It may be judged once more, on all cases.
		delete(b.verdicts, i)
		b.p.Stage(b.jobs[i].Submission.Name)
	default:
		return
	}
	b.last = i
	b.draw()
}

// take counts the outcome of one.
func (b *board) take(i int, v judge.Verdict) {
	delete(b.at, i)
	b.verdicts[i] = v
	b.draw()
}

func (b *board) draw() {
	b.p.Set(int64(len(b.verdicts)), b.total)
	var parts []string
	if where, ok := b.at[b.last]; ok {
		parts = append(parts, where)
	}
	if beside := len(b.at) - 1; beside > 0 {
		parts = append(parts, fmt.Sprintf("and %d beside", beside))
	}
	if t := b.tally(); t != "" {
		parts = append(parts, t)
	}
	b.p.Detail(strings.Join(parts, ", "))
}

// tallyOrder is the order of verdicts in a tally.
var tallyOrder = []judge.Verdict{
	judge.Accepted, judge.WrongAnswer, judge.PresentationError, judge.TimeLimitExceeded, judge.MemoryLimitExceeded,
	judge.OutputLimitExceeded, judge.RunTimeError, judge.CompileError, judge.Skipped, judge.JudgeError,
}

// tally counts the verdicts ("AC 3, WA 1").
func (b *board) tally() string {
	count := map[judge.Verdict]int{}
	for _, v := range b.verdicts {
		count[v]++
	}
	var parts []string
	for _, v := range tallyOrder {
		if count[v] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", v, count[v]))
		}
	}
	return strings.Join(parts, ", ")
}

func (b *board) finish(outcome string) { b.p.Finish(outcome) }
