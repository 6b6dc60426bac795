package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"assay/internal/course"
	"assay/internal/course/testreport"
	"assay/internal/judge"
)

// result is what a harness claims, read strictly.
type result struct {
	claims []claim
	// total is a score of the whole beside those of tests, nil where there is
	// none; totalMax is its maximum, nil if it is not said.
	total, totalMax *judge.Score
	// text is for staff.
	text string
	// visibility is the default of tests, "" if it says nothing.
	visibility course.Visibility
}

// claim is what a harness says of one test.
type claim struct {
	// id is the same in every run of a harness; name is for people.
	id, name string
	// score and max are what it says, nil where it does not.
	score, max *judge.Score
	// status is what it says, or "".
	status     course.Status
	message    string
	visibility course.Visibility
}

const (
	maxResult = testreport.MaxBytes
	maxTests  = testreport.MaxTests
	maxText   = 8 << 10
	maxName   = 300
)

// number is a finite JSON number, or a string that is one.
type number struct{ score *judge.Score }

func (n *number) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	text := string(data)
	if len(text) > 1 && text[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	// Runners write floats with more digits than a mark has.
	if f, err := strconv.ParseFloat(text, 64); err == nil && len(text) > 20 {
		text = strconv.FormatFloat(f, 'g', 15, 64)
	}
	s, err := judge.ParseScore(text)
	if err != nil {
		return err
	}
	n.score = &s
	return nil
}

// decode reads exactly one JSON value.
func decode(data []byte, into any) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("it is empty")
	}
	if !utf8.Valid(data) {
		data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	return json.Unmarshal(data, into)
}

// wholeID is the one test of a harness whose total is not the sum of its tests.
const wholeID = "(score)"

// whole reports whether the total is something else than the sum of the tests:
// then it is the mark.
func (r result) whole() bool {
	return r.total != nil && r.total.Cmp(r.sum()) != 0
}

func (r result) sum() judge.Score {
	var sum judge.Score
	for _, c := range r.claims {
		if c.score != nil {
			sum = sum.Add(*c.score)
		}
	}
	return sum
}

// marks are the claims that points are given for. Where the total is the mark,
// it is a test of its own and the others are worth nothing; else a total that
// is below the sum takes from each test its part.
func (r result) marks(whole bool) []claim {
	all := numbered(r.claims)
	if whole {
		for i := range all {
			all[i].informative()
		}
		if r.total != nil {
			all = append([]claim{{id: wholeID, name: "Score", score: r.total, max: r.totalMax}}, all...)
		}
		return all
	}
	if sum := r.sum(); r.total != nil && r.total.Cmp(sum) < 0 && sum.Sign() > 0 {
		for i, c := range all {
			if c.score != nil {
				less := c.score.Mul(r.total.Quo(sum))
				all[i].score = &less
			}
		}
	}
	return all
}

// informative makes a claim worth nothing: only whether it passed is kept.
func (c *claim) informative() {
	if c.status == "" && c.score != nil && c.max != nil {
		c.status = course.Failed
		if c.score.Cmp(*c.max) >= 0 {
			c.status = course.Passed
		}
	}
	zero := judge.IntScore(0)
	c.score, c.max = &zero, &zero
}

// add appends a claim, made fit to be shown, or says that there are too many.
func (r *result) add(c claim) error {
	if len(r.claims) == maxTests {
		return fmt.Errorf("it has more than %d tests", maxTests)
	}
	c.id, c.name, c.message = clip(course.Clean(c.id), maxName), clip(course.Clean(c.name), maxName), clip(course.Clean(c.message), maxText)
	r.claims = append(r.claims, c)
	return nil
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// fromReport takes a report of a test runner, in which each test is worth one
// point and a skipped one nothing unless the assignment says so.
func fromReport(rep testreport.Report, skippedCounts bool) (result, error) {
	var r result
	one := judge.IntScore(1)
	for _, t := range rep.Tests {
		score := judge.IntScore(0)
		if t.Status == course.Passed || t.Status == course.Skipped && skippedCounts {
			score, t.Status = one, course.Passed
		}
		if err := r.add(claim{id: t.Name, name: t.Name, score: &score, max: &one, status: t.Status, message: t.Message}); err != nil {
			return r, err
		}
	}
	return r, nil
}
