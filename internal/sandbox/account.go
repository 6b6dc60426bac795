package sandbox

import (
	"errors"
	"io/fs"
	"path/filepath"

	"assay/internal/fault"
)

// Usage is what the host counted for the sandbox since its machine began: for
// whoever keeps account. After the end it is the last that could be read.
func (s *Sandbox) Usage() HostUsage {
	now, err := s.body.machine.Usage()
	s.mu.Lock()
	defer s.mu.Unlock()
	// A machine that is just being taken away may count less than before.
	if err == nil && now.CPU >= s.counts.CPU {
		s.counts = now
	}
	return s.counts
}

// EndReason says in words who ended the sandbox, or "" while nobody has.
func (s *Sandbox) EndReason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// Events gives the log of a sandbox by its ID, live or ended, or fault.NotFound.
func (m *Manager) Events(id string) ([]Event, error) {
	if id == "" || id != filepath.Base(id) || id[0] == '.' {
		return nil, fault.Errorf(fault.NotFound, "no sandbox %q", id)
	}
	list, err := (&eventLog{path: filepath.Join(m.dir, "events", id+".jsonl")}).read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Errorf(fault.NotFound, "there is no log of sandbox %s", id)
	}
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "read the log of sandbox %s: %w", id, err)
	}
	return list, nil
}
