package cli

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"testing"
	"time"
	"unicode/utf8"

	"assay/internal/judge"
)

// TestJUnitIsWellFormed writes text of strangers and reads it back.
func TestJUnitIsWellFormed(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	hostile := "]]></testcase>&<\"'\x00\x1b[31m\xff\ufffe\u2028 <!-- "
	one := func(v judge.Verdict, e judge.Expectation) judged {
		r := judge.Run{
			Verdict: v, Reason: hostile, Submission: judge.SubmissionInfo{Name: hostile, Language: "c"}, TimeUS: 1500,
			StartedAt: start, FinishedAt: start.Add(1500 * time.Millisecond),
		}
		return judged{run: r, row: e.Compare(r)}
	}
	wa := judge.Expectation{Label: hostile, Final: []judge.Verdict{judge.WrongAnswer}}
	data, err := junit([]suite{{
		name: hostile, findings: []judge.Finding{{Wrong: true, Where: hostile, Text: hostile}, {Text: "only a warning"}},
		runs: []judged{
			one(judge.WrongAnswer, wa), one(judge.Accepted, wa), one(judge.JudgeError, wa), one(judge.Skipped, wa),
			one(judge.Accepted, judge.Expectation{}), one(judge.WrongAnswer, judge.Expectation{}),
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if !utf8.Valid(data) {
		t.Error("not UTF-8")
	}
	for d := xml.NewDecoder(bytes.NewReader(data)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, data)
		}
	}
	var doc junitSuites
	if err := xml.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Tests != 7 || doc.Failures != 3 || doc.Errors != 1 || len(doc.Suites) != 1 {
		t.Fatalf("counts: %+v", doc)
	}
	s := doc.Suites[0]
	if s.Skipped != 1 || s.Time != "9.000" || s.Timestamp != "2026-01-02T03:04:05" {
		t.Errorf("suite: skipped %d, time %s, timestamp %s", s.Skipped, s.Time, s.Timestamp)
	}
	want := []string{"failure", "", "failure", "error", "skipped", "", "failure"}
	for i, c := range s.Cases {
		got := ""
		switch {
		case c.Failure != nil:
			got = "failure"
		case c.Error != nil:
			got = "error"
		case c.Skipped != nil:
			got = "skipped"
		}
		if got != want[i] {
			t.Errorf("case %d: %q, want %q", i, got, want[i])
		}
	}
}
