package app

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"assay/internal/course"
)

// TestHarness grades the submissions of testdata/harness: honest ones, and
// attacks on an autograder that runs in one machine with them. Each archive has
// the folder of an assignment; in a submission a line "# INCLUDE wrong" (or
// "// INCLUDE wrong") stands for the file of that name in the submission
// "wrong", or else for parts/wrong. The archive's comment has a line for each:
//
//	SUBMISSION SCORE [cause=CAUSE] [suspicious=KIND,KIND]
//
// A submission without "suspicious" must not be suspected of anything.
func TestHarness(t *testing.T) {
	e := withJudge(t)
	archives, err := filepath.Glob("testdata/harness/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, name := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			include(t, archive)
			a, submissions := loadAssignment(t, archive)
			languageTemplate(t, e, a.Template)
			grader := e.HarnessGrader(nil)
			if err := grader.Prepare(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			tests, err := grader.Pin(t.Context(), a)
			if err == nil {
				err = a.Pin(tests)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, test := range tests {
				t.Logf("%s: %s points, decoys %v", test.ID, test.Points, test.Pinned.Decoys)
			}
			for line := range strings.Lines(string(archive.Comment)) {
				words := strings.Fields(line)
				if len(words) < 2 || submissions[words[0]] == nil {
					continue
				}
				s := course.Submission{ID: words[0], Files: submissions[words[0]]}
				t.Run(s.ID, func(t *testing.T) {
					t.Parallel()
					gradeHarness(t, grader, a, s, words[1:])
				})
				delete(submissions, s.ID)
			}
			for id := range submissions {
				t.Errorf("submission %s has no line", id)
			}
		})
	}
}

// include replaces the lines that stand for another file.
func include(t *testing.T, archive *txtar.Archive) {
	t.Helper()
	texts := map[string]string{}
	for _, f := range archive.Files {
		texts[f.Name] = string(f.Data)
	}
	var files []txtar.File
	for _, f := range archive.Files {
		if strings.HasPrefix(f.Name, "parts/") {
			continue
		}
		var out strings.Builder
		for line := range strings.Lines(string(f.Data)) {
			part, ok := strings.CutPrefix(strings.TrimLeft(line, "#/ "), "INCLUDE ")
			if !ok {
				out.WriteString(line)
				continue
			}
			part = strings.TrimSpace(part)
			text, found := texts["submissions/"+part+"/"+filepath.Base(f.Name)]
			if !found {
				text, found = texts["parts/"+part]
			}
			if !found {
				t.Fatalf("%s includes %q, which is not there", f.Name, part)
			}
			out.WriteString(text)
		}
		files = append(files, txtar.File{Name: f.Name, Data: []byte(out.String())})
	}
	archive.Files = files
}

func gradeHarness(t *testing.T, grader course.Grader, a *course.Assignment, s course.Submission, want []string) {
	began := time.Now()
	r, err := grader.Grade(t.Context(), a, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := course.Decide(a, s, r)
	t.Logf("graded in %v, %s points, cause %q, suspicious %v", time.Since(began).Round(time.Millisecond), g.Score, g.Cause, g.Suspicious)
	text := fmt.Sprintf("%s\nlog: %s", gradeText(g), g.Log)
	if g.Score.String() != want[0] {
		t.Errorf("score %s, want %s\n%s", g.Score, want[0], text)
	}
	suspicious := false
	for _, w := range want[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "cause":
			if string(g.Cause) != value {
				t.Errorf("cause %q, want %q\n%s", g.Cause, value, text)
			}
		case "suspicious":
			suspicious = true
			for kind := range strings.SplitSeq(value, ",") {
				if !slices.ContainsFunc(g.Suspicious, func(s course.Suspicion) bool { return s.Kind == kind }) {
					t.Errorf("not suspicious of %s: %v\n%s", kind, g.Suspicious, text)
				}
			}
		}
	}
	if !suspicious && !strings.Contains(strings.Join(want, " "), "cause=") && len(g.Suspicious) > 0 {
		t.Errorf("suspicious: %v\n%s", g.Suspicious, text)
	}
}
