package call

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"assay/internal/course"
	"assay/internal/course/tagged"
	"assay/internal/sandbox"
)

// outcome is what one run of a test came to.
type outcome struct {
	// Cause is why the program did not come to the end of the test; How says it
	// in words, for staff.
	Cause course.Cause
	How   string
	// Results are of the steps, as far as they came.
	Results        []result
	Stdout, Stderr output
	Usage          sandbox.Usage
}

// decide makes a finding of what a test came to. It is a pure function.
func decide(t course.Test, o outcome, d dialect) course.Finding {
	f := course.Finding{Test: t.ID, Status: course.Passed, Usage: o.Usage}
	var cutOut, cutErr bool
	f.Stdout, cutOut = shown(o.Stdout)
	f.Stderr, cutErr = shown(o.Stderr)
	f.Truncated = cutOut || cutErr
	c := t.Call
	if o.Cause != course.NoCause {
		f.Status, f.Cause = course.Errored, o.Cause
		f.Detail = strings.TrimSpace(callText(c, len(c.Steps)-1) + "\n" + o.How)
		return f
	}
	rules := tagged.Rules{Tolerance: c.Tolerance, Unordered: c.Unordered, Loose: d.loose}
	for i, s := range c.Steps {
		if i >= len(o.Results) {
			f.Status, f.Cause, f.Detail = course.Errored, course.NoResult, callText(c, i)+"\nno result came"
			return f
		}
		if why, ended := differs(s, o.Results[i], rules, d); why != "" {
			f.Status, f.Detail = course.Failed, callText(c, i)+"\n"+why
			if ended {
				f.Status, f.Cause = course.Errored, course.EndedTest
			}
			return f
		}
	}
	if c.Stdout != nil {
		if want, got := trimmed(*c.Stdout), trimmed(string(o.Stdout.Data)); want != got {
			f.Status, f.Detail = course.Failed, fmt.Sprintf("%s\noutput: %s wanted, got %s", callText(c, len(c.Steps)-1), tagged.OfString(want), tagged.OfString(got))
		}
	}
	return f
}

// differs says how a result is not what a step wanted, or gives "". ended is set
// where the program asked for its own end.
func differs(s course.CallStep, r result, rules tagged.Rules, d dialect) (why string, ended bool) {
	switch {
	case r.Missing != "":
		return fmt.Sprintf("the program has no %s", clip(r.Missing)), false
	case r.Raised != nil && s.Raises == "":
		return "raised " + r.Raised.String(), d.exits != "" && r.Raised.Class == d.exits
	case r.Raised != nil:
		if !d.is(*r.Raised, s.Raises) {
			return fmt.Sprintf("raises: %s wanted, got %s", s.Raises, r.Raised), false
		}
		if !strings.Contains(r.Raised.Text, s.RaisesText) {
			return fmt.Sprintf("raises: a message with %s wanted, got %s", tagged.OfString(s.RaisesText), r.Raised), false
		}
	case r.Unplain != "":
		return "the value cannot be compared: " + clip(r.Unplain), false
	case s.Raises != "":
		return fmt.Sprintf("raises: %s wanted, got the value %s", s.Raises, valueText(r.Value)), false
	case r.Value == nil:
		return "no value came", false
	case s.Value != nil:
		if why := tagged.Diff(*s.Value, *r.Value, rules); why != "" {
			return why, false
		}
	}
	if s.After != nil {
		why := tagged.Diff(tagged.Of(tagged.List, s.After...), tagged.Of(tagged.List, r.After...), tagged.Rules{Tolerance: rules.Tolerance, Loose: rules.Loose})
		if why != "" {
			return "arguments after the call, as one list: " + why, false
		}
	}
	return "", false
}

func valueText(v *tagged.Value) string {
	if v == nil {
		return "(none)"
	}
	return v.String()
}

func (r raised) String() string {
	text := clip(r.Class)
	if r.Text != "" {
		text += ": " + clip(r.Text)
	}
	if r.Trace != "" {
		text += "\n" + clip(r.Trace)
	}
	return text
}

// clip is a text of the program's that is shown in a sentence.
func clip(s string) string {
	const most = 1000
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// callText is a call as people write it, with the calls before it.
func callText(c *course.CallTest, last int) string {
	const most = 4
	var lines []string
	for i, s := range c.Steps[:last+1] {
		if i < last-most {
			continue
		}
		var args []string
		for _, a := range s.Args {
			args = append(args, a.String())
		}
		for _, k := range s.Kwargs {
			args = append(args, k.Name+"="+k.Value.String())
		}
		line := s.Get
		if line == "" {
			line = s.New + s.Call + "(" + strings.Join(args, ", ") + ")"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// trimmed is a text without white space at line ends and at its end.
func trimmed(s string) string {
	lines := strings.Split(strings.ToValidUTF8(s, "\uFFFD"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " \t\r")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// shown is an output as a finding keeps it: the middle is dropped where it is long.
func shown(o output) (text string, cut bool) {
	data := o.Data
	if len(data) <= course.MaxShownOutput {
		return strings.ToValidUTF8(string(data), "\uFFFD"), o.Size > int64(len(data))
	}
	half := course.MaxShownOutput / 2
	head, tail := data[:half], data[len(data)-half:]
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return strings.ToValidUTF8(string(slices.Concat(head, []byte("\n…\n"), tail)), "\uFFFD"), true
}
