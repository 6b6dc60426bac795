package checker

import (
	"context"
	"fmt"

	"assay/internal/judge"
)

// Default is the default checker of the package formats: Compare, with the
// flags in judge.Case.CheckerArgs, which each case may have its own of.
type Default struct{}

var _ judge.Checker = Default{}

// Describe names the checker.
func (Default) Describe() string { return "default" }

// Check compares the output with the case's answer. An error is a failure to
// read one of them, or a flag that ParseOptions refuses.
func (Default) Check(_ context.Context, req judge.CheckRequest) (judge.Check, error) {
	options, err := ParseOptions(req.Case.CheckerArgs)
	if err != nil {
		return judge.Check{}, err
	}
	answer, err := req.Case.Answer.Open()
	if err != nil {
		return judge.Check{}, fmt.Errorf("open answer: %w", err)
	}
	diff, err := Compare(answer, req.Output, options)
	if closeErr := answer.Close(); err == nil {
		err = closeErr
	}
	switch {
	case err != nil:
		return judge.Check{}, fmt.Errorf("compare output: %w", err)
	case diff == nil:
		return judge.Check{Outcome: judge.CheckAccepted}, nil
	}
	return judge.Check{Outcome: judge.CheckRejected, NoOutput: diff.Kind == NoOutput, Message: diff.String()}, nil
}
