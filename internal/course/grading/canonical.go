package grading

import (
	"encoding/json"
	"slices"
	"strings"

	"assay/internal/course"
)

// Canonical is a grade as bytes without what differs from one grading to the
// next of the same submission: times, memory, machines, host, the log of the
// tests' own programs, and what a test wrote before a limit ended it, which is as
// much as it had time for. Two gradings of the same bytes by the same version
// must give the same.
func Canonical(g course.Grade) ([]byte, error) {
	g.Run = course.RunFacts{}
	g.Log = "" // What the tests' own programs printed, with their times.
	g.Tests = slices.Clone(g.Tests)
	for i, t := range g.Tests {
		switch t.Cause {
		case course.TimeLimit, course.MemoryLimit, course.OutputLimit, course.ProcessLimit, course.DiskLimit:
			g.Tests[i].Stdout, g.Tests[i].Stderr, g.Tests[i].Truncated = "", "", false
		}
	}
	return json.Marshal(g)
}

// firstLines is the beginning of a text from a machine, for an error message.
func firstLines(text string, n int) string {
	lines := strings.SplitN(strings.TrimSpace(course.Clean(text)), "\n", n+1)
	if len(lines) > n {
		lines = append(lines[:n], "…")
	}
	return strings.Join(lines, "\n")
}
