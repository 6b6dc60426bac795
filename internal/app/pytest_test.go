package app

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"assay/internal/course"
	"assay/internal/course/pytest"
)

// TestPytest grades the submissions of testdata/pytest. Each archive has the
// teacher's tests (tests/), a solution (solution/, which is a submission too) and
// submissions (NAME/); its comment has a line for each thing that must be so:
//
//	SUBMISSION TEST STATUS [CAUSE]     TEST may end in * for all that begin so;
//	                                   !STATUS is any other
//	SUBMISSION cause CAUSE             of the whole run
//	SUBMISSION build TEXT              part of the importer's message
//	SUBMISSION stdout TEST TEXT        part of what was printed in a test
//	SUBMISSION never TEXT              nowhere in what a student could be shown
//	SUBMISSION suspicious KIND
//	limit time|wall DURATION, limit memory|output|processes N
//	value_class NAME, module NAME, clock TIME
func TestPytest(t *testing.T) {
	e := withJudge(t)
	archives, err := filepath.Glob("testdata/pytest/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".txtar"), func(t *testing.T) {
			suite := loadPytestSuite(t, archive)
			for _, name := range suite.names {
				t.Run(name, func(t *testing.T) { suite.grade(t, pytest.New(judgeMachines{e}), name) })
			}
		})
	}
}

// pytestSuite is one archive.
type pytestSuite struct {
	assignment course.Assignment
	names      []string
	files      map[string][]course.File
	wanted     map[string][][]string
}

func loadPytestSuite(t *testing.T, archive string) *pytestSuite {
	t.Helper()
	a, err := txtar.ParseFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	s := &pytestSuite{files: map[string][]course.File{}, wanted: map[string][][]string{}}
	s.assignment = course.Assignment{Name: filepath.Base(archive), Mode: course.Pytest, Template: "base", Seed: 7}
	for _, f := range a.Files {
		folder, name, _ := strings.Cut(f.Name, "/")
		s.files[folder] = append(s.files[folder], course.File{Name: name, Data: f.Data})
	}
	s.assignment.Files, s.assignment.Solution = s.files["tests"], s.files["solution"]
	for line := range strings.Lines(string(a.Comment)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case words[0] == "limit":
			s.limit(t, words[1], words[2])
		case words[0] == "clock":
			if s.assignment.Clock, err = time.Parse(time.RFC3339, words[1]); err != nil {
				t.Fatal(err)
			}
		case words[0] == "value_class":
			s.assignment.Pytest.ValueClasses = append(s.assignment.Pytest.ValueClasses, words[1])
		case words[0] == "module":
			s.assignment.Pytest.Modules = append(s.assignment.Pytest.Modules, words[1])
		default:
			if len(s.files[words[0]]) == 0 {
				t.Fatalf("no submission %q", words[0])
			}
			if s.wanted[words[0]] == nil {
				s.names = append(s.names, words[0])
			}
			s.wanted[words[0]] = append(s.wanted[words[0]], words[1:])
		}
	}
	return s
}

func (s *pytestSuite) limit(t *testing.T, what, value string) {
	l := &s.assignment.Limits
	var err error
	switch what {
	case "time":
		l.Time, err = time.ParseDuration(value)
	case "wall":
		l.Wall, err = time.ParseDuration(value)
	case "memory":
		_, err = fmt.Sscan(value, &l.Memory)
	case "output":
		_, err = fmt.Sscan(value, &l.Output)
	case "processes":
		_, err = fmt.Sscan(value, &l.Processes)
	default:
		t.Fatalf("limit %q is not known", what)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// grade grades a submission and looks at each line about it.
func (s *pytestSuite) grade(t *testing.T, g *pytest.Grader, name string) {
	a := s.assignment
	if len(s.assignment.Solution) > 0 && name != "solution" {
		a.Tests = s.pins(t, g)
	}
	began := time.Now()
	r, err := g.Grade(t.Context(), &a, course.Submission{ID: name, Files: s.files[name]}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v, machines ready after %v", time.Since(began).Round(time.Millisecond), r.Phases[0].Took.Round(time.Millisecond))
	for _, w := range s.wanted[name] {
		if !holds(a, r, w) {
			t.Errorf("%s does not hold in\n%s", strings.Join(w, " "), reportText(r))
		}
	}
}

// pins are the tests of the solution's run.
func (s *pytestSuite) pins(t *testing.T, g *pytest.Grader) []course.Test {
	t.Helper()
	if s.assignment.Tests != nil {
		return s.assignment.Tests
	}
	r, err := g.Grade(t.Context(), &s.assignment, course.Submission{ID: "solution", Files: s.files["solution"]}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		s.assignment.Tests = append(s.assignment.Tests, course.Test{ID: f.Test, Name: f.Test})
	}
	return s.assignment.Tests
}

func holds(a course.Assignment, r course.Report, want []string) bool {
	rest := func(n int) string { return strings.Join(want[n:], " ") }
	switch want[0] {
	case "cause":
		return string(r.Cause) == rest(1)
	case "build":
		return strings.Contains(r.Build, rest(1))
	case "suspicious":
		for _, s := range r.Suspicions {
			if s.Kind == want[1] {
				return true
			}
		}
		return false
	case "never":
		text := r.Build
		for _, f := range r.Findings {
			text += f.Stdout + f.Stderr
		}
		return !strings.Contains(text, rest(1))
	case "stdout":
		for _, f := range r.Findings {
			if f.Test == want[1] {
				return strings.Contains(f.Stdout, rest(2))
			}
		}
		return false
	}
	n := 0
	for _, f := range r.Findings {
		prefix, all := strings.CutSuffix(want[0], "*")
		if f.Test != want[0] && !(all && strings.HasPrefix(f.Test, prefix)) {
			continue
		}
		n++
		cause := ""
		if len(want) > 2 {
			cause = want[2]
		}
		not, other := strings.CutPrefix(want[1], "!")
		if (string(f.Status) == not) == other || !other && string(f.Cause) != cause {
			return false
		}
	}
	return n > 0
}

// reportText is all that a report says.
func reportText(r course.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cause %q build %q suspicions %v\n", r.Cause, r.Build, r.Suspicions)
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s %s %s\n", f.Test, f.Status, f.Cause)
		for what, text := range map[string]string{"detail": f.Detail, "stdout": f.Stdout, "stderr": f.Stderr} {
			if text != "" {
				fmt.Fprintf(&b, "  %s: %.1500q\n", what, text)
			}
		}
	}
	fmt.Fprintf(&b, "log: %.3000s\n", r.Log)
	return b.String()
}
