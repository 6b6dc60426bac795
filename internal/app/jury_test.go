package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"assay/internal/judge"
	"assay/internal/judge/problempkg"
)

// TestJury judges the packages of testdata/jury, which have programs of their
// own, and testdata/rows, whose submissions (rNN) are those of faults that were
// seen in other judges. Each is a txtar archive of a problem package; its
// comment has a line for each submission:
//
//	SUBMISSION VERDICT [score=N] [part of the reason, a message or the transcript; \n is a new line]
//
// A JE must come at once: what a jury program did it would do again.
func TestJury(t *testing.T) {
	e := withJudge(t)
	j, err := e.Judge(judge.Options{Transcripts: true})
	if err != nil {
		t.Fatal(err)
	}
	archives, err := filepath.Glob("testdata/[jr]*/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(archive)
			if err != nil {
				t.Fatal(err)
			}
			pkg := loadArchive(t, a)
			subs := map[string]judge.Submission{}
			for _, s := range pkg.Submissions {
				subs[strings.TrimPrefix(s.Path, "submissions/")] = s.Submission
			}
			for line := range strings.Lines(string(a.Comment)) {
				words := strings.Fields(line)
				if len(words) == 0 || words[0] == "#" {
					continue
				}
				s, ok := subs[words[0]]
				if !ok {
					t.Fatalf("no submission %q", words[0])
				}
				t.Run(strings.ReplaceAll(words[0], "/", "_"), func(t *testing.T) { judgeLine(t, j, pkg.Problem, s, words[1:]) })
			}
		})
	}
}

// mostTime is how long any of these may take, whatever the programs do.
const mostTime = 90 * time.Second

func judgeLine(t *testing.T, j *judge.Judge, p judge.Problem, s judge.Submission, want []string) {
	began := time.Now()
	run, err := j.Run(t.Context(), p, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s after %v", outcome(run), time.Since(began).Round(time.Millisecond))
	if d := time.Since(began); d > mostTime {
		t.Errorf("took %v", d)
	}
	score := ""
	if len(want) > 1 && strings.HasPrefix(want[1], "score=") {
		score = strings.TrimPrefix(want[1], "score=")
		want = append(want[:1:1], want[2:]...)
	}
	if part := strings.ReplaceAll(strings.Join(want[1:], " "), `\n`, "\n"); string(run.Verdict) != want[0] || !strings.Contains(runText(run), part) {
		t.Errorf("verdict %s, want %s with %q in\n%s", run.Verdict, want[0], part, runText(run))
	}
	if score != "" && (run.Score == nil || run.Score.String() != score) {
		t.Errorf("score %v, want %s\n%s", run.Score, score, runText(run))
	}
	if len(run.Retries) > 0 {
		t.Errorf("retries: %v", run.Retries)
	}
}

// runText is all that was said of a run.
func runText(run judge.Run) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s", run.Reason, run.Compile.Output)
	for _, g := range run.Groups {
		fmt.Fprintf(&b, "group %q %s %v %s\n", g.Name, g.Verdict, g.Score, g.Reason)
	}
	for _, c := range run.Cases {
		fmt.Fprintf(&b, "case %s %s %s %v %s\n", c.Name, c.Verdict, c.Reason, c.Score, c.Message)
		if c.Staff != nil {
			fmt.Fprintf(&b, "  %s\n  %s\n%s", c.Staff.CheckMessage, c.Staff.Stderr, c.Staff.Transcript)
		}
	}
	return b.String()
}

func loadArchive(t *testing.T, a *txtar.Archive) *problempkg.Package {
	t.Helper()
	dir := t.TempDir()
	for _, f := range a.Files {
		name := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pkg, err := problempkg.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pkg.Close(); err != nil {
			t.Error(err)
		}
	})
	return pkg
}
