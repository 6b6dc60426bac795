package judge

import (
	"testing"
	"time"

	"assay/internal/guest"
	"assay/internal/sandbox"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	limits := sandbox.Limits{CPU: time.Second, Wall: 3 * time.Second, Memory: 256 * mib, Output: 8 * mib, Processes: 64}
	limits15 := limits
	limits15.CPU, limits15.Wall = 1500*time.Millisecond, 4*time.Second
	exited := func(code int) sandbox.Exit { return sandbox.Exit{Code: code, Cause: guest.Exited} }
	by := func(c sandbox.Cause) sandbox.Exit { return sandbox.Exit{Code: -1, Cause: c} }
	signal := func(n int) sandbox.Exit { return sandbox.Exit{Code: -1, Signal: n, Cause: guest.Signaled} }
	used := func(cpu, wall time.Duration, mem int64) sandbox.Usage {
		return sandbox.Usage{CPUUser: cpu, Wall: wall, MemoryPeak: mem}
	}
	quick := used(20*time.Millisecond, 30*time.Millisecond, 10*mib)
	ok, wrong := Check{Outcome: CheckAccepted}, Check{Outcome: CheckRejected}
	with := func(u sandbox.Usage, f func(*sandbox.Usage)) sandbox.Usage { f(&u); return u }

	tests := map[string]struct {
		exit   sandbox.Exit
		usage  sandbox.Usage
		limits *sandbox.Limits
		check  Check
		want   Verdict
		reason string
	}{
		"accepted":      {exit: exited(0), usage: quick, check: ok, want: Accepted},
		"wrong":         {exit: exited(0), usage: quick, check: wrong, want: WrongAnswer, reason: "the output is wrong"},
		"presentation":  {exit: exited(0), usage: quick, check: Check{Outcome: CheckPresentation}, want: PresentationError, reason: "the output has the wrong form"},
		"checker_mute":  {exit: exited(0), usage: quick, want: JudgeError, reason: "the checker gave no answer"},
		"cause_unknown": {exit: sandbox.Exit{Cause: "melted"}, usage: quick, check: ok, want: JudgeError, reason: `the exec ended for an unknown cause "melted"`},
		"cause_empty":   {usage: quick, check: ok, want: JudgeError, reason: `the exec ended for an unknown cause ""`},
		"killed":        {exit: by(guest.Killed), usage: quick, check: ok, want: JudgeError, reason: "the program was stopped from outside"},

		// Precedence: each row has every lower fault as well.
		"je_checker_over_all": {exit: by(guest.CPULimit), usage: used(2*time.Second, 9*time.Second, 999*mib), check: Check{Outcome: CheckFailed}, want: JudgeError, reason: "the checker failed"},
		"je_lost_over_all":    {exit: by(guest.MachineLost), usage: used(2*time.Second, 9*time.Second, 999*mib), check: wrong, want: JudgeError, reason: "the machine was lost"},
		"je_disagree_over_all": {
			exit: by(guest.CPULimit), usage: with(used(2*time.Second, 9*time.Second, 999*mib), func(u *sandbox.Usage) { u.Disagree = true }), check: wrong,
			want: JudgeError, reason: "host and guest count the CPU time differently",
		},
		"interactor_first_over_time":   {exit: by(guest.CPULimit), usage: used(2*time.Second, 3*time.Second, mib), check: Check{Outcome: CheckRejectedFirst}, want: WrongAnswer, reason: "the interactor rejected before the program ended"},
		"interactor_first_and_stopped": {exit: by(guest.Killed), usage: quick, check: Check{Outcome: CheckRejectedFirst}, want: WrongAnswer, reason: "the interactor rejected before the program ended"},
		"interactor_first_over_signal": {exit: signal(13), usage: quick, check: Check{Outcome: CheckRejectedFirst}, want: WrongAnswer, reason: "the interactor rejected before the program ended"},
		"tle_over_mle":                 {exit: by(guest.CPULimit), usage: used(time.Second, 2*time.Second, 999*mib), check: wrong, want: TimeLimitExceeded, reason: "CPU time limit of 1.000 s reached"},
		"mle_over_ole": {
			exit: exited(0), usage: with(used(time.Millisecond, time.Second, 300*mib), func(u *sandbox.Usage) { u.StdoutBytes = 9 * mib }), check: ok,
			want: MemoryLimitExceeded, reason: "memory 300 MiB, limit 256 MiB",
		},
		"ole_over_re":     {exit: sandbox.Exit{Code: 1, Cause: guest.Exited, OutputTruncated: true, StdoutDropped: 5}, usage: quick, check: wrong, want: OutputLimitExceeded, reason: "standard output limit of 8 MiB reached"},
		"re_over_checker": {exit: exited(1), usage: quick, check: ok, want: RunTimeError, reason: "exit code 1"},

		"stderr_flood_takes_the_time": {
			exit: by(guest.CPULimit), usage: with(used(time.Second, time.Second, mib), func(u *sandbox.Usage) { u.StderrBytes = 200 << 10 }), check: wrong,
			want: OutputLimitExceeded, reason: "standard error was flooded with 200 KiB until the time was over",
		},
		"slow_with_some_words_on_stderr": {
			exit: by(guest.CPULimit), usage: with(used(4*time.Second, 5*time.Second, mib), func(u *sandbox.Usage) { u.StderrBytes = 20 << 10 }), check: wrong,
			want: TimeLimitExceeded, reason: "CPU time limit of 1.000 s reached",
		},
		"stderr_in_time_is_no_flood": {exit: exited(0), usage: with(quick, func(u *sandbox.Usage) { u.StderrBytes = 7 << 20 }), check: ok, want: Accepted},

		// Rows of the specification, section E, by number.
		"e01_static_array":             {exit: by(guest.MemoryLimit), usage: used(0, time.Millisecond, 256<<10), check: wrong, want: MemoryLimitExceeded, reason: "memory limit of 256 MiB reached"},
		"e02_python_fills_memory":      {exit: by(guest.MemoryLimit), usage: used(300*time.Millisecond, 400*time.Millisecond, 256*mib), check: wrong, want: MemoryLimitExceeded, reason: "memory limit of 256 MiB reached"},
		"e02_python_caught_the_error":  {exit: exited(1), usage: quick, check: wrong, want: RunTimeError, reason: "exit code 1"},
		"e05_malloc_gave_null":         {exit: signal(11), usage: quick, check: wrong, want: RunTimeError, reason: "ended by signal 11 (SIGSEGV, segmentation fault)"},
		"e05_calloc_and_touch":         {exit: by(guest.MemoryLimit), usage: used(90*time.Millisecond, time.Second, 256*mib), check: wrong, want: MemoryLimitExceeded, reason: "memory limit of 256 MiB reached"},
		"e06_endless_loop":             {exit: sandbox.Exit{Code: -1, Signal: 9, Cause: guest.CPULimit}, usage: used(1010*time.Millisecond, 1100*time.Millisecond, mib), check: wrong, want: TimeLimitExceeded, reason: "CPU time limit of 1.000 s reached"},
		"e07_loop_under_1500ms":        {exit: sandbox.Exit{Code: -1, Signal: 9, Cause: guest.CPULimit}, usage: used(1510*time.Millisecond, 1600*time.Millisecond, mib), limits: &limits15, check: wrong, want: TimeLimitExceeded, reason: "CPU time limit of 1.500 s reached"},
		"e08_sleeps":                   {exit: by(guest.WallLimit), usage: used(20*time.Millisecond, 3*time.Second, mib), check: wrong, want: TimeLimitExceeded, reason: "wall time limit of 3.000 s reached (CPU time 0.020 s)"},
		"e09_right_answer_then_sleeps": {exit: by(guest.WallLimit), usage: used(20*time.Millisecond, 3*time.Second, mib), check: ok, want: TimeLimitExceeded, reason: "wall time limit of 3.000 s reached (CPU time 0.020 s)"},
		"e10_slow_clean_up":            {exit: exited(0), usage: used(100*time.Millisecond, 120*time.Millisecond, mib), check: ok, want: Accepted},
		"e12_right_answer_exit_1":      {exit: exited(1), usage: quick, check: ok, want: RunTimeError, reason: "exit code 1"},
		"e12_exit_42":                  {exit: exited(42), usage: quick, check: ok, want: RunTimeError, reason: "exit code 42"},
		"e12_exit_43":                  {exit: exited(43), usage: quick, check: ok, want: RunTimeError, reason: "exit code 43"},
		"e13_output_flood": {
			exit: sandbox.Exit{Code: -1, Cause: guest.OutputLimit, OutputTruncated: true, StdoutDropped: 1}, usage: with(quick, func(u *sandbox.Usage) { u.StdoutBytes = 8*mib + 1 }), check: wrong,
			want: OutputLimitExceeded, reason: "standard output limit of 8 MiB reached",
		},
		"e14_right_answer_then_blanks": {exit: sandbox.Exit{Code: -1, Cause: guest.OutputLimit, OutputTruncated: true, StdoutDropped: 7}, usage: quick, check: ok, want: OutputLimitExceeded, reason: "standard output limit of 8 MiB reached"},
		"e15_stderr_flood": {
			exit: sandbox.Exit{Code: -1, Cause: guest.OutputLimit, OutputTruncated: true, StderrDropped: 7}, usage: with(quick, func(u *sandbox.Usage) { u.StderrBytes = 9 * mib }), check: wrong,
			want: OutputLimitExceeded, reason: "standard error limit of 8 MiB reached",
		},
		"e17_no_output":              {exit: exited(0), usage: quick, check: Check{Outcome: CheckRejected, NoOutput: true}, want: WrongAnswer, reason: "no output"},
		"e18_empty_answer_and_empty": {exit: exited(0), usage: quick, check: ok, want: Accepted},
		"e19_memory_after_the_time":  {exit: by(guest.MemoryLimit), usage: used(2*time.Second, 2*time.Second, 256*mib), check: wrong, want: TimeLimitExceeded, reason: "CPU time 2.000 s, limit 1.000 s"},
		"e19_crash_after_the_time":   {exit: signal(11), usage: used(1050*time.Millisecond, 2*time.Second, mib), check: wrong, want: TimeLimitExceeded, reason: "CPU time 1.050 s, limit 1.000 s"},
		"e19_memory_then_slow_to_die": {
			exit: by(guest.MemoryLimit), usage: used(500*time.Millisecond, 20*time.Second, 256*mib), check: wrong,
			want: MemoryLimitExceeded, reason: "memory limit of 256 MiB reached",
		},
		"e19_crash_then_slow_to_die":    {exit: signal(6), usage: used(500*time.Millisecond, 20*time.Second, mib), check: wrong, want: RunTimeError, reason: "ended by signal 6 (SIGABRT, abort)"},
		"e21_nul_bytes":                 {exit: exited(0), usage: quick, check: Check{Outcome: CheckRejected, Message: `got "world!\x00\x00"`}, want: WrongAnswer, reason: "the output is wrong"},
		"e30_invalid_utf8":              {exit: exited(0), usage: quick, check: wrong, want: WrongAnswer, reason: "the output is wrong"},
		"e44_checker_crashed":           {exit: exited(0), usage: quick, check: Check{Outcome: CheckFailed}, want: JudgeError, reason: "the checker failed"},
		"e50_fork_bomb":                 {exit: by(guest.ProcessLimit), usage: quick, check: wrong, want: RunTimeError, reason: "process limit of 64 reached"},
		"e51_kills_itself":              {exit: signal(9), usage: quick, check: wrong, want: RunTimeError, reason: "ended by signal 9 (SIGKILL, kill)"},
		"e51_stops_itself":              {exit: by(guest.WallLimit), usage: used(0, 3*time.Second, mib), check: wrong, want: TimeLimitExceeded, reason: "wall time limit of 3.000 s reached (CPU time 0.000 s)"},
		"e55_stdin_not_read":            {exit: exited(0), usage: quick, check: ok, want: Accepted},
		"disk_limit":                    {exit: by(guest.DiskLimit), usage: quick, check: wrong, want: RunTimeError, reason: "file size or disk limit reached"},
		"unknown_signal":                {exit: signal(40), usage: quick, check: wrong, want: RunTimeError, reason: "ended by signal 40"},
		"cpu_exactly_at_the_limit":      {exit: exited(0), usage: used(time.Second, time.Second, mib), check: ok, want: Accepted},
		"cpu_one_us_over":               {exit: exited(0), usage: used(time.Second+time.Microsecond, time.Second, mib), check: ok, want: TimeLimitExceeded, reason: "CPU time 1.000001 s, limit 1.000 s"},
		"wall_over_but_exited":          {exit: exited(0), usage: used(time.Millisecond, 4*time.Second, mib), check: ok, want: TimeLimitExceeded, reason: "wall time 4.000 s, limit 3.000 s (CPU time 0.001 s)"},
		"memory_exactly_at_the_limit":   {exit: exited(0), usage: used(0, 0, 256*mib), check: ok, want: Accepted},
		"system_time_counts":            {exit: exited(0), usage: sandbox.Usage{CPUUser: 600 * time.Millisecond, CPUSystem: 600 * time.Millisecond}, check: ok, want: TimeLimitExceeded, reason: "CPU time 1.200 s, limit 1.000 s"},
		"no_limits_are_no_limits":       {exit: exited(0), usage: used(time.Hour, time.Hour, 1<<40), limits: &sandbox.Limits{}, check: ok, want: Accepted},
		"output_exactly_at_the_limit":   {exit: exited(0), usage: with(quick, func(u *sandbox.Usage) { u.StdoutBytes = 8 * mib }), check: ok, want: Accepted},
		"stdout_and_stderr_each_capped": {exit: exited(0), usage: with(quick, func(u *sandbox.Usage) { u.StdoutBytes, u.StderrBytes = 8*mib, 8*mib }), check: ok, want: Accepted},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := limits
			if tt.limits != nil {
				l = *tt.limits
			}
			got, reason := Decide(tt.exit, tt.usage, l, tt.check)
			if got != tt.want || reason != tt.reason {
				t.Errorf("Decide = %s %q, want %s %q", got, reason, tt.want, tt.reason)
			}
		})
	}
}

func TestDecideCompile(t *testing.T) {
	t.Parallel()
	limits := sandbox.Limits{CPU: 60 * time.Second, Wall: 121 * time.Second, Memory: 2 << 30, Processes: 64, Output: 1 << 20}
	tests := map[string]struct {
		exit   sandbox.Exit
		ok     bool
		reason string
		ours   bool
	}{
		"compiles":                {exit: sandbox.Exit{Cause: guest.Exited}, ok: true},
		"errors":                  {exit: sandbox.Exit{Cause: guest.Exited, Code: 1}, reason: "compiler exit code 1"},
		"e32_include_itself":      {exit: sandbox.Exit{Cause: guest.CPULimit}, reason: "compiler time limit of 60.000 s reached"},
		"e33_template_bomb":       {exit: sandbox.Exit{Cause: guest.MemoryLimit}, reason: "compiler memory limit of 2048 MiB reached"},
		"e33_huge_binary":         {exit: sandbox.Exit{Cause: guest.DiskLimit}, reason: "compiler file size or disk limit reached"},
		"e35_waits":               {exit: sandbox.Exit{Cause: guest.WallLimit}, reason: "compiler wall time limit of 121.000 s reached"},
		"processes":               {exit: sandbox.Exit{Cause: guest.ProcessLimit}, reason: "compiler process limit of 64 reached"},
		"output":                  {exit: sandbox.Exit{Cause: guest.OutputLimit}, reason: "compiler output limit of 1 MiB reached"},
		"crashes":                 {exit: sandbox.Exit{Cause: guest.Signaled, Signal: 11}, reason: "compiler ended by signal 11 (SIGSEGV, segmentation fault)"},
		"e60_compiler_is_missing": {exit: sandbox.Exit{Cause: guest.Exited, Code: 127}, ours: true},
		"lost":                    {exit: sandbox.Exit{Cause: guest.MachineLost}, ours: true},
		"killed":                  {exit: sandbox.Exit{Cause: guest.Killed}, ours: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ok, reason, err := decideCompile(tt.exit, limits)
			if ok != tt.ok || reason != tt.reason || (err != nil) != tt.ours {
				t.Errorf("decideCompile = %v %q %v, want %v %q, ours %v", ok, reason, err, tt.ok, tt.reason, tt.ours)
			}
		})
	}
}
