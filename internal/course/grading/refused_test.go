package grading

import (
	"testing"

	"assay/internal/course"
	"assay/internal/fault"
)

// TestRefused tells the student what is wrong with the files, and what to do.
func TestRefused(t *testing.T) {
	t.Parallel()
	g := Refused(&course.Assignment{}, "ada", fault.Errorf(fault.Invalid, "x is a link").WithHint("put a copy in its place"))
	if want := "x is a link\nWhat to do: put a copy in its place"; g.Build != want || g.Cause != course.RefusedFiles || g.Submission != "ada" {
		t.Errorf("cause %q, text %q, want %q", g.Cause, g.Build, want)
	}
}
