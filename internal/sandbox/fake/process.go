package fake

import (
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/guest"
)

// program is what a process does. run is called with the machine's mu held,
// gives it up only in the process's waiting calls, and gives the exit code.
// Whatever it must know after such a call is in the program itself: a restored
// process is its clone, run from the beginning.
type program interface {
	run(p *process) int
	clone() program
}

// process is one process of a command, a goroutine while its machine lives.
type process struct {
	c      *command
	pid    int
	argv   []string
	prog   program
	mem    int64
	signal int // that ended it
}

func (p *process) clone(c *command) *process {
	n := *p
	n.c, n.prog = c, p.prog.clone()
	return &n
}

// start lets it run. Caller holds mu.
func (p *process) start() {
	m := p.c.m
	m.running.Go(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		code := 1
		if p.await(func() bool { return true }) {
			code = p.prog.run(p)
		}
		if !m.dead {
			p.c.leave(p, code)
		}
	})
}

// gone says that the process must end. Caller holds mu.
func (p *process) gone() bool { return p.c.m.dead || p.c.killed || p.signal != 0 }

// await waits until a claim holds; false means that the process must end.
func (p *process) await(claim func() bool) bool {
	for !p.gone() {
		if !p.c.m.paused && claim() {
			return true
		}
		p.c.m.changed.Wait()
	}
	return false
}

// sleep waits for a time.
func (p *process) sleep(d time.Duration) bool {
	end := time.Now().Add(d)
	t := time.AfterFunc(d, p.c.m.wake)
	defer t.Stop()
	return p.await(func() bool { return !time.Now().Before(end) })
}

// compute uses a processor for a time.
func (p *process) compute(d time.Duration) bool {
	if !p.sleep(d) {
		return false
	}
	p.c.cpu += d
	p.c.m.cpu += d
	if l := p.c.spec.Limits.CPU; l > 0 && p.c.cpu > l {
		p.c.kill(guest.CPULimit)
	}
	return !p.gone()
}

// allocate holds more memory.
func (p *process) allocate(n int64) bool {
	p.mem += n
	p.c.mem += n
	p.c.peak = max(p.c.peak, p.c.mem)
	if l := p.c.spec.Limits.Memory; l > 0 && p.c.mem > l {
		p.c.kill(guest.MemoryLimit)
	}
	p.c.m.account()
	return !p.gone()
}

// write writes a piece of at most 64 KB to stdout or stderr, all or nothing.
func (p *process) write(s *stream, b []byte) bool {
	l := p.c.spec.Limits.Output
	if !p.await(func() bool { return int64(len(s.buf))-s.sent < aheadSize }) {
		return false
	}
	s.total += int64(len(b))
	room := l
	if p.c.spec.KeepOutput {
		room -= min(l/2, tailSize)
	}
	if l > 0 {
		fits := min(int64(len(b)), max(0, room-int64(len(s.buf))))
		if p.c.spec.KeepOutput {
			s.tail = append(s.tail, b[fits:]...)
			if extra := int64(len(s.tail)) - (l - room); extra > 0 {
				s.tail = append([]byte(nil), s.tail[extra:]...)
			}
		} else if fits < int64(len(b)) {
			p.c.kill(guest.OutputLimit)
		}
		b = b[:fits]
	}
	s.buf = append(s.buf, b...)
	p.c.m.changed.Broadcast()
	return !p.gone()
}

// say writes a line to stdout.
func (p *process) say(line string) bool { return p.write(p.c.stdout, []byte(line+"\n")) }

// fail writes why to stderr and gives the exit code.
func (p *process) fail(why string) int {
	p.write(p.c.stderr, []byte(p.argv[0]+": "+why+"\n"))
	return 1
}

// read takes input; none at its end.
func (p *process) read(most int) ([]byte, bool) {
	in := &p.c.stdin
	if !p.await(func() bool { return len(in.buf) > 0 || in.ended }) {
		return nil, false
	}
	b := in.buf[:min(most, len(in.buf))]
	in.buf = in.buf[len(b):]
	p.c.m.changed.Broadcast()
	return b, true
}

// put adds bytes to a file, or to an empty one in its place.
func (p *process) put(name string, b []byte, replace bool) bool {
	name = p.c.abs(name)
	files, own := p.c.place(name)
	if p.c.spec.Isolated && !own {
		p.fail(name + ": read-only file system")
		return false
	}
	old := files[name]
	if replace {
		p.c.disk -= int64(len(old))
		old = nil
	}
	if l := p.c.spec.Limits.FileSize; l > 0 && int64(len(old)+len(b)) > l {
		p.signal = int(unix.SIGXFSZ)
		return false
	}
	files[name] = append(old, b...)
	p.c.disk += int64(len(b))
	if l := p.c.spec.Limits.Disk; l > 0 && p.c.disk > l {
		p.c.kill(guest.DiskLimit)
	}
	if d := p.c.m.cfg.Shape.Disk; d > 0 && p.c.m.disk() > d {
		p.fail(name + ": no space left on device")
		return false
	}
	p.c.m.account()
	return !p.gone()
}
