package gradepage

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/course"
	"assay/internal/judge"
	"assay/internal/require"
)

// sampleClass has every outcome, and hidden tests whose words begin with SECRET.
func sampleClass() []course.Grade {
	a := &course.Assignment{Name: "lab1", Title: "Words & <tags>", Version: "sha256:0123456789abcdef", Mode: course.Pytest, Points: judge.IntScore(10)}
	for i, v := range []course.Visibility{course.Visible, course.Visible, course.Hidden, course.AfterPublished} {
		name := []string{"one line", "a <b>longer</b> name that does not fit", "SECRET hidden", "SECRET later"}[i]
		a.Tests = append(a.Tests, course.Test{
			ID: name, Name: name, Points: judge.IntScore(int64(i + 1)), Visibility: v, Message: "SECRET message", Details: true,
		})
	}
	a.Tests[0].Message, a.Tests[1].Message = "Look at the first line.\nAnd the second.", ""
	finding := func(i int, s course.Status, c course.Cause, detail string) course.Finding {
		return course.Finding{Test: a.Tests[i].ID, Status: s, Cause: c, Detail: detail, Stdout: "printed\x1b[2J <i>text</i>\n"}
	}
	reports := []course.Report{
		{Findings: []course.Finding{finding(0, "passed", "", ""), finding(1, "passed", "", ""), finding(2, "passed", "", ""), finding(3, "passed", "", "")}},
		{Findings: []course.Finding{finding(0, "failed", "", "1 is not 2 <script>alert(1)</script>"), finding(1, "error", course.TimeLimit, ""), finding(2, "failed", "", "SECRET input")}},
		{Findings: []course.Finding{finding(0, "partial", "", ""), finding(1, "skipped", "", "")}},
		{Cause: course.NotCompiled, Build: "words.c:3: error: expected ';'\n" + strings.Repeat("x", 300), Log: "SECRET log"},
		{Cause: course.OurFailure, Log: "SECRET machine"},
		{Suspicions: []course.Suspicion{{Kind: "early_exit", Text: "The run ended before its last test."}}},
		{Cause: course.RefusedFiles, Build: `the name "../x" leads out of the archive`},
	}
	reports[2].Findings[0].Share = judge.IntScore(1).Over(2)
	var grades []course.Grade
	for i, r := range reports {
		s := course.Submission{ID: []string{"alice", "bob", "carol <c>", "dave", "erin", "frank", "grace"}[i], Notes: []string{"dropped .git"}}
		s.Received = time.Date(2026, 3, 29, 1, 30, 0, 0, time.UTC)
		g := course.Decide(a, s, r)
		g.Run.Finished = time.Date(2026, 3, 30, 8, 0, 0, 0, time.UTC)
		grades = append(grades, g)
	}
	return grades
}

// writePages writes a page for each student, one for the class and one of what
// is alike.
func writePages(t *testing.T, dir string) map[string]string {
	t.Helper()
	pages := map[string]string{}
	keep := func(name string, text bytes.Buffer) {
		pages[name] = text.String()
		if err := os.WriteFile(filepath.Join(dir, name), text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	class := sampleClass()
	for _, g := range class {
		var page bytes.Buffer
		if err := Student(&page, g.ForStudent(course.Release{}, course.Visible)); err != nil {
			t.Fatal(err)
		}
		keep("student-"+strings.Fields(g.Submission)[0]+".html", page)
	}
	var page bytes.Buffer
	if err := Class(&page, class, course.Release{}, func(g course.Grade) string { return "student-" + g.Submission + ".html" }); err != nil {
		t.Fatal(err)
	}
	keep("class.html", page)
	page.Reset()
	alike := sampleSimilar()
	alike.Pairs = alike.Pairs[:3]
	if err := Similar(&page, "lab1", alike); err != nil {
		t.Fatal(err)
	}
	keep("similar.html", page)
	return pages
}

// TestPagesHideAndEscape: no word of a hidden test, and nothing of a program, is
// markup.
func TestPagesHideAndEscape(t *testing.T) {
	t.Parallel()
	pages := writePages(t, t.TempDir())
	if len(pages) != 9 {
		t.Fatalf("%d pages", len(pages))
	}
	for name, text := range pages {
		for _, never := range []string{"SECRET", "<script", "<i>text", "<b>longer", "\x1b", "Words & <tags>"} {
			if strings.Contains(text, never) {
				t.Errorf("%s has %q", name, never)
			}
		}
	}
	for name, want := range map[string]string{
		"student-alice.html": "Hidden tests remain",
		"student-bob.html":   "longer than the time limit",
		"student-carol.html": "A skipped test earns nothing",
		"student-dave.html":  "does not compile",
		"student-erin.html":  "this attempt does not count",
		"student-grace.html": "leads out of the archive",
		"class.html":         "The run ended before its last test.",
	} {
		if !strings.Contains(pages[name], want) {
			t.Errorf("%s does not say %q", name, want)
		}
	}
}

// TestPagesInABrowser has axe look at every page, in light, dark, on a phone and
// printed.
func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	chromium := require.Tool(t, "chromium")
	node := require.Tool(t, "node")
	e2e, err := filepath.Abs("../../../e2e")
	if err != nil {
		t.Fatal(err)
	}
	_, err = os.Stat(filepath.Join(e2e, "node_modules", "axe-core"))
	require.Thing(t, "e2e", err == nil, "the packages of e2e are not installed: run make test")
	dir := t.TempDir()
	writePages(t, dir)
	c := exec.CommandContext(t.Context(), node, filepath.Join(e2e, "pages.mjs"), dir)
	c.Env = append(os.Environ(), "CHROMIUM="+chromium)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestPercent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		score, points string
		want          int
	}{{"0", "10", 0}, {"1", "3", 33}, {"9.99", "10", 99}, {"10", "10", 100}, {"11", "10", 100}, {"5", "0", 0}, {"-1", "10", 0}} {
		s, errS := judge.ParseScore(tt.score)
		p, errP := judge.ParseScore(tt.points)
		if errS != nil || errP != nil {
			t.Fatal(errS, errP)
		}
		if got := percent(s, p); got != tt.want {
			t.Errorf("percent(%s, %s) = %d, want %d", tt.score, tt.points, got, tt.want)
		}
	}
}
