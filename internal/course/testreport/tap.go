package testreport

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"assay/internal/course"
)

var (
	tapLine = regexp.MustCompile(`^(not )?ok\b(?:[ \t]+([0-9]{1,6}))?[ \t]*(.*)$`)
	tapPlan = regexp.MustCompile(`^1\.\.[0-9]{1,6}\b`)
	tapMark = regexp.MustCompile(`(?i)[ \t]#[ \t]*(skip|todo)\S*[ \t]*(.*)$`)
)

// parseTAP reads versions 12 to 14. Subtests are indented and count by their
// parent only; a test's name is its description, without one its number.
func parseTAP(data []byte) (Report, error) {
	var r Report
	plans, bailed := 0, false
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		if bailed {
			break
		}
		switch {
		case strings.HasPrefix(line, "Bail out!"):
			bailed = true
		case tapPlan.MatchString(line):
			if plans++; plans > 1 {
				return Report{}, errors.New("it has two plans")
			}
		case strings.HasPrefix(line, "#") || strings.HasPrefix(line, " ") && len(r.Tests) > 0:
			if n := len(r.Tests); n > 0 && r.Tests[n-1].Status != course.Passed {
				r.Tests[n-1].Message = clip(joined("\n", r.Tests[n-1].Message, course.Clean(strings.TrimSpace(line))), maxMessage)
			}
		default:
			m := tapLine.FindStringSubmatch(line)
			if m == nil {
				continue // what a program printed
			}
			if err := r.add(tapTest(m, len(r.Tests)+1)); err != nil {
				return Report{}, err
			}
		}
	}
	if plans == 0 && len(r.Tests) == 0 {
		return Report{}, errors.New("it has neither a plan nor a test")
	}
	return r, nil
}

func tapTest(m []string, n int) Test {
	t := Test{Status: course.Passed}
	if m[1] != "" {
		t.Status = course.Failed
	}
	name := m[3]
	if mark := tapMark.FindStringSubmatchIndex(" " + name); mark != nil {
		full := " " + name
		// A test still to be done is not done: it earns nothing either way.
		t.Status, t.Message = course.Skipped, full[mark[4]:mark[5]]
		name = full[:mark[0]]
	}
	t.Name = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(name), "-"))
	if t.Name == "" {
		number := m[2]
		if number == "" {
			number = fmt.Sprint(n)
		}
		t.Name = "test " + number
	}
	return t
}
