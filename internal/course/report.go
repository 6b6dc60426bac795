package course

import (
	"time"

	"assay/internal/judge"
	"assay/internal/sandbox"
)

// Cause says why a student's program did not finish a test: exactly one, in
// words for students (Text).
type Cause string

// The causes of death.
const (
	NoCause       Cause = ""
	TimeLimit     Cause = "time"
	MemoryLimit   Cause = "memory"
	OutputLimit   Cause = "output"
	ProcessLimit  Cause = "processes"
	DiskLimit     Cause = "disk"
	EndedTest     Cause = "ended_test_process" // exited by itself in the middle of a test
	Crashed       Cause = "crashed"            // a signal
	NotCompiled   Cause = "not_compiled"
	NotImported   Cause = "not_imported" // the module cannot be loaded
	MissingFile   Cause = "missing_file"
	RefusedFiles  Cause = "refused_files" // an archive or a name that is not taken
	NoResult      Cause = "no_result"
	InvalidResult Cause = "invalid_result"
	OurFailure    Cause = "our_failure"
)

// Status is the outcome of one test.
type Status string

// The outcomes. Only Passed earns points, and Partial its share.
const (
	Passed  Status = "passed"
	Partial Status = "partial"
	Failed  Status = "failed"
	// Errored: the test could not be finished; its Cause may say more.
	Errored Status = "error"
	Skipped Status = "skipped"
	// Missing: the assignment has the test and no result came for it.
	Missing Status = "missing"
)

// Report is what a Grader found. Nothing in it is points: Decide gives them.
type Report struct {
	Findings []Finding
	// Cause is why no test, or not all tests, could be run: of the whole run.
	Cause Cause
	// Log is for staff: a compiler's messages, a harness's output. It may hold
	// what students must not see.
	Log string
	// Build is the compiler's or importer's message about the student's own
	// code, which the student may see. It has nothing of the tests in it.
	Build string
	// Suspicions are reasons to look at the attempt. They never change points
	// by themselves.
	Suspicions []Suspicion
	// Machines are those used, for the record.
	Machines []judge.MachineInfo
	// Phases are when what was done, in order.
	Phases []Phase
}

// Phase is one step of a grading and when it began.
type Phase struct {
	Name  string        `json:"name"`
	Began time.Time     `json:"began"`
	Took  time.Duration `json:"took_ns"`
}

// Suspicion is one deviation that a person should look at.
type Suspicion struct {
	// Kind is for programs: early_exit, missing_test, extra_test, changed_maximum,
	// left_processes, forged_result, invalid_result, read_tests.
	Kind string `json:"kind"`
	// Text is for people, one sentence.
	Text string `json:"text"`
}

// Finding is the outcome of one test.
type Finding struct {
	// Test is Test.ID.
	Test   string
	Status Status
	// Share is the part of the points earned when Status is Partial: 0 to 1.
	Share judge.Score
	Cause Cause
	// Detail is for staff: the assertion, the difference. It may show hidden
	// inputs and expectations.
	Detail string
	// Stdout and Stderr are what the student's code wrote in this test, cut to
	// MaxShownOutput with the middle dropped.
	Stdout, Stderr string
	Truncated      bool
	Usage          sandbox.Usage
}

// MaxShownOutput is how many bytes of each output a finding keeps.
const MaxShownOutput = 64 << 10
