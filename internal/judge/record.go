package judge

import (
	"time"

	"assay/internal/sandbox"
)

// Run is the record of one judging: the verdict, and everything that made it.
// With the package and the sources it is enough to judge again. Times are in
// microseconds, sizes in bytes; the unit is in every name.
type Run struct {
	ID      string  `json:"id"`
	Verdict Verdict `json:"verdict"`
	// Reason is a sentence for people; empty for AC.
	Reason string `json:"reason,omitempty"`
	// FailedCase is the number, from 1, of the case that decided; 0 for none.
	FailedCase int `json:"failed_case,omitempty"`
	// Score is set for a problem with scores.
	Score *Score `json:"score,omitempty"`
	// TimeUS and MemoryBytes are the largest of the cases.
	TimeUS      int64 `json:"time_us"`
	MemoryBytes int64 `json:"memory_bytes"`

	Submission SubmissionInfo `json:"submission"`
	Problem    ProblemInfo    `json:"problem"`
	// Machine is the last machine used; Machines counts them.
	Machine  MachineInfo `json:"machine"`
	Machines int         `json:"machines"`
	Limits   LimitsInfo  `json:"limits"`
	// Host is where it was judged.
	Host HostInfo `json:"host"`

	Compile CompileResult `json:"compile"`
	Cases   []CaseResult  `json:"cases"`
	// Groups are as in Problem.Groups; empty for a problem without.
	Groups []GroupResult `json:"groups,omitempty"`
	// Retries are failures of ours that a second try mended or did not.
	Retries []Retry `json:"retries,omitempty"`
	// Warnings are things that did not touch the verdict but should be seen to.
	Warnings []string `json:"warnings,omitempty"`
	// Failure is what made a JE, where that was a machine or this host and not the
	// problem: judged again, perhaps elsewhere, it may end well. It is not recorded.
	Failure error `json:"-"`

	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`
}

// HostInfo is what the speed of a host depends on, as far as it can be read
// there; what cannot is empty.
type HostInfo struct {
	// Fingerprint is the same for hosts whose times can be compared.
	Fingerprint string `json:"fingerprint"`
	CPU         string `json:"cpu,omitempty"`
	Microcode   string `json:"microcode,omitempty"`
	Machine     string `json:"machine,omitempty"`
	Kernel      string `json:"kernel,omitempty"`
	Processors  int    `json:"processors,omitempty"`
	// Governor is that of the processors' clock; Turbo and SMT are "on" or "off".
	Governor string `json:"governor,omitempty"`
	Turbo    string `json:"turbo,omitempty"`
	SMT      string `json:"smt,omitempty"`
	// Virtual says that the host is itself a virtual machine.
	Virtual bool `json:"virtual,omitempty"`
}

// SubmissionInfo says what was judged.
type SubmissionInfo struct {
	Name     string `json:"name"`
	Language string `json:"language"`
	Digest   string `json:"digest"`
}

// ProblemInfo says what it was judged against.
type ProblemInfo struct {
	ShortName string `json:"short_name"`
	Name      string `json:"name"`
	Version   string `json:"version"`
	Checker   string `json:"checker"`
	Cases     int    `json:"cases"`
}

// LimitsInfo are the limits a case was judged by.
type LimitsInfo struct {
	CPUUS          int64 `json:"cpu_us"`
	WallUS         int64 `json:"wall_us"`
	MemoryBytes    int64 `json:"memory_bytes"`
	OutputBytes    int64 `json:"output_bytes"`
	Processes      int   `json:"processes"`
	FileSizeBytes  int64 `json:"file_size_bytes"`
	DiskBytes      int64 `json:"disk_bytes"`
	CompileCPUUS   int64 `json:"compile_cpu_us"`
	CompileWallUS  int64 `json:"compile_wall_us"`
	CompileMemory  int64 `json:"compile_memory_bytes"`
	SourceMaxBytes int64 `json:"source_max_bytes"`
}

// GroupResult is the outcome of a test group.
type GroupResult struct {
	// Name is the path; "" is the whole problem.
	Name    string  `json:"name"`
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason,omitempty"`
	Score   *Score  `json:"score,omitempty"`
	// Max is the most the group can give; none where it is not bounded.
	Max *Score `json:"max,omitempty"`
	// Static is the static validator's word on the source, where it was asked.
	Static *CaseResult `json:"static,omitempty"`
}

// CompileResult is what the compiler did.
type CompileResult struct {
	Exit  sandbox.Exit  `json:"exit"`
	Usage sandbox.Usage `json:"usage"`
	// Output is what the compiler said, both streams in order of arrival, cut
	// at MaxCompilerOutput bytes.
	Output          string `json:"output,omitempty"`
	OutputTruncated bool   `json:"output_truncated,omitempty"`
}

// MaxCompilerOutput is how much of a compiler's words is kept, in bytes.
const MaxCompilerOutput = 64 << 10

// CaseResult is the outcome of one case.
type CaseResult struct {
	// Number is from 1, in the order of judging.
	Number  int     `json:"number"`
	Name    string  `json:"name"`
	Sample  bool    `json:"sample,omitempty"`
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason,omitempty"`
	// TimeUS is CPU time. TimeAtLeast is set for a run that its time limit
	// ended: TimeUS is the limit then, and nobody knows how long it would take.
	TimeUS      int64 `json:"time_us"`
	TimeAtLeast bool  `json:"time_at_least,omitempty"`
	WallUS      int64 `json:"wall_us"`
	MemoryBytes int64 `json:"memory_bytes"`
	// Score is set in a group that gives its cases scores.
	Score *Score `json:"score,omitempty"`
	// Passes is how often the program ran on this case, one run after the
	// other, in a multi-pass problem; time and memory are the largest.
	Passes int `json:"passes,omitempty"`
	// Attempts is how often the case was judged. KnifeEdge says that this was
	// because its time lay close to the limit; the best one counts.
	Attempts  int  `json:"attempts,omitempty"`
	KnifeEdge bool `json:"knife_edge,omitempty"`
	// Disturbed counts runs that the host disturbed so that time could have
	// changed their verdict, or whose time host and guest count differently.
	Disturbed int `json:"disturbed,omitempty"`

	Exit  sandbox.Exit  `json:"exit"`
	Usage sandbox.Usage `json:"usage"`
	// Message is what a checker wrote for whoever sent the program.
	Message string `json:"message,omitempty"`
	// Staff is not for contestants.
	Staff *StaffInfo `json:"staff,omitempty"`
}

// StaffInfo is what only people who may see the hidden data may see.
type StaffInfo struct {
	// CheckMessage is the first difference, or why the checker failed.
	CheckMessage string `json:"check_message,omitempty"`
	// Stderr is the beginning of standard error.
	Stderr          string `json:"stderr,omitempty"`
	StderrTruncated bool   `json:"stderr_truncated,omitempty"`
	// Transcript is what program and interactor said to each other in another
	// run of the case with a recorder between them ("<" from the interactor, ">"
	// from the program), cut at MaxTranscript bytes. TranscriptVerdict is that
	// run's verdict where it was another one.
	Transcript        string  `json:"transcript,omitempty"`
	TranscriptVerdict Verdict `json:"transcript_verdict,omitempty"`
}

// MaxTranscript is how much of a conversation is kept, in bytes.
const MaxTranscript = 64 << 10

// Retry is a failure of ours and what was being done.
type Retry struct {
	Doing string `json:"doing"`
	Error string `json:"error"`
}

func limitsInfo(run, compile sandbox.Limits, code int64) LimitsInfo {
	return LimitsInfo{
		CPUUS: run.CPU.Microseconds(), WallUS: run.Wall.Microseconds(), MemoryBytes: run.Memory, OutputBytes: run.Output,
		Processes: run.Processes, FileSizeBytes: run.FileSize, DiskBytes: run.Disk,
		CompileCPUUS: compile.CPU.Microseconds(), CompileWallUS: compile.Wall.Microseconds(), CompileMemory: compile.Memory,
		SourceMaxBytes: code,
	}
}
