package fake

import (
	"crypto/rand"
	"encoding/hex"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// find gives the program of a command line: the probe with its verbs
// (drivertest/probe), or one of a few others.
func find(p *process) program {
	argv := p.argv
	name := path.Base(argv[0])
	switch {
	case name == "probe" && len(argv) > 1:
		if f, ok := verbs[argv[1]]; ok {
			return f(argv[2:])
		}
	case name == "true":
		return once(func(*process) int { return 0 })
	case name == "false":
		return once(func(*process) int { return 1 })
	case name == "echo" || name == "cat":
		return verbs[name](argv[1:])
	case name == "sleep" && len(argv) > 1:
		seconds, _ := strconv.ParseFloat(argv[1], 64) // what is no number is no time
		return &pause{left: time.Duration(seconds * float64(time.Second))}
	case slices.Contains(dirs, argv[0]):
		return once(func(p *process) int { p.fail("permission denied"); return 126 })
	}
	return once(func(p *process) int { p.fail("no such file or directory"); return 127 })
}

// once is a program that waits for nothing it would have to remember.
type once func(p *process) int

func (f once) run(p *process) int { return f(p) }
func (f once) clone() program     { return f }

func num(args []string, i int) int {
	if i >= len(args) {
		return 0
	}
	n, _ := strconv.Atoi(args[i]) // the suite writes numbers
	return n
}

func dur(args []string, i int) time.Duration {
	if i >= len(args) {
		return 0
	}
	d, _ := time.ParseDuration(args[i]) // the suite writes durations
	return d
}

var verbs map[string]func(a []string) program

func init() { // find refers to it
	verbs = map[string]func(a []string) program{
		"exit":  func(a []string) program { return once(func(*process) int { return num(a, 0) }) },
		"echo":  func(a []string) program { return saying(func(*process) string { return strings.Join(a, " ") }) },
		"args":  func(a []string) program { return saying(func(*process) string { return strings.Join(a, "\n") }) },
		"sleep": func(a []string) program { return &pause{left: dur(a, 0)} },
		"signal": func(a []string) program {
			return once(func(p *process) int { p.signal = num(a, 0); return 1 })
		},
		"spin":     func(a []string) program { return newSpin(a) },
		"children": func(a []string) program { return &children{left: num(a, 0), args: a[1:], inTurn: true} },
		"alloc": func(a []string) program {
			if n := num(a, 2); n > 0 {
				return &children{left: n, args: append([]string{"alloc"}, a[:2]...)}
			}
			return &alloc{size: int64(num(a, 0)), hold: dur(a, 1)}
		},
		"write":  func(a []string) program { return once(func(p *process) int { return writeFiles(p, a) }) },
		"append": func(a []string) program { return once(func(p *process) int { return appendLine(p, a) }) },
		"read":   func(a []string) program { return once(func(p *process) int { return readFile(p, a[0]) }) },
		"list":   func(a []string) program { return once(func(p *process) int { return list(p, a) }) },
		"flood": func(a []string) program {
			f := &flood{errs: a[0] == "err", left: -1}
			if len(a) > 1 {
				f.left = num(a, 1)
			}
			return f
		},
		"tick": func(a []string) program { return &tick{n: num(a, 0), pause: dur(a, 1)} },
		"both": func([]string) program {
			return once(func(p *process) int {
				p.say("out")
				p.write(p.c.stderr, []byte("error\n"))
				return 0
			})
		},
		"fork":   func(a []string) program { return &forks{n: num(a, 0), hold: dur(a, 1)} },
		"daemon": func(a []string) program { return &daemon{file: a[0], child: len(a) > 1} },
		"cat":    func([]string) program { return &copyInput{} },
		"count":  func([]string) program { return &copyInput{count: true} },
		"bytes":  func(a []string) program { return &allBytes{left: num(a, 0)} },
		"counter": func(a []string) program {
			return &counter{socket: a[0]}
		},
		"ask":    func(a []string) program { return once(func(p *process) int { return ask(p, a[0]) }) },
		"random": func([]string) program { return saying(func(*process) string { return random() + "\n" + random() }) },
		"clock": func([]string) program {
			return saying(func(*process) string { return strconv.FormatInt(time.Now().UnixNano(), 10) })
		},
		"env": func([]string) program {
			return once(func(p *process) int {
				all := slices.Clone(p.c.spec.Env)
				slices.Sort(all)
				for _, kv := range all {
					p.say(kv)
				}
				return 0
			})
		},
		"identity": func([]string) program {
			return saying(func(p *process) string { return p.c.m.hostname + "\n" + p.c.m.machineID })
		},
		"traces": func(a []string) program { return &traces{hold: dur(a, 0), files: a[1:]} },
		"look":   func(a []string) program { return once(func(p *process) int { return look(p, a) }) },
		"pids": func([]string) program {
			return once(func(p *process) int {
				for _, q := range p.visible() {
					p.say(strconv.Itoa(q.pid) + " " + strings.Join(q.argv, " "))
				}
				return 0
			})
		},
	}
}

func saying(f func(p *process) string) program {
	return once(func(p *process) int { p.say(f(p)); return 0 })
}

func random() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails, by its documentation
	return hex.EncodeToString(b[:])
}

// pause sleeps.
type pause struct{ left time.Duration }

func (s *pause) clone() program { c := *s; return &c }
func (s *pause) run(p *process) int {
	p.sleep(s.left)
	return 0
}

// spin computes, in slices, so that a limit is met on time.
type spin struct {
	left    time.Duration
	helpers int // more processes that do the same
	pids    []int
}

func newSpin(a []string) program { return &spin{left: dur(a, 0), helpers: max(0, num(a, 1)-1)} }

func (s *spin) clone() program { c := *s; c.pids = slices.Clone(s.pids); return &c }
func (s *spin) run(p *process) int {
	for ; s.helpers > 0; s.helpers-- {
		s.pids = append(s.pids, p.c.spawn([]string{"probe", "spin", s.left.String()}))
	}
	const slice = 5 * time.Millisecond
	for s.left > 0 {
		d := min(s.left, slice)
		if !p.compute(d) {
			return 1
		}
		s.left -= d
	}
	p.join(s.pids)
	return 0
}

// join waits for the end of processes.
func (p *process) join(pids []int) bool {
	return p.await(func() bool {
		for _, pid := range pids {
			if p.c.procs[pid] != nil {
				return false
			}
		}
		return true
	})
}

// children runs the probe again and again, one after another or all at once.
type children struct {
	left   int
	args   []string
	inTurn bool
	pids   []int
}

func (s *children) clone() program { c := *s; c.pids = slices.Clone(s.pids); return &c }
func (s *children) run(p *process) int {
	for s.left > 0 {
		if s.inTurn && !p.join(s.pids) {
			return 1
		}
		pid := p.c.spawn(append([]string{"probe"}, s.args...))
		if pid == 0 {
			return 1
		}
		s.pids = append(s.pids, pid)
		s.left--
	}
	p.join(s.pids)
	return 0
}

// alloc holds memory for a time.
type alloc struct {
	size int64
	hold time.Duration
}

func (s *alloc) clone() program { c := *s; return &c }
func (s *alloc) run(p *process) int {
	if p.mem == 0 && s.size > 0 && !p.allocate(s.size) {
		return 1
	}
	p.sleep(s.hold)
	return 0
}

// forks makes idle processes and holds them.
type forks struct {
	n    int
	hold time.Duration
	pids []int
}

func (s *forks) clone() program { c := *s; c.pids = slices.Clone(s.pids); return &c }
func (s *forks) run(p *process) int {
	for len(s.pids) < s.n {
		pid := p.c.spawn([]string{"probe", "sleep", "1000h"})
		if pid == 0 {
			return 1
		}
		s.pids = append(s.pids, pid)
	}
	if !p.sleep(s.hold) {
		return 1
	}
	for _, pid := range s.pids {
		if q := p.c.procs[pid]; q != nil {
			q.signal = int(unix.SIGKILL)
		}
	}
	p.c.m.changed.Broadcast()
	if !p.join(s.pids) {
		return 1
	}
	p.say(strconv.Itoa(len(s.pids)))
	return 0
}

// daemon leaves a process behind that writes to a file.
type daemon struct {
	file  string
	child bool
	pid   int
}

func (s *daemon) clone() program { c := *s; return &c }
func (s *daemon) run(p *process) int {
	if s.child {
		for p.put(s.file, []byte("still here\n"), false) && p.sleep(10*time.Millisecond) {
		}
		return 1
	}
	if s.pid == 0 {
		s.pid = p.c.spawn([]string{"probe", "daemon", s.file, "child"})
	}
	if !p.await(func() bool { b, _ := p.c.find(p.c.abs(s.file)); return len(b) > 0 }) {
		return 1
	}
	p.say(strconv.Itoa(s.pid))
	return 0
}

// visible are the processes this one sees.
func (p *process) visible() []*process {
	var all []*process
	for _, c := range p.c.m.commands {
		if p.c.spec.Isolated && c != p.c {
			continue
		}
		for _, q := range c.procs {
			all = append(all, q)
		}
	}
	slices.SortFunc(all, func(a, b *process) int { return a.pid - b.pid })
	return all
}
