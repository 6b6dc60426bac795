package testreport

import (
	"encoding/json"
	"io"
	"time"

	"assay/internal/course"
	"assay/internal/judge"
)

type ctrfOut struct {
	ReportFormat string      `json:"reportFormat"`
	SpecVersion  string      `json:"specVersion"`
	Results      ctrfResults `json:"results"`
}

type ctrfResults struct {
	Tool    ctrfTool    `json:"tool"`
	Summary ctrfSummary `json:"summary"`
	Tests   []ctrfTest  `json:"tests"`
	Extra   any         `json:"extra,omitempty"`
}

type ctrfTool struct {
	Name string `json:"name"`
}

type ctrfSummary struct {
	Tests   int   `json:"tests"`
	Passed  int   `json:"passed"`
	Failed  int   `json:"failed"`
	Skipped int   `json:"skipped"`
	Pending int   `json:"pending"`
	Other   int   `json:"other"`
	Start   int64 `json:"start"` // milliseconds since 1970
	Stop    int64 `json:"stop"`
}

type ctrfTest struct {
	Name     string   `json:"name"`
	Status   string   `json:"status"`
	Duration int64    `json:"duration"` // milliseconds
	Message  string   `json:"message,omitempty"`
	Trace    string   `json:"trace,omitempty"`
	Stdout   []string `json:"stdout,omitempty"`
	Stderr   []string `json:"stderr,omitempty"`
	Extra    any      `json:"extra"`
}

// ctrfPoints is what CTRF has no field for.
type ctrfPoints struct {
	Score      judge.Score       `json:"score"`
	Points     judge.Score       `json:"points"`
	Bonus      bool              `json:"bonus,omitempty"`
	Cause      course.Cause      `json:"cause,omitempty"`
	Outcome    course.Status     `json:"outcome"`
	Visibility course.Visibility `json:"visibility,omitempty"`
}

// WriteCTRF writes a grade, with what staff may see, as a CTRF report. A test
// that earned a part of its points is failed there; score and points are under
// extra.assay.
func WriteCTRF(w io.Writer, g course.Grade) error {
	out := ctrfOut{ReportFormat: "CTRF", SpecVersion: "1.0.0"}
	res := &out.Results
	res.Tool.Name = "assay"
	res.Summary = ctrfSummary{Tests: len(g.Tests), Start: g.Run.Began.UnixMilli(), Stop: g.Run.Finished.UnixMilli()}
	res.Tests = make([]ctrfTest, 0, len(g.Tests))
	res.Extra = map[string]any{"assay": map[string]any{
		"assignment": g.Assignment, "assignment_version": g.Version, "submission": g.Submission, "submission_digest": g.Digest,
		"score": g.Score, "points": g.Points, "suspicious": g.Suspicious,
	}}
	for i, t := range g.Tests {
		test := ctrfTest{
			Name: t.Name, Message: t.Message, Trace: t.Detail, Stdout: lines(t.Stdout), Stderr: lines(t.Stderr),
			Extra: map[string]any{"assay": ctrfPoints{t.Score, t.Points, t.Bonus, t.Cause, t.Status, t.Visibility}},
		}
		if i < len(g.Run.Tests) {
			test.Duration = (time.Duration(g.Run.Tests[i].TimeUS) * time.Microsecond).Milliseconds()
		}
		switch t.Status {
		case course.Passed:
			test.Status = "passed"
			res.Summary.Passed++
		case course.Skipped:
			test.Status = "skipped"
			res.Summary.Skipped++
		default:
			test.Status = "failed"
			res.Summary.Failed++
		}
		res.Tests = append(res.Tests, test)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(out)
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}
