package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
)

// The guest's clock of processor time goes in ticks and counts waiting for a
// processor as using it. So where a machine has processors of its own the host
// counts, and keeps the limit; the guest's limit is a net behind it.

// meter counts what an exec uses, on the host's side.
type meter struct {
	s     *Sandbox
	limit time.Duration // of processor time, 0 for none
	key   string
	wired bool
	over  chan struct{} // closed when the exec is over

	mu         sync.Mutex
	start, end mark
	hit        bool
	enforcing  sync.WaitGroup
}

// mark is what the host had counted at one moment.
type mark struct {
	ok bool
	HostUsage
	busy  time.Duration // of the machine's processors, whoever used them
	steal time.Duration // and whoever took them from this host
	at    time.Time
}

func (s *Sandbox) mark() mark {
	u, err := s.body.machine.Usage()
	m := mark{ok: err == nil, HostUsage: u, at: time.Now()}
	m.busy, m.steal = processors(s.info.Cores)
	return m
}

// looseLimit is the guest's own limit behind the host's: on a crowded host its
// clock runs several times too fast.
func looseLimit(l time.Duration) time.Duration { return 4*l + time.Second }

// enforceEvery bounds how often the host looks at a running exec.
const enforceEvery = 5 * time.Millisecond

// measure begins to count an exec. It gives nil where the host cannot say which
// of the machine's work is the exec's: in a machine that shares its processors,
// or with another exec or its remains in it.
func (s *Sandbox) measure(spec *ExecSpec, streams *guest.IO) *meter {
	s.mu.Lock()
	exact := s.counted && s.execs == 1 && !s.littered
	s.mu.Unlock()
	if !exact {
		return nil
	}
	m := &meter{s: s, limit: spec.Limits.CPU, key: spec.Key, wired: spec.Wire != "", over: make(chan struct{})}
	if m.limit > 0 {
		spec.Limits.CPU = looseLimit(m.limit)
	}
	streams.Started, streams.Ended = both(m.started, streams.Started), both(m.ended, streams.Ended)
	return m
}

// both calls ours, and then what the caller wants to be called, if anything.
func both(ours, theirs func()) func() {
	return func() {
		ours()
		if theirs != nil {
			theirs()
		}
	}
}

func (m *meter) started() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.start = m.s.mark()
	if m.limit > 0 && m.start.ok {
		m.enforcing.Go(m.enforce)
	}
}

func (m *meter) ended() {
	now := m.s.mark()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end = now
}

// enforce kills the exec when it has used more than its limit.
func (m *meter) enforce() {
	m.mu.Lock()
	begin := m.start.CPU
	m.mu.Unlock()
	n := time.Duration(max(len(m.s.info.Cores), 1))
	for left := m.limit; ; {
		select {
		case <-m.over:
			return
		case <-time.After(max(left/n, enforceEvery)):
		}
		now, err := m.s.body.machine.Usage()
		if err != nil {
			return // the machine is gone
		}
		if left = m.limit - (now.CPU - begin); left >= 0 {
			continue
		}
		m.mu.Lock()
		m.hit = !m.end.ok
		m.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), callGrace)
		defer cancel()
		if err := m.s.body.client.Kill(ctx, m.key); err != nil && !fault.Is(err, fault.NotFound) {
			m.s.m.log.Warn("end an exec at its limit", "sandbox", m.s.info.ID, "err", err)
		}
		return
	}
}

// finish ends the counting and corrects the result by it.
func (m *meter) finish(res *Result) {
	close(m.over)
	m.enforcing.Wait()
	if m.hit && res.Exit.Cause == guest.Killed {
		res.Exit.Cause = guest.CPULimit
	}
	if !m.start.ok || !m.end.ok {
		return // the session broke, or the machine
	}
	m.s.mu.Lock()
	alone := !m.s.littered && !m.s.crowded
	m.s.mu.Unlock()
	if !alone {
		return
	}
	u := &res.Usage
	u.Counted = max(m.end.CPU-m.start.CPU, 0)
	u.Disagree = false // the guest's count decides nothing here
	// A machine's own threads wait for each other, too: that is no disturbance. So
	// it counts only as far as others ran on its processors meanwhile.
	others := m.end.busy - m.start.busy - u.Counted
	if waited := m.end.Waited - m.start.Waited; m.end.Waited > 0 {
		others = min(others, waited)
	}
	if m.wired {
		others = 0 // who it talks with is on the same processors
	}
	u.Disturbed = disturbance(u.Counted, m.end.at.Sub(m.start.at), others, m.end.steal-m.start.steal)
	if c := res.Exit.Cause; m.limit > 0 && u.Counted > m.limit && (c == guest.Exited || c == guest.Signaled) {
		res.Exit.Cause, res.Exit.Code = guest.CPULimit, -1
	}
}

// disturbedShare and disturbedLeast are how much waiting, of what an exec used,
// makes its times unreliable: below the least the host's own ticks say nothing.
const (
	disturbedShare = 50 // one 50th: 2 %
	disturbedLeast = 2 * statTick
)

func disturbance(used, wall, waited, steal time.Duration) string {
	bound := max(used/disturbedShare, disturbedLeast)
	switch {
	case steal > bound:
		return fmt.Sprintf("the host's own host took its processors away for %v of %v", steal.Round(time.Millisecond), wall.Round(time.Millisecond))
	case waited > bound:
		return fmt.Sprintf("others ran on its processors for %v of %v", waited.Round(time.Millisecond), wall.Round(time.Millisecond))
	default:
		return ""
	}
}

// statTick is the unit of /proc/stat.
const statTick = 10 * time.Millisecond

// processors is how long these were busy since the host started, and how long
// the host was kept from using them by whatever runs it.
func processors(cores []int) (busy, steal time.Duration) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	ticks := func(f []byte) time.Duration {
		n, _ := strconv.ParseInt(string(f), 10, 64)
		return time.Duration(n) * statTick
	}
	for _, c := range cores {
		name := []byte("cpu" + strconv.Itoa(c))
		for line := range bytes.Lines(b) {
			f := bytes.Fields(line)
			if len(f) > 8 && bytes.Equal(f[0], name) {
				busy += ticks(f[1]) + ticks(f[2]) + ticks(f[3]) // user, nice, system
				steal += ticks(f[8])
			}
		}
	}
	return busy, steal
}

// enterExec counts the execs of a sandbox: what the host counts is one exec's
// only while there is no other and none has left processes behind.
func (s *Sandbox) enterExec(spec ExecSpec) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.execs++
	s.crowded = s.execs > 1
	s.littered = s.littered || spec.Leave
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.execs--
	}
}
