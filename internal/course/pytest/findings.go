package pytest

import (
	"path"
	"strings"
	"time"

	"assay/internal/course"
	"assay/internal/sandbox"
)

// Bounds of what is kept of a run, in bytes.
const (
	maxLog    = 64 << 10
	maxDetail = 32 << 10
)

// findings collects what is known of each test.
type findings struct {
	order []*testState
	byID  map[string]*testState
	// current is the test that runs; outside of tests it is outside.
	current *testState
	outside testState
	// last is why the student's process is no more.
	last death
	// failed are the files whose tests could not be collected.
	failed  []uncollected
	imports []importError
	log     keptText
}

type death struct {
	cause course.Cause
	text  string
	in    *testState
}

type uncollected struct{ id, text string }

type importError struct{ module, text string }

// testState is one test, or what is outside of all.
type testState struct {
	id             string
	setup, call    string // outcomes of pytest
	teardown       string
	death          death
	detail         keptText
	stdout, stderr keptText
	printed        int64
	carried        int64
	used           time.Duration
}

func newFindings() findings {
	f := findings{byID: map[string]*testState{}, log: keptText{max: maxLog}}
	f.outside = newState("")
	return f
}

func newState(id string) testState {
	return testState{
		id: id, detail: keptText{max: maxDetail},
		stdout: keptText{max: course.MaxShownOutput}, stderr: keptText{max: course.MaxShownOutput},
	}
}

func (f *findings) at() *testState {
	if f.current != nil {
		return f.current
	}
	return &f.outside
}

func (f *findings) used() time.Duration { return f.at().used }

func (f *findings) use(d time.Duration) { f.at().used += d }

// carried counts bytes that the student's process sent in this test.
func (f *findings) carried(n int) int64 {
	f.at().carried += int64(n)
	return f.at().carried
}

// print keeps text and gives how much was printed in this test, in bytes.
func (f *findings) print(p printed) int64 {
	t := f.at()
	if p.isStderr {
		t.stderr.add(p.text)
	} else {
		t.stdout.add(p.text)
	}
	t.printed += int64(len(p.text))
	return t.printed
}

// die notes why the student's process is no more, and that the test that runs
// suffers from it.
func (f *findings) die(cause course.Cause, text string) {
	f.last = death{cause, text, f.at()}
	f.blame()
}

// blame lets the test that runs fail for the process that is no more.
func (f *findings) blame() {
	if t := f.at(); t.death.cause == course.NoCause {
		t.death = f.last
	}
}

// diedHere reports whether the process ended in the test that runs.
func (f *findings) diedHere() bool { return f.last.in == f.at() }

// death is a sentence about the process that is no more.
func (f *findings) death() string { return "the student's program " + f.last.text }

// stuck notes that the tests' process cannot go on.
func (f *findings) stuck() {
	if t := f.at(); t.death.cause == course.NoCause {
		t.death = death{cause: course.NoResult, text: "gave the test what it could not work with"}
	}
}

func (f *findings) notImported(module, text string) {
	f.imports = append(f.imports, importError{module, text})
}

// tail is the end of what both processes said by themselves.
func (f *findings) tail() string {
	text := strings.TrimSpace(f.at().stderr.String() + "\n" + f.log.String())
	if len(text) > 1000 {
		text = text[len(text)-1000:]
	}
	return course.Clean(text)
}

// What the tests' process reports.

func (f *findings) collected(ids []string) {
	for _, id := range ids {
		if f.byID[id] == nil {
			t := newState(id)
			f.byID[id] = &t
			f.order = append(f.order, &t)
		}
	}
}

func (f *findings) uncollected(id, text string) {
	f.failed = append(f.failed, uncollected{id, text})
	f.log.add(id + ":\n" + text + "\n")
}

func (f *findings) start(id string) {
	f.collected([]string{id})
	f.current = f.byID[id]
}

func (f *findings) finish() { f.current = nil }

func (f *findings) phase(r graderFrame) {
	t := f.byID[r.ID]
	if t == nil {
		return
	}
	outcome := r.Outcome
	if r.Xfail && outcome == "skipped" {
		outcome = "xfailed"
	}
	switch r.When {
	case "setup":
		t.setup = outcome
	case "call":
		t.call = outcome
	case "teardown":
		t.teardown = outcome
	}
	if r.Text != "" {
		t.detail.add(r.Text + "\n")
	}
}

// finding is what is known of a test at the end.
func (t *testState) finding() course.Finding {
	fd := course.Finding{
		Test: t.id, Cause: t.death.cause, Detail: strings.TrimSpace(t.detail.String()), Stdout: t.stdout.String(), Stderr: t.stderr.String(),
		Truncated: t.stdout.cut() || t.stderr.cut(), Usage: sandbox.Usage{Wall: t.used, Counted: t.used},
	}
	switch {
	case t.death.cause != course.NoCause:
		fd.Status = course.Errored
		fd.Detail = strings.TrimSpace("the student's program " + t.death.text + "\n" + fd.Detail)
	case t.setup == "" || t.teardown == "":
		fd.Status, fd.Cause = course.Errored, course.NoResult
	case t.setup == "failed" || t.teardown == "failed":
		fd.Status = course.Errored
	case t.call == "failed":
		fd.Status = course.Failed
	case t.call == "passed" && t.setup == "passed":
		fd.Status = course.Passed
	default:
		fd.Status = course.Skipped
	}
	return fd
}

// report makes the report of a run. Tests of the assignment in a file that could
// not be collected get the reason.
func (f *findings) report(a *course.Assignment, s course.Submission) course.Report {
	var r course.Report
	for _, t := range f.order {
		r.Findings = append(r.Findings, t.finding())
	}
	cause, build := f.importCause(s)
	r.Build = build
	if len(f.failed) > 0 {
		for _, t := range a.Tests {
			if text, ok := f.uncollectedText(t.ID); ok && f.byID[t.ID] == nil {
				r.Findings = append(r.Findings, course.Finding{
					Test: t.ID, Status: course.Errored, Cause: cause, Detail: text, Stdout: f.outside.stdout.String(), Stderr: f.outside.stderr.String(),
				})
			}
		}
		if len(f.order) == 0 && len(a.Tests) > 0 {
			r.Cause = cause
		}
	}
	if f.outside.death.cause == course.NoResult {
		r.Cause = course.NoResult
	}
	r.Log = f.log.String()
	if out := f.outside.stdout.String() + f.outside.stderr.String(); out != "" {
		r.Log += "\nprinted outside of tests:\n" + out
	}
	return r
}

func (f *findings) uncollectedText(id string) (string, bool) {
	file, _, _ := strings.Cut(id, "::")
	for _, u := range f.failed {
		if u.id == file || u.id == id || strings.HasPrefix(file, path.Clean(u.id)+"/") {
			return u.text, true
		}
	}
	return "", false
}

// importCause is why a file of tests could not be collected, and the student's
// own error.
func (f *findings) importCause(s course.Submission) (course.Cause, string) {
	if f.outside.death.cause != course.NoCause {
		return f.outside.death.cause, "the program " + f.outside.death.text + " while it was imported"
	}
	if len(f.imports) == 0 {
		// With the solution they could: the student's module lacks something.
		return course.NotImported, ""
	}
	first := f.imports[0]
	if !moduleFile(s.Files, first.module) {
		return course.MissingFile, "there is no file for the module " + first.module
	}
	return course.NotImported, first.text
}

// keptText keeps the beginning and the end of text.
type keptText struct {
	max        int
	head, tail []byte
	dropped    int64
}

func (k *keptText) add(s string) {
	n := min(len(s), k.max/2-len(k.head))
	k.head = append(k.head, s[:n]...)
	k.tail = append(k.tail, s[n:]...)
	if over := len(k.tail) - k.max/2; over > 0 {
		k.dropped += int64(over)
		k.tail = k.tail[over:]
	}
}

func (k *keptText) cut() bool { return k.dropped > 0 }

func (k *keptText) String() string {
	middle := ""
	if k.cut() {
		middle = "\n…\n"
	}
	return strings.ToValidUTF8(string(k.head)+middle+string(k.tail), "\uFFFD")
}
