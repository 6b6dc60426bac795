package checker

import (
	"context"
	"fmt"

	"assay/internal/judge"
)

// Default is the default checker of the package formats. It is immutable.
type Default struct{ options Options }

var _ judge.Checker = Default{}

// NewDefault makes the default checker with its settings.
func NewDefault(o Options) Default { return Default{options: o} }

// Describe names the checker and its flags.
func (d Default) Describe() string {
	if s := d.options.String(); s != "" {
		return "default " + s
	}
	return "default"
}

// Check compares the output with the case's answer. An error is a failure to
// read one of them.
func (d Default) Check(_ context.Context, req judge.CheckRequest) (judge.Check, error) {
	answer, err := req.Case.Answer.Open()
	if err != nil {
		return judge.Check{}, fmt.Errorf("open answer: %w", err)
	}
	diff, err := Compare(answer, req.Output, d.options)
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
