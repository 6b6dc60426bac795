package sandbox

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"time"

	"assay/internal/fault"
)

// Event is one line of a sandbox's log.
type Event struct {
	Number int            `json:"number"`
	Time   time.Time      `json:"time"`
	Kind   string         `json:"kind"` // created, exec, snapshot, fork, paused, resumed, detached, adopted, ended, truncated
	Detail map[string]any `json:"detail,omitempty"`
}

// The bounds of one sandbox's log. The last line of a full one is "truncated";
// the end of the sandbox is logged all the same. Calls that the end cut off
// come after it.
const (
	maxEvents     = 10_000
	maxEventBytes = 4 << 20
	maxOneEvent   = 64 << 10 // of one event; guestd has a say in what is in it
)

// eventLog is what a sandbox did and what was done to it. It is a file of JSON
// lines that outlives the machine: audit, replay and abuse control read it.
type eventLog struct {
	path string

	mu    sync.Mutex
	file  *os.File
	count int
	bytes int
	full  bool
}

func openEventLog(dir, id string) (*eventLog, error) {
	path := filepath.Join(dir, id+".jsonl")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "open event log: %w", err)
	}
	return &eventLog{path: path, file: f}, nil
}

// reopenEventLog goes on with the log of a sandbox that another process had.
func reopenEventLog(dir, id string) (*eventLog, error) {
	l, err := openEventLog(dir, id)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(l.path)
	if err == nil { // the other may have died within a line
		l.bytes = bytes.LastIndexByte(b, '\n') + 1
		err = l.file.Truncate(int64(l.bytes))
	}
	if err != nil {
		l.close()
		return nil, fault.Errorf(fault.Internal, "open event log: %w", err)
	}
	for _, e := range l.all() {
		l.count, l.full = e.Number, l.full || e.Kind == "truncated"
	}
	return l, nil
}

// add appends an event. A log that cannot be written does not stop the sandbox.
func (l *eventLog) add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full && e.Kind != "ended" || l.file == nil {
		return
	}
	if l.count >= maxEvents || l.bytes >= maxEventBytes {
		l.full = true
		if e.Kind != "ended" {
			e = Event{Kind: "truncated"}
		}
	}
	l.count++
	e.Number, e.Time = l.count, time.Now()
	b, err := json.Marshal(e)
	if err == nil && len(b) > maxOneEvent {
		e.Detail = map[string]any{"dropped_bytes": len(b)}
		b, err = json.Marshal(e)
	}
	if err != nil {
		return
	}
	n, _ := l.file.Write(append(b, '\n'))
	l.bytes += n
}

// Note logs what was done to the sandbox by who gave it out, beside what the
// engine logs by itself.
func (s *Sandbox) Note(kind string, detail map[string]any) {
	s.events.add(Event{Kind: kind, Detail: detail})
}

// exec logs a command. Arguments are cut: they can be as large as a program.
func (l *eventLog) exec(spec ExecSpec, res Result, err error) {
	argv := make([]string, 0, len(spec.Argv))
	for i, a := range spec.Argv {
		if i == 16 {
			argv = append(argv, "…")
			break
		}
		argv = append(argv, a[:min(len(a), 200)])
	}
	d := map[string]any{"argv": argv, "limits": spec.Limits, "isolated": spec.Isolated}
	if err != nil {
		d["error"] = err.Error()
	} else {
		d["exit"], d["usage"] = res.Exit, res.Usage
	}
	if len(res.Files) > 0 {
		out := map[string]string{}
		for _, f := range res.Files {
			out[f.Path] = f.SHA256 + f.Refused
		}
		d["files"] = out
	}
	l.add(Event{Kind: "exec", Detail: d})
}

func (l *eventLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return
	}
	_ = l.file.Close() // every line was written when it was added
	l.file = nil
}

// all reads the log back.
func (l *eventLog) all() []Event {
	list, _ := l.read() // who asks a live sandbox can do nothing about it
	return list
}

// read reads the log back, as far as it was written whole.
func (l *eventLog) read() ([]Event, error) {
	f, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []Event
	for dec := json.NewDecoder(f); ; {
		var e Event
		if dec.Decode(&e) != nil {
			return list, nil // its end, or cut short by a crash
		}
		list = append(list, e)
	}
}
