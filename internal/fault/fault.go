// Package fault says what went wrong, by kind, with a sentence for people and
// a hint how to mend it. Start with Errorf and KindOf.
//
// The guest program's outcome is never a fault: a crash, a time-out or a wrong
// answer is data (guest.Exit). A fault is something Assay, its host or its
// caller did wrong. Doors map a Kind to an exit code or an HTTP status in one
// table each; nothing ever looks at the text.
//
// The package imports nothing of Assay and must not know any other package.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Kind is the class of a fault. The zero value is Internal: whatever has no
// kind is our own failure and is not shown to users in detail.
type Kind int

// The kinds. Doors turn them into exit codes and statuses.
const (
	// Internal is a failure nobody outside can do anything about.
	Internal Kind = iota
	// Invalid is input that can never work: a negative limit, malformed YAML.
	Invalid
	// NotFound names a thing that does not exist, or that the actor may not see.
	NotFound
	// Conflict is a request that the thing's present state does not allow.
	Conflict
	// Exhausted is a cap of the host reached: no disk, no memory, no capacity.
	Exhausted
	// Unavailable is a failure that may go away: retry, here or elsewhere.
	Unavailable
	// Unsupported is something this host or build cannot do.
	Unsupported
	// Denied is a request the actor may not make.
	Denied
	// Limited is a cap of the caller's own: too many requests, a quota that is
	// used up. Others may go on.
	Limited
	// Unauthenticated is a request that nobody known made, or one with a secret
	// that is wrong, has expired or was taken back.
	Unauthenticated
)

var kindNames = [...]string{"internal", "invalid", "not_found", "conflict", "exhausted", "unavailable", "unsupported", "denied", "limited", "unauthenticated"}

// String gives the stable lower-case name used in JSON ("not_found").
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return kindNames[Internal]
	}
	return kindNames[k]
}

// ParseKind is the reverse of String; an unknown name is Internal.
func ParseKind(name string) Kind {
	for i, n := range kindNames {
		if n == name {
			return Kind(i)
		}
	}
	return Internal
}

// Error is a fault. Its text names the thing and the reason; Hint, when not
// empty, is the remedy in one sentence.
type Error struct {
	Kind Kind
	Text string
	Hint string
	// Cause is the error below, or nil. It is already part of Text.
	Cause error
	// After, when not zero, is how long to wait before trying again.
	After time.Duration
}

// Error gives the sentence without the hint.
func (e *Error) Error() string { return e.Text }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Errorf makes a fault of a kind. A %w verb in the format sets the cause.
func Errorf(kind Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Text: err.Error(), Cause: errors.Unwrap(err)}
}

// WithHint returns the fault with a remedy: what the reader can do about it.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// TryAfter returns the fault with the time to wait before another try.
func (e *Error) TryAfter(wait time.Duration) *Error {
	c := *e
	c.After = wait
	return &c
}

// AfterOf gives the longest wait that err's chain asks for; zero is none.
func AfterOf(err error) time.Duration {
	var wait time.Duration
	for err != nil {
		e, ok := errors.AsType[*Error](err)
		if !ok {
			break
		}
		wait = max(wait, e.After)
		err = e.Cause
	}
	return wait
}

// KindOf gives the kind of the outermost fault in err's chain, or Internal.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// HintOf gives the outermost hint in err's chain, or "".
func HintOf(err error) string {
	for err != nil {
		e, ok := errors.AsType[*Error](err)
		if !ok {
			return ""
		}
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Cause
	}
	return ""
}

// Is reports whether err is a fault of this kind.
func Is(err error, kind Kind) bool { return err != nil && KindOf(err) == kind }
