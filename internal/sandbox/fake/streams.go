package fake

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"
)

// flood writes for ever, or so many bytes.
type flood struct {
	errs bool
	left int // negative: for ever
}

var floodChunk = []byte(strings.Repeat("0123456789abcde\n", 4<<10))

func (s *flood) clone() program { c := *s; return &c }
func (s *flood) run(p *process) int {
	w := p.c.stdout
	if s.errs {
		w = p.c.stderr
	}
	for s.left != 0 {
		n := len(floodChunk)
		if s.left > 0 {
			n = min(n, s.left)
		}
		if !p.write(w, floodChunk[:n]) {
			return 1
		}
		if s.left > 0 {
			s.left -= n
		}
	}
	return 0
}

// tick writes numbered lines with a pause before each.
type tick struct {
	n, i  int
	pause time.Duration
}

func (s *tick) clone() program { c := *s; return &c }
func (s *tick) run(p *process) int {
	for s.i < s.n {
		if s.pause > 0 && !p.sleep(s.pause) || !p.say(strconv.Itoa(s.i)) {
			return 1
		}
		s.i++
	}
	return 0
}

// copyInput writes what it reads, or how much it was.
type copyInput struct {
	count bool
	n     int
	held  []byte
}

func (s *copyInput) clone() program { c := *s; c.held = bytes.Clone(s.held); return &c }
func (s *copyInput) run(p *process) int {
	for {
		if len(s.held) > 0 {
			if !p.write(p.c.stdout, s.held) {
				return 1
			}
			s.held = nil
		}
		b, ok := p.read(64 << 10)
		if !ok {
			return 1
		}
		if len(b) == 0 {
			break
		}
		s.n += len(b)
		if !s.count {
			s.held = bytes.Clone(b)
		}
	}
	if s.count {
		p.say(strconv.Itoa(s.n))
	}
	return 0
}

// allBytes writes every byte value.
type allBytes struct{ left int }

func (s *allBytes) clone() program { c := *s; return &c }
func (s *allBytes) run(p *process) int {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for ; s.left > 0; s.left-- {
		if !p.write(p.c.stdout, all) {
			return 1
		}
	}
	return 0
}

// counter counts in memory; others ask it by its socket's name.
type counter struct {
	socket string
	said   bool
	n      int
}

func (s *counter) clone() program { c := *s; return &c }
func (s *counter) run(p *process) int {
	if !s.said {
		if !p.say("counting") {
			return 1
		}
		s.said = true
	}
	for p.sleep(2 * time.Millisecond) {
		s.n++
	}
	return 1
}

func ask(p *process, socket string) int {
	for _, q := range p.visible() {
		if c, ok := q.prog.(*counter); ok && c.socket == socket {
			p.say(strconv.Itoa(c.n))
			return 0
		}
	}
	return p.fail("nobody listens at " + socket)
}

// traces leaves something where others could find it.
type traces struct {
	hold  time.Duration
	files []string
	said  bool
}

var traceNames = []string{"shared memory", "message queue", "semaphore"}

func (s *traces) clone() program { c := *s; return &c }
func (s *traces) run(p *process) int {
	if !s.said {
		for _, f := range s.files {
			if !p.put(f, []byte("left\n"), true) {
				return 1
			}
		}
		for _, n := range traceNames {
			p.left()[n] = true
		}
		if !p.say("left") {
			return 1
		}
		s.said = true
	}
	p.sleep(s.hold)
	return 0
}

// left is where a process leaves what is not a file.
func (p *process) left() map[string]bool {
	if p.c.spec.Isolated {
		return p.c.left
	}
	return p.c.m.left
}

func look(p *process, files []string) int {
	for _, f := range files {
		if _, ok := p.c.find(p.c.abs(f)); ok {
			p.say(f)
		}
	}
	for _, n := range traceNames {
		if p.left()[n] {
			p.say(n)
		}
	}
	for _, q := range p.visible() {
		if _, ok := q.prog.(*traces); ok {
			p.say("abstract socket")
			p.say("process")
		}
	}
	return 0
}

func writeFiles(p *process, a []string) int {
	size, n := num(a, 1), max(1, num(a, 2))
	for i := range n {
		name := a[0]
		if n > 1 {
			name += "." + strconv.Itoa(i)
		}
		if !p.put(name, bytes.Repeat([]byte("x"), size), true) {
			return 1
		}
	}
	return 0
}

func appendLine(p *process, a []string) int {
	if !p.put(a[0], []byte(strings.Join(a[1:], " ")+"\n"), false) {
		return 1
	}
	return 0
}

func readFile(p *process, name string) int {
	b, ok := p.c.find(p.c.abs(name))
	if !ok {
		return p.fail(name + ": no such file or directory")
	}
	for chunk := range slices.Chunk(b, 64<<10) {
		if !p.write(p.c.stdout, chunk) {
			return 1
		}
	}
	return 0
}

func list(p *process, names []string) int {
	for _, dir := range names {
		files, _ := p.c.place(dir + "/x")
		var found []string
		for name := range files {
			if strings.HasPrefix(name, dir+"/") {
				found = append(found, name)
			}
		}
		slices.Sort(found)
		for _, name := range found {
			p.say(name)
		}
	}
	return 0
}
