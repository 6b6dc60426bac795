package pytest

import (
	"cmp"
	"time"

	"assay/internal/course"
	"assay/internal/sandbox"
)

// What holds where the assignment says nothing.
const (
	defaultTime      = 10 * time.Second
	defaultMemory    = 256 << 20
	defaultOutput    = 1 << 20
	defaultProcesses = 32
	defaultDisk      = 64 << 20
)

const (
	// startTime is how long one of our own processes may take to begin.
	startTime = 60 * time.Second
	// testGrace is how long a test may go on by itself beyond what it may wait
	// for the student.
	testGrace = 60 * time.Second
	// machineOutput bounds what is carried; the host counts what was printed.
	machineOutput = 64 << 30
	// maxCarried is how much the student's process may send in one test, in bytes.
	maxCarried = 256 << 20
)

// filled are the limits of an assignment with what it leaves out.
func filled(a *course.Assignment) course.Limits {
	l := a.Limits
	l.Time = cmp.Or(l.Time, defaultTime)
	// A processor is shared with others' work: elapsed time is only the wall
	// behind the limit of processor time.
	l.Wall = cmp.Or(l.Wall, 3*l.Time+2*time.Second)
	l.Memory = cmp.Or(l.Memory, defaultMemory)
	l.Output = cmp.Or(l.Output, defaultOutput)
	l.Processes = cmp.Or(l.Processes, defaultProcesses)
	l.Disk = cmp.Or(l.Disk, defaultDisk)
	return l
}

// studentLimits are the limits of the student's process. Its time is counted test by
// test, in the process's own timer and on the host.
func studentLimits(l course.Limits) sandbox.Limits {
	return sandbox.Limits{
		Memory: l.Memory, Output: machineOutput, Processes: l.Processes, Disk: l.Disk, FileSize: l.Disk,
	}
}
