package guest

import (
	"encoding/json"
	"time"

	"assay/internal/fault"
)

// Limits are the upper bounds of one exec. Zero means "the machine's own
// bound"; a negative value is refused by Check.
type Limits struct {
	// CPU is user + system time of the whole process tree.
	CPU time.Duration `json:"cpu_ns,omitempty"`
	// Wall is elapsed time from start of the program to its end.
	Wall time.Duration `json:"wall_ns,omitempty"`
	// Memory is what the process tree holds at one moment, in bytes: anonymous
	// memory and what it wrote to memory-backed filesystems.
	Memory int64 `json:"memory_bytes,omitempty"`
	// Processes counts processes and threads alive at one moment. A fork or
	// thread beyond it is refused, and the exec then ends with ProcessLimit.
	Processes int `json:"processes,omitempty"`
	// Output is the cap of stdout and of stderr, each, in bytes.
	Output int64 `json:"output_bytes,omitempty"`
	// FileSize is the largest file the exec may write, in bytes.
	FileSize int64 `json:"file_size_bytes,omitempty"`
	// Disk is how much the exec may add to the machine's disk, in bytes.
	Disk int64 `json:"disk_bytes,omitempty"`
	// Stack is the main thread's stack, in bytes. Zero is as large as Memory, or
	// as large as the driver's kernel allows (gVisor: 128 MiB).
	Stack int64 `json:"stack_bytes,omitempty"`
	// OpenFiles is the number of descriptors one process may hold.
	OpenFiles int `json:"open_files,omitempty"`
}

// Check refuses limits that mean nothing.
func (l Limits) Check() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"cpu", int64(l.CPU)},
		{"wall", int64(l.Wall)},
		{"memory", l.Memory},
		{"pids", int64(l.Processes)},
		{"output", l.Output},
		{"file size", l.FileSize},
		{"disk", l.Disk},
		{"stack", l.Stack},
		{"open files", int64(l.OpenFiles)},
	} {
		if f.value < 0 {
			return fault.Errorf(fault.Invalid, "%s limit is negative", f.name).
				WithHint("give a positive limit, or leave it out for the machine's own bound")
		}
	}
	return nil
}

// Cause says why an exec ended: exactly one.
type Cause string

// The causes. None is ever guessed from an exit code.
const (
	Exited       Cause = "exited"        // the program ended by itself with a code
	Signaled     Cause = "signaled"      // a signal ended it that we did not send
	CPULimit     Cause = "cpu_limit"     // Limits.CPU reached
	WallLimit    Cause = "wall_limit"    // Limits.Wall reached
	MemoryLimit  Cause = "memory_limit"  // Limits.Memory, or the machine's memory, reached
	OutputLimit  Cause = "output_limit"  // Limits.Output reached on stdout or stderr
	ProcessLimit Cause = "process_limit" // a process or thread beyond Limits.Processes was refused
	DiskLimit    Cause = "disk_limit"    // Limits.FileSize or Limits.Disk reached
	Killed       Cause = "killed"        // the caller asked for it
	MachineLost  Cause = "machine_lost"  // the machine ended or stopped answering
)

// Exit says how an exec ended.
type Exit struct {
	// Code is the exit code, or -1 when there is none (a signal, a limit).
	Code int `json:"code"`
	// Signal is the number of the signal that ended the main process, or 0.
	Signal int `json:"signal"`
	// Cause is why it ended.
	Cause Cause `json:"cause"`
	// OutputTruncated says that bytes of stdout or stderr were dropped.
	OutputTruncated bool `json:"output_truncated"`
	// StdoutDropped and StderrDropped count the bytes dropped after the cap.
	StdoutDropped int64 `json:"stdout_dropped_bytes"`
	StderrDropped int64 `json:"stderr_dropped_bytes"`
}

// Usage is what was measured of one exec, over the whole process tree.
type Usage struct {
	CPUUser, CPUSystem time.Duration
	Wall               time.Duration
	// MemoryPeak is the most memory held at one moment, in bytes.
	MemoryPeak int64
	// ProcessesPeak is the most processes and threads alive at one moment.
	ProcessesPeak int
	// StdoutBytes and StderrBytes count what the program wrote, dropped bytes
	// included.
	StdoutBytes, StderrBytes int64
	// DiskBytes is what the exec added to the machine's disk.
	DiskBytes int64
	// Counted is the processor time to hold against a limit or to compare with
	// another run's. Where the exec was alone in a machine with processors of its
	// own it is the host's count of the machine from the moment guestd said that
	// the program runs to the moment it said that it had ended: exact to the
	// microsecond for what it counts, which is the program, gVisor's work for it
	// and guestd's watch over it (about 1 %), without the start of the program.
	// Elsewhere it is CPUUser + CPUSystem, which go in ticks of 10 ms and count
	// waiting for a processor as using it.
	Counted time.Duration
	// Disturbed says why times of this exec should not be relied on, or is empty:
	// others ran on the processors that the machine has to itself, or they were
	// taken from the host, for more than 2 % of Counted and 20 ms. It is only
	// known where the host counts.
	Disturbed string
	// HostCPU is the host's own count of the machine's CPU time over the same
	// span: guest, guestd and the driver's own work. Zero when unknown.
	HostCPU time.Duration
	// Disagree is set when HostCPU is below the guest's own count by more than
	// the stated margin: the guest's clock cannot be trusted then.
	Disagree bool
}

// CPU is user and system time together.
func (u Usage) CPU() time.Duration { return u.CPUUser + u.CPUSystem }

type usageJSON struct {
	CPUUser       int64  `json:"cpu_user_us"`
	CPUSystem     int64  `json:"cpu_system_us"`
	Wall          int64  `json:"wall_us"`
	MemoryPeak    int64  `json:"memory_peak_bytes"`
	ProcessesPeak int    `json:"processes_peak"`
	StdoutBytes   int64  `json:"stdout_bytes"`
	StderrBytes   int64  `json:"stderr_bytes"`
	DiskBytes     int64  `json:"disk_bytes"`
	Counted       int64  `json:"counted_us"`
	Disturbed     string `json:"disturbed,omitempty"`
	HostCPU       int64  `json:"host_cpu_us"`
	Disagree      bool   `json:"disagree"`
}

// MarshalJSON writes times as microseconds, with the unit in every name.
func (u Usage) MarshalJSON() ([]byte, error) {
	return json.Marshal(usageJSON{
		CPUUser: u.CPUUser.Microseconds(), CPUSystem: u.CPUSystem.Microseconds(), Wall: u.Wall.Microseconds(),
		MemoryPeak: u.MemoryPeak, ProcessesPeak: u.ProcessesPeak,
		StdoutBytes: u.StdoutBytes, StderrBytes: u.StderrBytes, DiskBytes: u.DiskBytes,
		Counted: u.Counted.Microseconds(), Disturbed: u.Disturbed,
		HostCPU: u.HostCPU.Microseconds(), Disagree: u.Disagree,
	})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (u *Usage) UnmarshalJSON(b []byte) error {
	var j usageJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	*u = Usage{
		CPUUser: us(j.CPUUser), CPUSystem: us(j.CPUSystem), Wall: us(j.Wall),
		MemoryPeak: j.MemoryPeak, ProcessesPeak: j.ProcessesPeak,
		StdoutBytes: j.StdoutBytes, StderrBytes: j.StderrBytes, DiskBytes: j.DiskBytes,
		Counted: us(j.Counted), Disturbed: j.Disturbed,
		HostCPU: us(j.HostCPU), Disagree: j.Disagree,
	}
	return nil
}

// ExecSpec is one command to run.
type ExecSpec struct {
	// Key makes the exec idempotent: the same key on the same machine never
	// runs a command twice, it attaches to the first. Empty: Client makes one.
	Key string `json:"key"`
	// Argv is the program and its arguments. A program without a slash is
	// looked up in PATH of Env. No shell is involved.
	Argv []string `json:"argv"`
	// Dir is the working directory; empty is the template user's home.
	Dir string `json:"dir,omitempty"`
	// Env is the whole environment ("NAME=value"); nil is a small fixed one.
	Env []string `json:"env"`
	// User runs the command as "root" or as the template's "user" (default).
	// Even root has no capability that reaches outside the machine.
	User string `json:"user,omitempty"`
	// StdinFile is a path in the guest that becomes stdin. Empty: stdin is what
	// the caller streams, or empty input.
	StdinFile string `json:"stdin_file,omitempty"`
	// Wire is the name of a wire that was connected to this machine before: its
	// pipes become the program's stdin and stdout. The host then neither feeds
	// nor sees, counts or caps them; stderr is as always. A wire serves one exec.
	Wire string `json:"wire,omitempty"`
	// Isolated gives the command a PID, mount and IPC namespace of its own with
	// a fresh /tmp, /var/tmp, /dev/shm and the directories of FreshDirs; the
	// rest of the machine is read-only for it. All of it, and every process, is
	// gone when the command ends.
	Isolated bool `json:"isolated,omitempty"`
	// FreshDirs are existing directories that are empty, writable and private
	// to an Isolated command (for example its working directory).
	FreshDirs []string `json:"fresh_dirs,omitempty"`
	// Leave lets processes that the command started go on after it ended (a
	// server in the background). Without it they are killed with the command.
	Leave bool `json:"leave,omitempty"`
	// WritableDirs are existing directories of the machine that stay writable
	// for an Isolated command, with what is in them.
	WritableDirs []string `json:"writable_dirs,omitempty"`
	// KeepOutput says what happens at Limits.Output: false ends the exec with
	// OutputLimit; true lets it go on, drops the middle and keeps head and tail.
	KeepOutput bool `json:"keep_output,omitempty"`
	// Outputs are files to bring out after the command ended: regular files
	// only, never through a link, together at most MaxOutputs bytes.
	Outputs []string `json:"outputs,omitempty"`
	Limits  Limits   `json:"limits"`
}

// DefaultEnv is the whole environment of a command that does not bring its
// own: nothing of guestd's or the host's is ever in it.
var DefaultEnv = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"HOME=/home/user", "USER=user", "LANG=C.UTF-8", "TERM=dumb",
}

// Check refuses a spec that cannot run.
func (s ExecSpec) Check() error {
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		return fault.Errorf(fault.Invalid, "exec has no command")
	}
	if s.Leave && s.Isolated {
		return fault.Errorf(fault.Invalid, "an isolated exec cannot leave processes behind")
	}
	if s.Wire != "" && (s.StdinFile != "" || s.Leave) {
		return fault.Errorf(fault.Invalid, "an exec on a wire has no input file and leaves no processes behind")
	}
	if len(s.FreshDirs)+len(s.WritableDirs) > 0 && !s.Isolated {
		return fault.Errorf(fault.Invalid, "fresh and writable directories need an isolated exec")
	}
	switch s.User {
	case "", "user", "root":
	default:
		return fault.Errorf(fault.Invalid, "exec user %q is not known", s.User).WithHint("use \"user\" or \"root\"")
	}
	return s.Limits.Check()
}

// OutputFile is one file brought out after an exec, or why it was not.
type OutputFile struct {
	Path string `json:"path"`
	Data []byte `json:"data,omitempty"`
	// SHA256 is the hex digest of Data.
	SHA256 string `json:"sha256,omitempty"`
	// Refused says why the file was not brought out ("is a symbolic link").
	Refused string `json:"refused,omitempty"`
}

// Result is the outcome of an exec. That the command failed is not an error.
type Result struct {
	Exit  Exit         `json:"exit"`
	Usage Usage        `json:"usage"`
	Files []OutputFile `json:"files,omitempty"`
}

// MaxOutputs is what the Outputs of one exec bring out together, in bytes: they
// travel with its result. Larger files are read with Client.ReadFile.
const MaxOutputs = MaxFrame / 2
