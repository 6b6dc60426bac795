package course

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/judge"
)

// maxReasons bounds how many tests a Difference names.
const maxReasons = 20

// Difference is what another grading of the same submission would change.
type Difference struct {
	Submission string      `json:"submission"`
	Old        judge.Score `json:"old_score"`
	New        judge.Score `json:"new_score"`
	Points     judge.Score `json:"points"`
	// Why are the reasons: other tests, another template, other outcomes.
	Why []string `json:"why"`
	// Failed says that we failed in the new grading: the old mark stays.
	Failed bool `json:"failed,omitempty"`
	// Changed says that the mark, an outcome or a suspicion differs.
	Changed bool `json:"changed"`
}

// Compare says what changes from one grade to the next of the same submission.
func Compare(old, next Grade) Difference {
	d := Difference{Submission: old.Submission, Old: old.Score, New: next.Score, Points: next.Points}
	if next.Cause == OurFailure {
		d.Failed, d.New = true, old.Score
		d.Why = append(d.Why, "the new grading failed on our side; the old mark stays: "+firstLine(next.Log))
		return d
	}
	if old.Digest != next.Digest {
		d.Why = append(d.Why, "the submission's files differ")
	}
	var tests []string
	before := map[string]TestResult{}
	for _, t := range old.Tests {
		before[t.Name] = t
	}
	for _, t := range next.Tests {
		b, ok := before[t.Name]
		delete(before, t.Name)
		switch {
		case !ok:
			tests = append(tests, fmt.Sprintf("new test %q: %s, %s of %s", t.Name, t.Status, t.Score, t.Points))
		case b.Status != t.Status || b.Cause != t.Cause:
			tests = append(tests, fmt.Sprintf("test %q: %s → %s", t.Name, b.Text(), t.Text()))
		case b.Score.Cmp(t.Score) != 0 || b.Points.Cmp(t.Points) != 0:
			tests = append(tests, fmt.Sprintf("test %q: %s of %s → %s of %s", t.Name, b.Score, b.Points, t.Score, t.Points))
		}
	}
	for _, t := range old.Tests {
		if _, gone := before[t.Name]; gone {
			tests = append(tests, fmt.Sprintf("test %q is gone", t.Name))
		}
	}
	if len(tests) > maxReasons {
		tests = append(tests[:maxReasons], fmt.Sprintf("and %d tests more", len(tests)-maxReasons))
	}
	d.Why = append(d.Why, tests...)
	if old.Cause != next.Cause {
		d.Why = append(d.Why, fmt.Sprintf("the run: %s → %s", orNone(old.Cause), orNone(next.Cause)))
	}
	if len(old.Suspicious) == 0 && len(next.Suspicious) > 0 {
		d.Why = append(d.Why, "now suspicious: "+next.Suspicious[0].Text)
	}
	d.Changed = len(d.Why) > 0 || old.Score.Cmp(next.Score) != 0
	if d.Changed {
		d.Why = append(d.Why, circumstances(old, next)...)
	}
	return d
}

func circumstances(old, next Grade) []string {
	var why []string
	if old.Version != next.Version {
		why = append(why, fmt.Sprintf("version %s → %s", shortDigest(old.Version), shortDigest(next.Version)))
	}
	if a, b := templates(old), templates(next); a != b && a != "" && b != "" {
		why = append(why, "template "+a+" → "+b)
	}
	if a, b := old.Run.Host, next.Run.Host; a != nil && b != nil && a.Fingerprint != b.Fingerprint {
		why = append(why, "another host")
	}
	return why
}

func templates(g Grade) string {
	var names []string
	for _, m := range g.Run.Machines {
		if n := m.Template + "@" + shortDigest(m.TemplateDigest); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return strings.Join(names, ", ")
}

func shortDigest(d string) string {
	d = strings.TrimPrefix(d, "sha256:")
	return d[:min(12, len(d))]
}

// Text is the outcome of the test in a word or two: "error (time)".
func (t TestResult) Text() string {
	if t.Cause != NoCause {
		return fmt.Sprintf("%s (%s)", t.Status, t.Cause)
	}
	return string(t.Status)
}

func orNone(c Cause) string {
	if c == NoCause {
		return "ran to its end"
	}
	return string(c)
}

// firstLine is the beginning of a text from a machine.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(Clean(text)), "\n")
	return line
}
