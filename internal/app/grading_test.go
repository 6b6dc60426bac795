package app

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"assay/internal/course"
	"assay/internal/course/assignment"
	"assay/internal/course/grading"
)

// exampleAssignment loads one of examples/assignments, prepared.
func exampleAssignment(t *testing.T, s *grading.Service, name string) *course.Assignment {
	t.Helper()
	a, err := assignment.Load(filepath.Join("../../examples/assignments", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Prepare(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestExampleAssignments: each gives its solution all points, its proofs what
// they must get, and hostile submissions nothing.
func TestExampleAssignments(t *testing.T) {
	s, err := withJudge(t).Grading(nil)
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob("../../examples/assignments/*")
	if err != nil || len(dirs) < 4 {
		t.Fatalf("%d examples, %v", len(dirs), err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) { verifyAssignment(t, s, exampleAssignment(t, s, filepath.Base(dir))) })
	}
}

// TestNewAssignments: what "assay assignment new" makes works as it is, and
// hostile submissions in its language get nothing.
func TestNewAssignments(t *testing.T) {
	e := withJudge(t)
	s, err := e.Grading(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []assignment.Options{
		{Mode: course.IO, Language: "python3"},
		{Mode: course.IO, Language: "c"},
		{Mode: course.IO, Language: "cpp"},
		{Mode: course.IO, Language: "java"},
		{Mode: course.IO, Language: "javascript"},
		{Mode: course.Call, Language: "python3"},
		{Mode: course.Call, Language: "cpp"},
		{Mode: course.Call, Language: "java"},
		{Mode: course.Call, Language: "javascript"},
		{Mode: course.Pytest, Language: "python3"},
		{Mode: course.Harness, Language: "python3"},
	} {
		t.Run(string(o.Mode)+"_"+o.Language, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new")
			if _, err := assignment.New(dir, o); err != nil {
				t.Fatal(err)
			}
			a, err := assignment.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			a.Template = inCourse(a.Template)
			languageTemplate(t, e, a.Template)
			if err := s.Prepare(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			verifyAssignment(t, s, a)
		})
	}
}

func verifyAssignment(t *testing.T, s *grading.Service, a *course.Assignment) {
	t.Helper()
	checks, err := s.Verify(t.Context(), a, grading.VerifyOptions{Repeats: 2, AtOnce: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		if !c.OK {
			t.Errorf("%s: %s, want %s\n%s", c.Name, c.Got, c.Want, c.Why)
		}
	}
}

// TestSameGradeTwentyTimes: the same submission gets the same bytes, apart from
// times.
func TestSameGradeTwentyTimes(t *testing.T) {
	s, err := withJudge(t).Grading(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ assignment, proof string }{
		{"word-count", "proofs/case_matters"},
		{"shopping-cart", "proofs/wrong_error"},
		{"matrix", "proofs/equals_everything"},
	} {
		t.Run(tt.assignment, func(t *testing.T) {
			a := exampleAssignment(t, s, tt.assignment)
			var files []course.File
			for _, p := range a.Proofs {
				if p.Name == tt.proof {
					files = p.Files
				}
			}
			if files == nil {
				t.Fatalf("no %s", tt.proof)
			}
			entries := make([]grading.Entry, 20)
			for i := range entries {
				entries[i] = grading.Entry{ID: fmt.Sprint(i), Open: func() (course.Submission, error) { return course.Submission{Files: files}, nil }}
			}
			var first []byte
			err := s.Run(t.Context(), a, grading.Class{Entries: entries, AtOnce: 2, Done: func(o grading.Outcome) error {
				o.Grade.Submission = "same"
				got, err := grading.Canonical(o.Grade)
				if first == nil {
					first = got
				}
				if !bytes.Equal(got, first) {
					t.Errorf("grading %d differs:\n%s\nfrom\n%s", o.Index, got, first)
				}
				return err
			}})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}
