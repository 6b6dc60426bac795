// Package gradepage writes grades as pages that people read, print and keep: one
// for a student (Student), one for the staff of a class (Class) and one of the
// code that submissions share (Similar). A page is one file without scripts or
// anything fetched from elsewhere.
//
// Student is given what the student may see and nothing else. Class names no
// hidden test either: such a page is soon on a projector.
//
// The package must not know where grades come from or are kept.
package gradepage

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"math/big"
	"slices"
	"strings"
	"time"

	"assay/internal/course"
	"assay/internal/judge"
)

//go:embed *.html *.css
var files embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"style":   style,
	"time":    timeText,
	"memory":  memoryText,
	"moment":  func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04:05 UTC") },
	"iso":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"percent": percent,
	"short":   shortDigest,
	"plural":  plural,
	"share":   share,
	"whole":   whole,
	"lines":   lines,
	"clean":   course.Clean,
	"add":     func(a, b int) int { return a + b },
	"inc":     func(n int) int { return n + 1 },
}).ParseFS(files, "*.html"))

func style() (template.CSS, error) {
	data, err := files.ReadFile("page.css")
	return template.CSS(data), err //nolint:gosec // Our own file.
}

// Student writes the page of one grade.
func Student(w io.Writer, g course.StudentGrade) error {
	page := struct {
		course.StudentGrade
		Seen, SeenPoints judge.Score
		Passed           int
	}{StudentGrade: g}
	for _, t := range g.Tests {
		page.Seen = page.Seen.Add(t.Score)
		if !t.Bonus {
			page.SeenPoints = page.SeenPoints.Add(t.Points)
		}
		if t.Passed {
			page.Passed++
		}
	}
	return pages.ExecuteTemplate(w, "student.html", page)
}

// classPage is what class.html shows.
type classPage struct {
	Title, Assignment, Version string
	Mode                       course.Mode
	Points                     judge.Score
	Made                       time.Time
	// Tests are those that students may see now.
	Tests     []string
	HasHidden bool
	Students  []classRow
	Bars      []bar
	Mean      string
	Median    string
	Outcomes  []count
	Suspects  []classRow
}

type classRow struct {
	ID         string
	Link       string
	Score      judge.Score
	Percent    int
	Tests      []classCell
	Hidden     string
	Cause      string
	Causes     []string
	Suspicious []course.Suspicion
	Ours       bool
}

type classCell struct{ Mark, Text, Kind string }

type bar struct {
	Label  string
	Count  int
	Height int
}

type count struct {
	Text  string
	Count int
}

// Class writes the page of a class. All grades are of one assignment version.
// link gives the address of a student's page, or empty.
func Class(w io.Writer, grades []course.Grade, release course.Release, link func(g course.Grade) string) error {
	p := classPage{Made: time.Now()}
	outcomes := map[string]int{}
	var scores []judge.Score
	for i, g := range grades {
		if i == 0 {
			p.Title, p.Assignment, p.Version, p.Mode, p.Points = g.Title, g.Assignment, g.Version, g.Mode, g.Points
			for _, t := range g.Tests {
				if release.Shows(t.Visibility) {
					p.Tests = append(p.Tests, t.Name)
				} else {
					p.HasHidden = true
				}
			}
		}
		row := classRow{
			ID: g.Submission, Link: link(g), Score: g.Score, Percent: percent(g.Score, g.Points), Suspicious: g.Suspicious,
			Ours: g.Cause == course.OurFailure, Cause: g.Cause.Text(),
		}
		hidden, hiddenPassed := 0, 0
		causes := map[course.Cause]bool{course.NoCause: true, g.Cause: true}
		for _, t := range g.Tests {
			if !causes[t.Cause] {
				causes[t.Cause] = true
				row.Causes = append(row.Causes, string(t.Cause))
			}
			if !release.Shows(t.Visibility) {
				hidden++
				if t.Status == course.Passed {
					hiddenPassed++
				}
				continue
			}
			row.Tests = append(row.Tests, cell(t))
		}
		row.Hidden = fmt.Sprintf("%d of %d", hiddenPassed, hidden)
		p.Students = append(p.Students, row)
		if len(row.Suspicious) > 0 {
			p.Suspects = append(p.Suspects, row)
		}
		if !row.Ours {
			scores = append(scores, g.Score)
		}
		outcomes[Outcome(g)]++
	}
	for _, name := range Outcomes {
		if n := outcomes[name]; n > 0 {
			p.Outcomes = append(p.Outcomes, count{name, n})
		}
	}
	p.Bars, p.Mean, p.Median = statistics(scores, p.Points)
	return pages.ExecuteTemplate(w, "class.html", p)
}

// The outcomes of a whole grade, for counts.
const (
	AllPoints  = "all points"
	SomePoints = "some points"
	NoPoints   = "no points"
	Ours       = "not graded yet" // a failure of ours
)

// Outcomes are the outcomes of a whole grade, in the order in which they are shown.
var Outcomes = []string{AllPoints, SomePoints, NoPoints, Ours}

// Outcome is the group that a grade is counted in.
func Outcome(g course.Grade) string {
	switch {
	case g.Cause == course.OurFailure:
		return Ours
	case g.Score.Sign() == 0:
		return NoPoints
	case g.Score.Cmp(g.Points) >= 0:
		return AllPoints
	}
	return SomePoints
}

func cell(t course.TestResult) classCell {
	text := t.Name + ": " + string(t.Status)
	if t.Cause != course.NoCause {
		text += ", " + string(t.Cause)
	}
	switch t.Status {
	case course.Passed:
		return classCell{"✓", text, "pass"}
	case course.Partial:
		return classCell{t.Score.String(), text, "part"}
	case course.Errored:
		return classCell{"!", text, "fail"}
	case course.Skipped, course.Missing:
		return classCell{"–", text, "fail"}
	}
	return classCell{"✗", text, "fail"}
}

// barCount is how many groups of scores the histogram has.
const barCount = 10

func statistics(scores []judge.Score, points judge.Score) (bars []bar, mean, median string) {
	if len(scores) == 0 || points.Sign() == 0 {
		return nil, "", ""
	}
	counts := make([]int, barCount)
	sum := judge.Score{}
	for _, s := range scores {
		sum = sum.Add(s)
		counts[min(percent(s, points)/barCount, barCount-1)]++
	}
	most := slices.Max(counts)
	for i, n := range counts {
		label := fmt.Sprintf("%d–%d %%", i*barCount, (i+1)*barCount-1)
		if i == barCount-1 {
			label = fmt.Sprintf("%d–100 %%", i*barCount)
		}
		bars = append(bars, bar{label, n, n * 100 / max(1, most)})
	}
	slices.SortFunc(scores, judge.Score.Cmp)
	middle := scores[len(scores)/2]
	if len(scores)%2 == 0 {
		middle = middle.Add(scores[len(scores)/2-1]).Over(2)
	}
	return bars, twoDigits(sum.Over(len(scores))), twoDigits(middle)
}

// percent is how much of points a score is, rounded down; 0 to 100.
func percent(s, points judge.Score) int {
	if points.Sign() <= 0 || s.Sign() <= 0 {
		return 0
	}
	a, okA := new(big.Rat).SetString(s.String())
	b, okB := new(big.Rat).SetString(points.String())
	if !okA || !okB || a.Cmp(b) >= 0 {
		return 100
	}
	a.Quo(a, b).Mul(a, big.NewRat(100, 1))
	return int(new(big.Int).Quo(a.Num(), a.Denom()).Int64())
}

func twoDigits(s judge.Score) string {
	r, ok := new(big.Rat).SetString(s.String())
	if !ok {
		return s.String()
	}
	return strings.TrimSuffix(strings.TrimRight(r.FloatString(2), "0"), ".")
}

func timeText(us int64) string { return fmt.Sprintf("%.2f s", float64(us)/1e6) }

func memoryText(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func shortDigest(d string) string {
	d = strings.TrimPrefix(d, "sha256:")
	return d[:min(12, len(d))]
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
