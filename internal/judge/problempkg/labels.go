package problempkg

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/fault"
	"assay/internal/judge"
)

// Caps on the sources of labelled submissions, in bytes.
const (
	maxSource      = 4 << 20
	maxAllSources  = 256 << 20
	expectationTag = "@EXPECTED_RESULTS@"
)

// submissions reads submissions/<folder>/<file or folder of files>.
func (t *tree) submissions() ([]Labelled, error) {
	var list []Labelled
	var total int64
	for _, name := range t.names {
		rest, ok := strings.CutPrefix(name, "submissions/")
		if !ok {
			continue
		}
		parts := strings.Split(rest, "/")
		if len(parts) < 2 {
			if name != "submissions/submissions.yaml" {
				t.warn("%s is ignored: it lies in no folder that says what it must do", name)
			}
			continue
		}
		if total += t.files[name].size; total > maxAllSources {
			return nil, fault.Errorf(fault.Invalid, "the submissions have more than %d bytes", int64(maxAllSources))
		}
		data, err := t.text(name, maxSource)
		if err != nil {
			return nil, err
		}
		where := path.Join("submissions", parts[0], parts[1])
		if n := len(list); n == 0 || list[n-1].Path != where {
			list = append(list, Labelled{Path: where, Submission: judge.Submission{Name: path.Join(parts[0], parts[1])}})
		}
		s := &list[len(list)-1].Submission
		base := strings.Join(parts[1:], "/")
		if len(parts) > 2 {
			base = strings.Join(parts[2:], "/")
		}
		s.Files = append(s.Files, judge.SourceFile{Name: base, Data: data})
	}
	for i := range list {
		e, warnings := expectation(list[i], strings.Split(list[i].Path, "/")[1])
		list[i].Expectation = e
		for _, w := range warnings {
			t.warn("%s", w)
		}
	}
	return list, nil
}

// expectation says what a submission must do: its tag, if it has one, else the
// folder it lies in (empty for none).
func expectation(l Labelled, folder string) (e judge.Expectation, warnings []string) {
	for _, f := range l.Submission.Files {
		words, ok := findTag(f.Data)
		if !ok {
			continue
		}
		e, unknown := tagExpectation(words)
		if unknown == "" {
			return e, warnings
		}
		warnings = append(warnings, fmt.Sprintf("%s: %s: %q is not known; the tag is ignored", l.Path, expectationTag, clip(unknown)))
	}
	if e, ok := folderExpectations[folder]; ok {
		e.Label = folder
		return e, warnings
	}
	if folder != "" {
		warnings = append(warnings, l.Path+": nothing says what it must do")
	}
	return judge.Expectation{}, warnings
}

var tagLine = regexp.MustCompile(expectationTag + `:?[ \t]*([^\r\n]*)`)

// findTag gives the words of the first tag in a source.
func findTag(data []byte) (words []string, ok bool) {
	i := bytes.Index(data, []byte(expectationTag))
	if i < 0 {
		return nil, false
	}
	m := tagLine.FindSubmatch(data[i:min(len(data), i+1000)])
	if m == nil {
		return nil, false
	}
	for _, w := range strings.Split(string(m[1]), ",") {
		// Ends of comments stay on the line in some languages.
		w = strings.TrimSpace(strings.TrimRight(strings.TrimSpace(w), "*/-># "))
		if w != "" {
			words = append(words, w)
		}
	}
	return words, len(words) > 0
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
	e.Label = expectationTag + ": " + strings.Join(words, ", ")
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
	}
	for other, same := range map[string]string{
		"slow_accepted": "accepted", "pass": "accepted", "runtime_error": "run_time_error", "time_limit": "time_limit_exceeded",
		"compile_error": "compiler_error", "compilation_error": "compiler_error",
		"memory_limit_exceeded": "memory_limit", "output_limit_exceeded": "output_limit",
	} {
		m[other] = m[same]
	}
	return m
}()
