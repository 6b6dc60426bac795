package judge

import (
	"context"
	"io"
	"io/fs"

	"assay/internal/sandbox"
)

// Machines makes throwaway machines. It may be called from many goroutines.
type Machines interface {
	// Create gives a machine that was never used. A fault of kind Invalid,
	// NotFound, Unsupported or Denied is final; any other error may go away and
	// is tried once more.
	Create(ctx context.Context, req MachineRequest) (Machine, error)
	// Connect joins two machines of this host by two pipes, without anybody in
	// between: an Exec in each with ExecSpec.Wire set to the wire's name has them
	// as its standard input and output. Unsupported where machines cannot be
	// joined so.
	Connect(ctx context.Context, a, b Machine) (Wire, error)
}

// MachineRequest asks for a machine.
type MachineRequest struct {
	// Template is its name.
	Template string
	// Memory is what the machine should have at least, in bytes; zero is the
	// template's own. A host that cannot spare so much gives less.
	Memory int64
	// Beside is a machine of the same run whose processor this one shares; nil
	// is a processor of its own.
	Beside Machine
	// Besides are the machines that will be made beside this one: their memory is reserved together with its own, so that a run that has
	// begun can go on.
	Besides []MachineRequest
	// Warm, if not nil, is the state in which the machine begins.
	Warm *Warm
}

// Warm is a state that many machines begin in: files, and a program that has
// started up and waits. It is made once and kept as a snapshot, so nothing of a
// submission may be in it. It may stay the same forever.
type Warm struct {
	// Dir gets Tree, a tar archive, as WriteTree would unpack it.
	Dir  string
	Tree []byte
	// Exec is the program; it has a Key, and no limit of elapsed time. An Exec of
	// the same spec in the machine takes it over, with all its output from the
	// beginning.
	Exec sandbox.ExecSpec
	// Ready is what the program writes first, when it waits for its input.
	Ready []byte
}

// Wire is a pair of pipes between two machines. The host holds all four ends
// until Drain: the end of one command is not seen by the other before.
type Wire interface {
	Name() string
	// DrainA lets b see that a's command has ended: b reads the end of its input,
	// and what it still writes goes nowhere, without an error. DrainB is the
	// reverse. Both may be called twice.
	DrainA()
	DrainB()
	// Close releases all.
	Close()
}

// Cache keeps what jury programs were compiled to. It may be used from many
// goroutines. Keys are lower-case hex digits.
type Cache interface {
	// Get gives nil where nothing is kept.
	Get(key string) ([]byte, error)
	Put(key string, data []byte) error
}

// Machine is one throwaway machine. The judge makes one call at a time, except
// that Ended may be asked whenever and that Exec may run beside one in another
// machine.
type Machine interface {
	// Exec runs a command. What the command did is in the Result; an error means
	// that we could not run it or lost sight of it. A program that reads no
	// stdin, and a machine that was lost in the middle, are results.
	//
	// The writers get what the program wrote, at most Limits.Output bytes each,
	// while it runs; both are done with when Exec returns. stdin may be nil.
	Exec(ctx context.Context, spec sandbox.ExecSpec, stdin io.Reader, stdout, stderr io.Writer) (sandbox.Result, error)
	// WriteFile writes a file as root with the mode, in place of one that is
	// there. It never follows a link at the last part of the path.
	WriteFile(ctx context.Context, path string, r io.Reader, mode fs.FileMode) error
	// MakeDir makes a directory, and its parents, as root. One that is there
	// already keeps owner and mode.
	MakeDir(ctx context.Context, path string, mode fs.FileMode) error
	// ReadFile gives the bytes of a regular file, never through a link at the
	// last part; NotFound when there is none. The caller closes it.
	ReadFile(ctx context.Context, path string) (io.ReadCloser, error)
	// ReadTree gives a directory's content as a tar archive, WriteTree unpacks
	// one as root; links that lead out of the tree are refused.
	ReadTree(ctx context.Context, dir string) (io.ReadCloser, error)
	WriteTree(ctx context.Context, dir string, tar io.Reader) error
	// Remove removes a file or a whole tree; none there is no error.
	Remove(ctx context.Context, path string) error
	// Describe says what the machine is. It does not ask the guest.
	Describe() MachineInfo
	// Ended reports whether the machine is gone, and why: MemoryLimit when the
	// host's wall for the machine's memory was hit, else MachineLost.
	Ended() (cause sandbox.Cause, ended bool)
	// Destroy ends the machine in any state. It may be called twice.
	Destroy(ctx context.Context) error
}

// MachineInfo says what made a result, for its record.
type MachineInfo struct {
	Sandbox        string `json:"sandbox"`
	Template       string `json:"template"`
	TemplateDigest string `json:"template_digest"`
	Driver         string `json:"driver"`
	DriverIdentity string `json:"driver_identity"`
	// Emulated says that its processor is emulated: limits of time are wide then,
	// and the run carries a warning.
	Emulated bool             `json:"emulated,omitempty"`
	Shape    sandbox.Shape    `json:"shape"`
	BootMode sandbox.BootMode `json:"boot_mode"`
}

// Checker decides from the output of one case. It runs on the host or in a
// machine of its own, never in the contestant's. It may be used from many
// goroutines at once.
type Checker interface {
	// Check reads the output while the program writes it; it need not read to
	// the end. An error, or Check.Outcome CheckFailed, is our failure.
	Check(ctx context.Context, req CheckRequest) (Check, error)
	// Describe names the checker and its settings, for records.
	Describe() string
}

// CheckRequest is one output to decide about.
type CheckRequest struct {
	Case   Case
	Output io.Reader
}
