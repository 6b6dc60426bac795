package problempkg

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"assay/internal/judge"
)

// The tags in sources that say what they must do.
const (
	resultsTag = "@EXPECTED_RESULTS@"
	scoreTag   = "@EXPECTED_SCORE@"
	gradesTag  = "@EXPECTED_GRADES@"
)

// tags are the words of the first tag of each kind in a submission's files.
type tags struct{ results, score, grades []string }

func readTags(files []judge.SourceFile) tags {
	var t tags
	for _, f := range files {
		for _, k := range []struct {
			tag  string
			into *[]string
		}{{resultsTag, &t.results}, {scoreTag, &t.score}, {gradesTag, &t.grades}} {
			if words, ok := findTag(f.Data, k.tag); ok && *k.into == nil {
				*k.into = words
			}
		}
	}
	// Some packages write verdicts where a score would stand.
	if len(t.score) > 0 {
		if _, err := judge.ParseScore(t.score[0]); err != nil {
			if t.results == nil {
				t.results = t.score
			}
			t.score = nil
		}
	}
	return t
}

// expectation says what a submission must do: its tag, if it has one, else the
// folder it lies in (empty for none), by the legacy format.
func expectation(l Labelled, folder string) (e judge.Expectation, warnings []string) {
	t := readTags(l.Submission.Files)
	labelled := false
	if t.results != nil {
		var unknown string
		if e, unknown = tagExpectation(t.results); unknown == "" {
			labelled = true
		} else {
			warnings = append(warnings, fmt.Sprintf("%s: %s: %q is not known; the tag is ignored", l.Path, resultsTag, clip(unknown)))
		}
	}
	if known, ok := folderExpectations[folder]; ok && !labelled {
		e, labelled = known, true
		e.Label = folder
	}
	if len(t.score) > 0 {
		s, err := judge.ParseScore(t.score[0])
		if err == nil {
			labelled = true
			e.Low, e.High = &s, &s
			e.Label = strings.TrimPrefix(e.Label+", "+scoreTag+": "+t.score[0], ", ")
		}
	}
	if !labelled && folder != "" && t.grades == nil {
		warnings = append(warnings, l.Path+": nothing says what it must do")
	}
	return e, warnings
}

// findTag gives the words of the first such tag in a source.
func findTag(data []byte, tag string) (words []string, ok bool) {
	if tag != gradesTag {
		// Without the colon, somebody only writes about the tag.
		tag += ":"
	}
	i := bytes.Index(data, []byte(tag))
	if i < 0 {
		return nil, false
	}
	line, _, _ := bytes.Cut(data[i+len(tag):min(len(data), i+1000)], []byte("\n"))
	text := strings.ReplaceAll(string(bytes.TrimPrefix(line, []byte(":"))), "\r", "")
	if tag != gradesTag {
		words = strings.Split(text, ",")
	} else {
		words = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
	}
	var kept []string
	for _, w := range words {
		// Ends of comments stay on the line in some languages.
		w = strings.TrimSpace(strings.TrimRight(strings.TrimSpace(w), "*/-># "))
		if w != "" {
			kept = append(kept, w)
		}
	}
	return kept, len(kept) > 0
}

// tagWords are the names seen in tags, by what they allow. Where the name is
// from a system without MLE, a memory limit shows as a run-time error.
var tagWords = map[string][]judge.Verdict{
	"CORRECT": {judge.Accepted}, "ACCEPTED": {judge.Accepted}, "AC": {judge.Accepted},
	"WRONG-ANSWER": {judge.WrongAnswer, judge.PresentationError}, "WA": {judge.WrongAnswer, judge.PresentationError},
	"NO-OUTPUT": {judge.WrongAnswer}, "PRESENTATION-ERROR": {judge.PresentationError, judge.WrongAnswer}, "PE": {judge.PresentationError, judge.WrongAnswer},
	"TIMELIMIT": {judge.TimeLimitExceeded}, "TIME-LIMIT-EXCEEDED": {judge.TimeLimitExceeded}, "TLE": {judge.TimeLimitExceeded},
	"RUN-ERROR": {judge.RunTimeError, judge.MemoryLimitExceeded}, "RUN-TIME-ERROR": {judge.RunTimeError, judge.MemoryLimitExceeded},
	"RTE": {judge.RunTimeError, judge.MemoryLimitExceeded}, "RE": {judge.RunTimeError},
	"COMPILER-ERROR": {judge.CompileError}, "COMPILE-ERROR": {judge.CompileError}, "CE": {judge.CompileError},
	"OUTPUT-LIMIT": {judge.OutputLimitExceeded}, "OUTPUT-LIMIT-EXCEEDED": {judge.OutputLimitExceeded}, "OLE": {judge.OutputLimitExceeded},
	"MEMORY-LIMIT": {judge.MemoryLimitExceeded}, "MEMORY-LIMIT-EXCEEDED": {judge.MemoryLimitExceeded}, "MLE": {judge.MemoryLimitExceeded},
	"CHECK-MANUALLY": nil,
}

// tagExpectation reads the words of a tag; unknown is the first it cannot.
func tagExpectation(words []string) (e judge.Expectation, unknown string) {
	e.Label = resultsTag + ": " + strings.Join(words, ", ")
	for _, w := range words {
		verdicts, ok := tagWords[strings.ReplaceAll(strings.ToUpper(w), "_", "-")]
		if !ok {
			return judge.Expectation{}, w
		}
		if verdicts == nil {
			return judge.Expectation{Label: e.Label}, ""
		}
		for _, v := range verdicts {
			if !slices.Contains(e.Final, v) {
				e.Final = append(e.Final, v)
			}
		}
	}
	return e, ""
}

// folderExpectations are the folders of the legacy format, and others seen in
// packages. The format has four letters only: a memory limit counts as a
// run-time error there, an output limit as that or a wrong answer.
var folderExpectations = func() map[string]judge.Expectation {
	const (
		ac, wa, pe, tle = judge.Accepted, judge.WrongAnswer, judge.PresentationError, judge.TimeLimitExceeded
		re, mle, ole    = judge.RunTimeError, judge.MemoryLimitExceeded, judge.OutputLimitExceeded
	)
	type list = []judge.Verdict
	m := map[string]judge.Expectation{
		"accepted":            {Permitted: list{ac}, Required: list{ac}},
		"wrong_answer":        {Permitted: list{ac, wa, pe, ole}, Required: list{wa, pe, ole}},
		"time_limit_exceeded": {Permitted: list{ac, wa, pe, tle}, Required: list{tle}},
		"run_time_error":      {Permitted: list{ac, wa, pe, tle, ole, re, mle}, Required: list{re, mle, ole}},
		"rejected":            {Required: list{wa, pe, tle, mle, ole, re, judge.CompileError}},
		"compiler_error":      {Final: list{judge.CompileError}},
		"memory_limit":        {Permitted: list{ac, mle}, Required: list{mle}},
		"output_limit":        {Permitted: list{ac, ole}, Required: list{ole}},
		"no_output":           {Permitted: list{ac, wa}, Required: list{wa}},
		"brute_force":         {Permitted: list{ac, tle, re, mle, ole}, Required: list{tle, re, mle, ole}},
		"partially_accepted":  {Final: list{ac}},
		"mixed":               {},
	}
	for other, same := range map[string]string{
		"slow_accepted": "accepted", "pass": "accepted", "runtime_error": "run_time_error", "time_limit": "time_limit_exceeded",
		"compile_error": "compiler_error", "compilation_error": "compiler_error",
		"memory_limit_exceeded": "memory_limit", "output_limit_exceeded": "output_limit",
		"mixed-verdicts": "mixed", "multiple": "mixed", "check_manually": "mixed", "partial": "mixed",
	} {
		m[other] = m[same]
	}
	return m
}()
