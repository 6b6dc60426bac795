package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"assay/internal/fault"
)

// exitCodes is the one table from a fault's kind to the exit code. 0 is
// success and 1 a negative outcome (errNegative); both are no faults.
var exitCodes = map[fault.Kind]int{
	fault.Invalid:     2,
	fault.NotFound:    3,
	fault.Conflict:    4,
	fault.Exhausted:   5,
	fault.Unavailable: 6,
	fault.Unsupported: 7,
	fault.Denied:      8,

	fault.Limited:         9,
	fault.Unauthenticated: 10,

	fault.Internal: 70,
}

// interruptedCode is the exit code after SIGINT or SIGTERM, as shells have it.
const interruptedCode = 130

const exitCodeHelp = `Exit codes: 0 done, 1 the outcome is negative (for example a verdict that was not expected), 2 wrong usage or input, 3 not found, 4 conflict, 5 exhausted, 6 unavailable, 7 unsupported here, 8 denied, 9 a limit of yours is reached, 10 not signed in, 70 internal error, 130 interrupted.`

// status is an exit code that is a result, not a fault: nothing is printed,
// the command has said all on stdout.
type status int

// Error makes status travel as an error.
func (s status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

var (
	// errNegative is returned by a command that did its work and whose outcome
	// is negative: a verdict that does not match, a test that fails.
	errNegative error = status(1)

	errInterrupted = errors.New("interrupted")
)

// report prints err as people or programs want it and gives the exit code.
func report(env *Env, err error) int {
	env.UI.endProgress()
	if err == nil {
		return 0
	}
	if s, ok := errors.AsType[status](err); ok {
		return int(s)
	}
	kind, code := fault.KindOf(err), 0
	name := kind.String()
	if errors.Is(err, errInterrupted) {
		name, code = "interrupted", interruptedCode
	} else {
		code = exitCodes[kind]
	}
	hint := fault.HintOf(err)
	if env.JSON {
		type body struct {
			Kind    string `json:"kind"`
			Message string `json:"message"`
			Hint    string `json:"hint,omitempty"`
		}
		enc := json.NewEncoder(env.Stderr)
		enc.SetEscapeHTML(false)
		// Nowhere is left to report to when stderr is gone; the code stays.
		_ = enc.Encode(map[string]body{"error": {name, err.Error(), hint}})
		return code
	}
	env.UI.complain("error", err.Error())
	if hint != "" {
		env.UI.complain("hint", hint)
	}
	return code
}

// panicked makes a fault of a recovered panic. The stack is for those who mend
// Assay, not for those who use it.
func panicked(value any, stack []byte) error {
	err := fault.Errorf(fault.Internal, "internal error: %v", value)
	if os.Getenv("ASSAY_DEBUG") != "" {
		return fault.Errorf(fault.Internal, "%w\n%s", err, stack)
	}
	return err.WithHint("this is a defect of Assay; run it again with ASSAY_DEBUG=1 for the stack trace and report it")
}
