package judging

import (
	"context"
	"errors"
	"testing"

	"assay/internal/fault"
	"assay/internal/judge"
)

// fixed is a judge whose runs all end the same.
type fixed struct {
	run judge.Run
	err error
}

func (f fixed) Run(context.Context, judge.Problem, judge.Submission, judge.Observer) (judge.Run, error) {
	return f.run, f.err
}

func (fixed) Options() judge.Options { return judge.Options{} }

// TestOurFailureIsNoVerdict: a run that failed by a machine or a host is tried
// again; one that failed by the problem's own programs is not.
func TestOurFailureIsNoVerdict(t *testing.T) {
	t.Parallel()
	lost := fault.Errorf(fault.Unavailable, "the machine was lost")
	tests := map[string]struct {
		judge   fixed
		verdict judge.Verdict
		kind    fault.Kind
	}{
		"accepted":        {fixed{run: judge.Run{Verdict: judge.Accepted}}, judge.Accepted, 0},
		"mended":          {fixed{run: judge.Run{Verdict: judge.WrongAnswer, Failure: lost}}, judge.WrongAnswer, 0},
		"jury_program":    {fixed{run: judge.Run{Verdict: judge.JudgeError}}, judge.JudgeError, 0},
		"machine_lost":    {fixed{run: judge.Run{Verdict: judge.JudgeError, Failure: lost}}, "", fault.Internal},
		"host_full":       {fixed{run: judge.Run{Verdict: judge.JudgeError, Failure: fault.Errorf(fault.Exhausted, "no room")}}, "", fault.Exhausted},
		"host_full_below": {fixed{err: fault.Errorf(fault.Exhausted, "no room")}, "", fault.Exhausted},
		"cancelled":       {fixed{err: context.Canceled}, "", fault.Internal},
		"without_a_kind":  {fixed{run: judge.Run{Verdict: judge.JudgeError, Failure: errors.New("gone")}}, "", fault.Internal},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &Worker{judge: tt.judge}
			got, err := w.run(t.Context(), judge.Problem{}, judge.Submission{}, nil)
			if got.Verdict != tt.verdict || (err == nil) != (tt.verdict != "") {
				t.Errorf("got %q, %v, want %q", got.Verdict, err, tt.verdict)
			}
			if err != nil && fault.KindOf(err) != tt.kind {
				t.Errorf("got %v (%s), want %s", err, fault.KindOf(err), tt.kind)
			}
		})
	}
}
