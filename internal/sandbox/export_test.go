package sandbox

import (
	"os"
	"path/filepath"
	"time"
)

// What the tests, which live outside because the fake driver imports this
// package, need of the inside.
const (
	AnswerWait    = answerWait
	StartWait     = startWait
	CallGrace     = callGrace
	SweepEvery    = sweepEvery
	LostWait      = lostWait
	MaxEvents     = maxEvents
	MaxEventBytes = maxEventBytes
	MaxOneEvent   = maxOneEvent
)

// Die gives up the journal's lock as the kernel does when a process ends, and
// leaves everything else.
func (m *Manager) Die() {
	_ = m.journal.lock.Close()
	m.journal.lock, _ = os.Open(os.DevNull) // that Close can close
}

// JournalDir is the manager's own directory.
func (m *Manager) JournalDir() string { return m.journal.dir }

// RunDir is where all managers' directories are.
func (m *Manager) RunDir() string { return filepath.Dir(m.journal.dir) }

// Free is what the manager has to give out: thousandths of processors, bytes.
func (m *Manager) Free() (cpus, memory int64) {
	m.admission.mu.Lock()
	defer m.admission.mu.Unlock()
	return m.admission.cpus, m.admission.memory
}

// Queue is how many wait for room.
func (m *Manager) Queue() int {
	m.admission.mu.Lock()
	defer m.admission.mu.Unlock()
	return len(m.admission.queue)
}

// Pooled are the IDs of the machines that wait.
func (m *Manager) Pooled() (ids []string) {
	m.pool.mu.Lock()
	defer m.pool.mu.Unlock()
	for _, list := range m.pool.ready {
		for _, b := range list {
			ids = append(ids, b.id)
		}
	}
	return ids
}

// DropWakeup loses a wake-up that nobody has taken yet.
func (m *Manager) DropWakeup() {
	select {
	case <-m.wakeups:
	default:
	}
}

// ExtendUnheard is Extend without its wake-up.
func ExtendUnheard(s *Sandbox, deadline time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info.Deadline = deadline
	return s.ended == ""
}
