package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"assay/internal/course"
	"assay/internal/course/assignment"
	"assay/internal/course/call"
	"assay/internal/judge"
)

// hiddenWord stands in the arguments, the expectations and the names of hidden
// tests of testdata/call, and must never stand in what a student sees.
const hiddenWord = "UNSEEN"

// TestCall grades the submissions of testdata/call. Each archive has the folder of
// an assignment, and a folder of submissions ("honest/leap.py"); its comment has a
// line for each submission:
//
//	SUBMISSION SCORE [CAUSES OF DEATH, WITH COMMAS, - OR ? FOR ANY] [part of what staff read]
func TestCall(t *testing.T) {
	e := withJudge(t)
	languages, err := judge.DefaultLanguages()
	if err != nil {
		t.Fatal(err)
	}
	grader := call.New(judgeMachines{e}, languages)
	archives, err := filepath.Glob("testdata/call/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, name := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			a, submissions := loadAssignment(t, archive)
			a.Template = inCourse(a.Template)
			languageTemplate(t, e, a.Template)
			for line := range strings.Lines(string(archive.Comment)) {
				words := strings.Fields(line)
				if len(words) < 2 || words[0] == "#" {
					continue
				}
				t.Run(words[0], func(t *testing.T) {
					files, ok := submissions[words[0]]
					if !ok {
						t.Fatalf("no submission %q", words[0])
					}
					gradeCall(t, grader, a, course.Submission{ID: words[0], Files: files}, words[1:])
				})
			}
		})
	}
}

// loadAssignment writes an archive to a folder and reads the assignment there.
func loadAssignment(t *testing.T, archive *txtar.Archive) (*course.Assignment, map[string][]course.File) {
	t.Helper()
	dir := t.TempDir()
	submissions := map[string][]course.File{}
	for _, f := range archive.Files {
		if sub, name, ok := strings.Cut(strings.TrimPrefix(f.Name, "submissions/"), "/"); ok && strings.HasPrefix(f.Name, "submissions/") {
			submissions[sub] = append(submissions[sub], course.File{Name: name, Data: f.Data})
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a, err := assignment.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return a, submissions
}

func gradeCall(t *testing.T, grader course.Grader, a *course.Assignment, s course.Submission, want []string) {
	began := time.Now()
	r, err := grader.Grade(t.Context(), a, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("graded in %v", time.Since(began).Round(time.Millisecond))
	g := course.Decide(a, s, r)
	text := gradeText(g)
	if g.Score.String() != want[0] {
		t.Errorf("score %s, want %s\n%s", g.Score, want[0], text)
	}
	causes := "-"
	if len(want) > 1 {
		causes = want[1]
	}
	if got := causesOf(g); causes != "?" && got != causes {
		t.Errorf("causes %s, want %s\n%s", got, causes, text)
	}
	if part := strings.Join(want[min(2, len(want)):], " "); !strings.Contains(text, part) {
		t.Errorf("no %q in\n%s", part, text)
	}
	seen, err := json.Marshal(g.ForStudent(course.Release{}, course.Visible))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(seen), hiddenWord) {
		t.Errorf("the student sees what is hidden: %s", seen)
	}
}

// causesOf are the causes of death of a grade, each once, sorted.
func causesOf(g course.Grade) string {
	var list []string
	for _, c := range append([]course.Cause{g.Cause}, testCauses(g)...) {
		if c != course.NoCause && !slices.Contains(list, string(c)) {
			list = append(list, string(c))
		}
	}
	if len(list) == 0 {
		return "-"
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

func testCauses(g course.Grade) []course.Cause {
	var list []course.Cause
	for _, r := range g.Tests {
		list = append(list, r.Cause)
	}
	return list
}

// gradeText is all that staff read of a grade.
func gradeText(g course.Grade) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v\n%s\n", g.Cause, g.Suspicious, g.Build)
	for _, r := range g.Tests {
		fmt.Fprintf(&b, "test %q %s %s %s\n%s\nstdout %.300q stderr %.300q\n", r.Name, r.Status, r.Cause, r.Score, r.Detail, r.Stdout, r.Stderr)
	}
	return b.String()
}
