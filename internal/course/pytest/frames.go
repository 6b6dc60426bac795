package pytest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"sync"

	"assay/internal/fault"
)

// Bounds of one frame.
const (
	// maxFrame is the length of one frame, in bytes.
	maxFrame = 8 << 20
	// maxDepth is how deep a frame's arrays and objects may be nested: Python's
	// reader of JSON goes one call deeper for each.
	maxDepth = 400
)

// The kinds of frames. Those of the student's machine are held for hostile.
const (
	kindReady  = "ready"  // student: the agent is up; the student's code has not run
	kindAsk    = "ask"    // both: hands the turn over
	kindAnswer = "answer" // both: gives the turn back
	kindOut    = "out"    // student: what was printed, without handing over
	kindReport = "report" // grader: to the host, without handing over
	kindDead   = "dead"   // host to grader: the student's process has ended
)

// printed is text that the student's code printed: on standard output, or on
// standard error.
type printed struct {
	text     string
	isStderr bool
}

// studentFrame is what the host must know of a frame of the student's machine.
type studentFrame struct {
	kind string
	out  []printed
	// failed says that the answer is an error, text is the traceback.
	failed bool
	text   string
}

// parseStudent reads a frame of the student's machine, or refuses it. Only exact
// key names count, and the last of two alike, as for the reader in Python.
func parseStudent(line []byte) (studentFrame, error) {
	var f studentFrame
	fields, err := topLevel(line)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(fields["k"], &f.kind); err != nil || !slices.Contains([]string{kindReady, kindAsk, kindAnswer, kindOut}, f.kind) {
		return f, fault.Errorf(fault.Invalid, "a frame of a kind that the student's machine may not send")
	}
	if raw, ok := fields["out"]; ok {
		var out [][]string
		if err := json.Unmarshal(raw, &out); err != nil {
			return f, fault.Errorf(fault.Invalid, "printed text in a wrong form: %w", err)
		}
		for _, o := range out {
			if len(o) != 2 || o[0] != "o" && o[0] != "e" {
				return f, fault.Errorf(fault.Invalid, "printed text in a wrong form")
			}
			f.out = append(f.out, printed{text: o[1], isStderr: o[0] == "e"})
		}
	}
	if raw, ok := fields["err"]; ok {
		f.failed = true
		f.text = errorText(raw)
	}
	return f, nil
}

// errorText gives the traceback in an error, or nothing.
func errorText(raw json.RawMessage) string {
	var parts map[string]json.RawMessage
	var text string
	if json.Unmarshal(raw, &parts) != nil || json.Unmarshal(parts["text"], &text) != nil {
		return ""
	}
	return text
}

// topLevel checks a frame and splits it into its fields.
func topLevel(line []byte) (map[string]json.RawMessage, error) {
	if deeper(line, maxDepth) {
		return nil, fault.Errorf(fault.Invalid, "a frame is nested too deeply")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return nil, fault.Errorf(fault.Invalid, "a frame is not a JSON object: %w", err)
	}
	return fields, nil
}

// deeper reports whether brackets outside of strings are nested deeper than max.
func deeper(line []byte, limit int) bool {
	depth, inString := 0, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			if depth++; depth > limit {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// graderFrame is a frame of the grader's machine.
type graderFrame struct {
	Kind  string `json:"k"`
	Op    string `json:"op"`
	Name  string `json:"n"`
	Epoch int    `json:"epoch"`
	// Of a report.
	What    string   `json:"t"`
	ID      string   `json:"id"`
	IDs     []string `json:"ids"`
	When    string   `json:"when"`
	Outcome string   `json:"outcome"`
	Xfail   bool     `json:"xfail"`
	Text    string   `json:"text"`
}

// splitter cuts a stream into lines and hands each over. A line that is too
// long is handed over as nil, and nothing after it.
type splitter struct {
	ctx   context.Context
	lines chan<- []byte
	part  []byte
	over  bool
}

func (s *splitter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 && !s.over {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			s.part = append(s.part, p...)
			p = nil
		} else {
			s.part = append(s.part, p[:end]...)
			p = p[end+1:]
		}
		if len(s.part) > maxFrame {
			s.over, s.part = true, nil
			s.give(nil)
		} else if end >= 0 {
			s.give(append([]byte{}, s.part...))
			s.part = s.part[:0]
		}
	}
	return n, nil
}

func (s *splitter) give(line []byte) {
	select {
	case s.lines <- line:
	case <-s.ctx.Done():
	}
}

// feed is a pipe without a bound: reading waits, writing does not. The turns
// bound it: one frame at a time is on its way.
type feed struct {
	mu    sync.Mutex
	more  *sync.Cond
	bytes bytes.Buffer
	ended bool
}

func newFeed() *feed {
	f := &feed{}
	f.more = sync.NewCond(&f.mu)
	return f
}

// line writes a frame.
func (f *feed) line(frame []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bytes.Write(frame)
	f.bytes.WriteByte('\n')
	f.more.Broadcast()
}

func (f *feed) Read(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.bytes.Len() == 0 && !f.ended {
		f.more.Wait()
	}
	if f.bytes.Len() == 0 {
		return 0, io.EOF
	}
	return f.bytes.Read(b)
}

// end lets the reader read what is there, and then the end.
func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.more.Broadcast()
}
