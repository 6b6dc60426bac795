package gvisor

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// monitorSlack is how much later than asked the boot process's scheduler may
// look around. Go's monitor thread (sysmon) sleeps 20 µs at a time after every
// event, and gVisor's clock makes 100 events a second while a program computes:
// about 3,000 wake-ups a second, which on a machine with one processor are
// taken from the program. Measured for a program that computes, on one
// processor: 1.11 times its native time as it is, 1.06 with 1 ms, 1.045 with
// 4 ms. It is no more because the monitor also frees the processors of Go whose
// threads the host holds in a system call.
const monitorSlack = 4 * time.Millisecond

// slowMonitor gives the slack to the monitor of process pid. It only costs
// time where that is refused (another user's process, an old kernel), so its
// error may be ignored.
func slowMonitor(pid int) error {
	// In the order in which they were started: the first is the process's main
	// thread, and the monitor is what Go starts before any code of the program.
	tasks, err := os.Open(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	defer tasks.Close()
	first, err := tasks.Readdirnames(2)
	if err != nil {
		return err
	}
	if len(first) < 2 {
		return fmt.Errorf("process %d has one thread", pid)
	}
	return os.WriteFile(fmt.Sprintf("/proc/%s/timerslack_ns", first[1]), strconv.AppendInt(nil, monitorSlack.Nanoseconds(), 10), 0)
}
