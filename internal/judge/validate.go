package judge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

// Exit codes of the protocols. Kattis: any other is a fault of the program.
// Testlib: the default build; 3 and all others are faults.
const (
	kattisAccept = 42
	kattisReject = 43

	testlibOK      = 0
	testlibWrong   = 1
	testlibForm    = 2
	testlibDirt    = 4
	testlibPoints  = 7
	testlibTooLong = 8
)

// The files of a feedback directory that mean something to us.
const (
	feedbackJudge      = feedbackDir + "/judgemessage.txt"
	feedbackTeam       = feedbackDir + "/teammessage.txt"
	feedbackScore      = feedbackDir + "/score.txt"
	feedbackMultiplier = feedbackDir + "/score_multiplier.txt"
)

var feedbackFiles = []string{feedbackJudge, feedbackTeam, feedbackScore, feedbackMultiplier}

// maxMessage is how much of a checker's message is kept, in bytes.
const maxMessage = 16 << 10

// check has the problem's checkers decide about an output of case i. input is
// that of a later pass, or nil for the case's own: then the feedback directory
// is emptied. next is the input of the pass that the checker wants, or nil.
func (j *jury) check(ctx context.Context, i int, output, input *spool) (word Check, next *spool, err error) {
	word = Check{Outcome: CheckAccepted, NoOutput: output.blank()}
	for _, p := range j.x.problem.Checkers {
		c, err := j.ready(ctx, p)
		if err != nil {
			return Check{}, nil, err
		}
		if err := j.bring(ctx, c.machine, i, input); err != nil {
			return Check{}, nil, err
		}
		said, err := j.checkWith(ctx, c, i, output)
		if err != nil {
			return Check{}, nil, err
		}
		word.join(said)
		if next, err = j.nextPass(ctx, c, said); err != nil || next != nil {
			return word, next, err
		}
	}
	return word, nil, nil
}

// join adds another checker's word: all must accept, and the first that does
// not has the last word.
func (c *Check) join(next Check) {
	if c.Outcome == CheckAccepted {
		c.Outcome = next.Outcome
	}
	c.Message = joinReason(c.Message, next.Message)
	c.TeamMessage = joinReason(c.TeamMessage, next.TeamMessage)
	if next.Score != nil {
		c.Score = next.Score
	}
	if next.Multiplier != nil {
		c.Multiplier = next.Multiplier
	}
}

func (j *jury) checkWith(ctx context.Context, c callable, i int, output *spool) (Check, error) {
	if err := c.machine.WriteFile(ctx, juryOutput, output.reader(), 0o444); err != nil {
		return Check{}, fmt.Errorf("write the output for the checker: %w", err)
	}
	args := j.x.problem.Cases[i].CheckerArgs
	var spec sandbox.ExecSpec
	if c.program.Protocol == Testlib {
		spec = c.spec(append([]string{juryInput, juryOutput, juryAnswer}, args...))
	} else {
		spec = c.spec(append([]string{juryInput, juryAnswer, feedbackDir + "/"}, args...))
		spec.StdinFile = juryOutput
	}
	said := &head{max: maxMessage}
	res, err := execIn(ctx, c.machine, spec, &head{}, said)
	if err != nil {
		return Check{}, fmt.Errorf("run the checker: %w", err)
	}
	return c.word(res, said)
}

// word reads what a checker or interactor said.
func (c callable) word(res sandbox.Result, said *head) (Check, error) {
	text, _ := said.text()
	if res.Exit.Cause != guest.Exited {
		return Check{}, juryFaultf("%s: %s", c.program.Name, exitText(res.Exit))
	}
	if c.program.Protocol == Testlib {
		return c.testlibWord(res.Exit.Code, text)
	}
	return c.kattisWord(res, text)
}

func (c callable) kattisWord(res sandbox.Result, stderr string) (Check, error) {
	var word Check
	switch res.Exit.Code {
	case kattisAccept:
		word.Outcome = CheckAccepted
	case kattisReject:
		word.Outcome = CheckRejected
	default:
		return Check{}, juryFaultf("%s: exit code %d, expected %d or %d: %s", c.program.Name, res.Exit.Code, kattisAccept, kattisReject, clipText(strings.TrimSpace(stderr), 300))
	}
	for _, f := range res.Files {
		text := clipText(strings.TrimSpace(string(f.Data)), maxMessage)
		switch {
		case f.Refused != "":
		case f.Path == feedbackJudge:
			word.Message = text
		case f.Path == feedbackTeam:
			word.TeamMessage = text
		case f.Path == feedbackScore, f.Path == feedbackMultiplier:
			score, err := ParseScore(text)
			if err != nil {
				return Check{}, juryFaultf("%s wrote a score that cannot be read: %v", c.program.Name, err)
			}
			if f.Path == feedbackScore {
				word.Score = &score
			} else {
				word.Multiplier = &score
			}
		}
	}
	if word.Message == "" {
		word.Message = clipText(strings.TrimSpace(stderr), maxMessage)
	}
	return word, nil
}

func (c callable) testlibWord(code int, stderr string) (Check, error) {
	word := Check{Message: clipText(strings.TrimSpace(stderr), maxMessage)}
	switch code {
	case testlibOK:
		word.Outcome = CheckAccepted
	case testlibWrong, testlibDirt:
		word.Outcome = CheckRejected
	case testlibForm, testlibTooLong:
		word.Outcome = CheckPresentation
	case testlibPoints:
		score, err := testlibScore(stderr)
		if err != nil {
			return Check{}, juryFaultf("%s: %v", c.program.Name, err)
		}
		word.Outcome, word.Score = CheckAccepted, &score
	default:
		return Check{}, juryFaultf("%s: exit code %d: %s", c.program.Name, code, clipText(word.Message, 300))
	}
	return word, nil
}

// testlibScore finds "points X" in what a testlib checker wrote; other lines may
// stand before it.
func testlibScore(stderr string) (Score, error) {
	for line := range strings.Lines(stderr) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "points "); ok {
			if words := strings.Fields(rest); len(words) > 0 {
				return ParseScore(words[0])
			}
		}
	}
	return Score{}, fault.Errorf(fault.Invalid, "exit code %d without a line \"points N\"", testlibPoints)
}

// nextPass gives the input of the next pass that a checker or interactor wrote,
// or nil for none, and removes it. To want one and not accept, or to write more
// than maxPassInput, is the checker's fault.
func (j *jury) nextPass(ctx context.Context, c callable, word Check) (*spool, error) {
	if j.x.problem.Passes < 2 {
		return nil, nil
	}
	r, err := c.machine.ReadFile(ctx, juryNextPass)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read nextpass.in: %w", err)
	}
	s := &spool{}
	n, err := io.Copy(s, io.LimitReader(r, maxPassInput+1))
	if err = errors.Join(err, r.Close()); err == nil {
		err = c.machine.Remove(ctx, juryNextPass)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("read nextpass.in: %w", err)
	case word.Outcome != CheckAccepted:
		err = juryFaultf("%s wrote nextpass.in and did not accept", c.program.Name)
	case n > maxPassInput:
		err = juryFaultf("nextpass.in is larger than %s", sizeText(maxPassInput))
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// maxPassInput bounds the input of a later pass, in bytes.
const maxPassInput = 512 << 20

// static has the static validator decide about the source.
func (j *jury) static(ctx context.Context, s StaticCase) (Check, error) {
	c, err := j.ready(ctx, *j.x.problem.StaticValidator)
	if err != nil {
		return Check{}, err
	}
	if err := errors.Join(j.emptyFeedback(ctx, c.machine), c.machine.Remove(ctx, juryDir+"/submission"), c.machine.MakeDir(ctx, juryDir+"/submission", 0o755)); err != nil {
		return Check{}, fmt.Errorf("make room for the source: %w", err)
	}
	// The source is read here and never run.
	if err := writeSources(ctx, c.machine, juryDir+"/submission", j.x.placed.files); err != nil {
		return Check{}, err
	}
	spec := c.spec(append([]string{j.x.lang.ID, j.x.placed.entry, feedbackDir + "/"}, s.Args...))
	spec.Dir, spec.FreshDirs = juryDir+"/submission", nil
	said := &head{max: maxMessage}
	res, err := execIn(ctx, c.machine, spec, &head{}, said)
	if err != nil {
		return Check{}, fmt.Errorf("run the static validator: %w", err)
	}
	return c.word(res, said)
}

// exitText says how a program ended, for people.
func exitText(e sandbox.Exit) string {
	switch e.Cause {
	case guest.Exited:
		return fmt.Sprintf("exit code %d", e.Code)
	case guest.Signaled:
		return "ended by " + signalText(e.Signal)
	case guest.CPULimit, guest.WallLimit:
		return "time limit reached"
	case guest.MemoryLimit:
		return "memory limit reached"
	case guest.OutputLimit:
		return "output limit reached"
	case guest.ProcessLimit:
		return "process limit reached"
	case guest.DiskLimit:
		return "disk limit reached"
	}
	return string(e.Cause)
}
