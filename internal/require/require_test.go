package require

import (
	"fmt"
	"runtime"
	"testing"
)

// recorder notes how a test would have ended.
type recorder struct {
	testing.TB
	ended string
}

func (*recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.ended = "fatal: " + fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, args ...any) {
	r.ended = "skip: " + fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// These tests set REQUIRE, so they are not parallel.
func TestMissingThingSkipsUnlessRequired(t *testing.T) {
	const program = "assay-has-no-such-program"
	tests := []struct{ name, require, want string }{
		{"not_listed", "root,kvm", "skip: program " + program + " is not installed (REQUIRE=" + program + " makes this a failure)"},
		{"empty", "", "skip: program " + program + " is not installed (REQUIRE=" + program + " makes this a failure)"},
		{"listed", "root, " + program, "fatal: " + program + " is required here (REQUIRE): program " + program + " is not installed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("REQUIRE", tt.require)
			r := &recorder{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				Tool(r, program)
			}()
			<-done
			if r.ended != tt.want {
				t.Errorf("got %q, want %q", r.ended, tt.want)
			}
		})
	}
}

func TestToolThatIsThere(t *testing.T) {
	t.Parallel()
	if got := Tool(t, "go"); got == "" {
		t.Error("no path for a program that is installed")
	}
}
