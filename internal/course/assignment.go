package course

import (
	"time"

	"assay/internal/course/tagged"
	"assay/internal/judge"
)

// Mode says how an assignment is graded.
type Mode string

// The modes.
const (
	// IO runs the program once a test, with arguments, files and standard input,
	// and compares what it wrote with the judge's checkers.
	IO Mode = "io"
	// Call calls functions of the submission and compares the values on the host.
	Call Mode = "call"
	// Pytest runs the teacher's pytest files in a machine of their own; calls of
	// the student's module are carried to the student's machine.
	Pytest Mode = "pytest"
	// Harness runs somebody else's autograder beside the submission, in one
	// machine, and treats its result as a claim.
	Harness Mode = "harness"
)

// Visibility says when a student sees a test, or an output.
type Visibility string

// The visibilities, as Gradescope has them.
const (
	Visible        Visibility = "visible"
	AfterDue       Visibility = "after_due" // once the last due date, late days included, is over
	AfterPublished Visibility = "after_published"
	Hidden         Visibility = "hidden"
)

// Assignment is one version of a task: it never changes. A reader fills it; the
// modes only read it.
type Assignment struct {
	// Name is the folder's name, Title what people call it.
	Name, Title string
	// Version is the digest of everything that decides a grade ("sha256:…").
	Version string
	Mode    Mode
	// Language is a language of the judge for io and call ("python3").
	Language string
	// Template is the template of the machines.
	Template string
	// Expected are the files that a student hands in.
	Expected []ExpectedFile
	// Limits hold for each test in io and call, for each test function in pytest
	// and for the whole run in harness.
	Limits Limits
	// Tests are in the order in which they are shown. In pytest and harness they
	// are pinned by a run of the solution: see Pins.
	Tests []Test
	// Default visibility of tests, and of what they print.
	Visibility, StdoutVisibility Visibility
	// Points is the sum of the tests' points; bonus tests are not in it.
	Points judge.Score
	// Seed is handed to the tests (ASSAY_SEED, PYTHONHASHSEED); it never changes
	// between two gradings of a version.
	Seed int64
	// Clock is the time that the student's machine shows at its start; zero is
	// the real one.
	Clock time.Time
	// Files are the files of the assignment that graders need: tests, inputs,
	// the harness. Names are relative to the folder, with slashes.
	Files []File
	// Solution and Starter are the teacher's own; each may be nil.
	Solution, Starter []File
	// StarterProof is what Starter must get; without a Name the teacher said
	// nothing of it.
	StarterProof Proof
	// Proofs are submissions with what each must get; verify runs them.
	Proofs []Proof

	// Pytest and Harness hold what only that mode needs.
	Call    CallRules
	Pytest  PytestRules
	Harness HarnessRules

	// Handing in: used by a course, ignored by a grading.
	Due      LocalTime
	Late     LateRule
	Attempts AttemptRule
}

// ExpectedFile is a name or a pattern of path.Match ("*.py") of what is handed in.
type ExpectedFile struct {
	Pattern  string
	Optional bool
}

// Limits bound the student's code. Zero is the mode's default.
type Limits struct {
	Time      time.Duration // CPU time
	Wall      time.Duration
	Memory    int64 // bytes
	Output    int64 // bytes of standard output and of standard error, each
	Processes int
	Disk      int64 // bytes
}

// Test is one test of an assignment.
type Test struct {
	// ID is the test's name in its own system: the pytest node, the name in a
	// harness's report. In io and call it is Name.
	ID string
	// Name is what people see; no two tests of an assignment share one.
	Name   string
	Points judge.Score
	// Bonus points are given on top of Assignment.Points.
	Bonus      bool
	Visibility Visibility
	// Message is the teacher's word for a student whose test failed.
	Message string
	// Details lets the student see Finding.Detail of this test, where the test
	// itself may be seen.
	Details bool

	// Pinned is what mode harness learnt of the test from runs of the solution.
	Pinned *HarnessPin `json:",omitempty"`

	// In io and call, one is set.
	IO   *IOTest
	Call *CallTest
}

// IOTest runs the program once.
type IOTest struct {
	Args []string
	// Stdin is the standard input; nil is empty.
	Stdin []byte
	// Files lie in the working directory before the program starts.
	Files []File
	// Stdout is compared by the judge's default checker; nil is not compared.
	Stdout []byte
	// Check are the flags of the judge's default checker (case_sensitive,
	// float_tolerance 1e-6, …).
	Check []string
	// Exit is the exit code wanted.
	Exit int
	// Outputs are files that the program must have written, compared as Stdout is.
	Outputs []File
}

// CallTest calls functions of the submission, or makes an object and calls its
// methods, and compares what came of it.
type CallTest struct {
	// Steps are done one after another in one process; the first that comes out
	// otherwise fails the test.
	Steps []CallStep
	// Stdin is what the program may read; Stdout, unless nil, is what the steps
	// must have written, but for white space at line ends and at the end.
	Stdin  string
	Stdout *string
	// Tolerance lets floats differ by so much, absolutely or relatively.
	Tolerance float64
	// Unordered compares lists as sets with repetitions.
	Unordered bool
}

// CallStep is one call. One of New, Call and Get is set.
type CallStep struct {
	// New makes an object of a class ("Stack").
	New string
	// Call is a method of the object made before, or else a function ("is_leap",
	// in Java "Main.isLeap"). In C++ both may have the types of the parameters
	// behind ("area(double, double)"), and must where the name has overloads.
	Call string
	// Get reads an attribute of the object, or a variable of the module.
	Get string

	Args   []tagged.Value
	Kwargs []CallKeyword
	// Value is the value wanted; nil is any.
	Value *tagged.Value
	// Raises is the class of the exception wanted in place of a value, or a class
	// above it; RaisesText must then be in its message.
	Raises, RaisesText string
	// After are the arguments as they must be after the call; nil is any.
	After []tagged.Value
}

// CallKeyword is a keyword argument of Python.
type CallKeyword struct {
	Name  string
	Value tagged.Value
}

// CallRules are the settings of mode call.
type CallRules struct {
	// Module is the file that is loaded or included first ("geometry.py",
	// "stack.h"); empty is the only source handed in, or the first that is expected
	// by name. Java needs none.
	Module string
	// Files are patterns of Assignment.Files that lie beside what was handed in,
	// and in place of a file of the same name ("shapes.h", "words.txt").
	Files []string
}

// PytestRules are the settings of mode pytest.
type PytestRules struct {
	// Paths are the test files or folders among Assignment.Files ("tests").
	Paths []string
	// Modules are the student's modules that the tests import; empty: every
	// Python file handed in.
	Modules []string
	// ValueClasses are classes of the student whose instances may be compared
	// with plain values by the student's own code.
	ValueClasses []string
	// Points is what a test gets that Tests does not name.
	Points judge.Score
}

// HarnessRules are the settings of mode harness.
type HarnessRules struct {
	// Format is gradescope, prairielearn, autolab or command.
	Format string
	// Path is the zip, tar or folder of the harness among Assignment.Files.
	Path string
	// Command is run in a folder with harness and submission, for format command.
	Command []string
	// Report is the file that Command writes, ReportFormat how: junit, ctrf, tap,
	// pytest-json, go-test-json.
	Report, ReportFormat string
	// SkippedCounts gives a skipped test its points.
	SkippedCounts bool
	// BaseName is the name of the file handed in, for autolab.
	BaseName string
}

// HarnessPin is what runs of the solution showed of one test of a harness. Only
// package harness makes and reads it; it is kept with the test.
type HarnessPin struct {
	// Max is the maximum that the harness itself gives the test.
	Max judge.Score
	// Above says that the solution got more than Max.
	Above bool `json:",omitempty"`
	// Decoys are the decoys of the solution that fail the test: those of a
	// submission must, too. Without one the test cannot be checked.
	Decoys []string `json:",omitempty"`
	// Touched is what the solution's code did to the harness around it, and may.
	// The first test has it for all.
	Touched []string `json:",omitempty"`
}

// Proof is a submission that comes with the assignment, and what it must get.
type Proof struct {
	Name  string
	Files []File
	// Score is the score wanted; Full wants all points.
	Score judge.Score
	Full  bool
	// Suspicious wants the attempt flagged.
	Suspicious bool
	// Cause, unless empty, must be the cause of death of at least one test or of
	// the whole run.
	Cause Cause
}
