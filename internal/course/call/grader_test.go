package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/course"
	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/judge"
	"assay/internal/sandbox"
)

// machine is a machine whose Python caller is a Go function: it gets a request
// and gives what to write, or ends with an exit.
type machine struct {
	judge.Machine
	greet  string
	answer func(id string) (text string, end *sandbox.Exit)

	mu sync.Mutex
	// sent is everything that entered the machine.
	sent      bytes.Buffer
	starts    int
	destroyed bool
}

func (m *machine) Create(_ context.Context, req judge.MachineRequest) (judge.Machine, error) {
	if req.Warm != nil {
		m.sent.Write(req.Warm.Tree)
	}
	return m, nil
}

func (m *machine) Connect(context.Context, judge.Machine, judge.Machine) (judge.Wire, error) {
	return nil, errors.ErrUnsupported
}

func (m *machine) WriteTree(_ context.Context, _ string, tar io.Reader) error {
	_, err := m.sent.ReadFrom(tar)
	return err
}

func (m *machine) Describe() judge.MachineInfo { return judge.MachineInfo{Sandbox: "sb"} }

func (m *machine) Ended() (sandbox.Cause, bool) { return "", false }

func (m *machine) Destroy(context.Context) error {
	m.destroyed = true
	return nil
}

func (m *machine) WriteFile(context.Context, string, io.Reader, fs.FileMode) error {
	return errors.ErrUnsupported
}

func (m *machine) Exec(ctx context.Context, _ sandbox.ExecSpec, stdin io.Reader, stdout, _ io.Writer) (sandbox.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.starts++
	if _, err := stdout.Write(ready); err != nil {
		return sandbox.Result{}, err
	}
	for n := 0; ; n++ {
		head := make([]byte, 4)
		if _, err := io.ReadFull(stdin, head); err != nil {
			return sandbox.Result{Exit: sandbox.Exit{Cause: guest.Exited}}, nil
		}
		data := make([]byte, int(head[2])<<8|int(head[3]))
		if _, err := io.ReadFull(stdin, data); err != nil {
			return sandbox.Result{}, err
		}
		m.sent.Write(data)
		text, end := m.greet, (*sandbox.Exit)(nil)
		if n > 0 {
			var r struct{ ID json.Number }
			if err := json.Unmarshal(data, &r); err != nil {
				return sandbox.Result{}, err
			}
			text, end = m.answer(r.ID.String())
		}
		if text != "" {
			if _, err := stdout.Write(frame([]byte(text))); err != nil {
				return sandbox.Result{}, err
			}
		}
		switch {
		case end != nil:
			return sandbox.Result{Exit: *end}, nil
		case text == "":
			<-ctx.Done()
			return sandbox.Result{}, context.Cause(ctx)
		}
	}
}

// threeTests are two visible tests and, in the middle, a hidden one.
func threeTests(t *testing.T) *course.Assignment {
	t.Helper()
	a := &course.Assignment{Language: "python3", Mode: course.Call}
	for _, visibility := range []course.Visibility{course.Visible, course.Hidden, course.Visible} {
		c, err := ParseTest(mapping("call: f\nargs: [ARGUMENT]\nvalue: EXPECTED"))
		if err != nil {
			t.Fatal(err)
		}
		id := string(rune('1' + len(a.Tests)))
		a.Tests = append(a.Tests, course.Test{ID: id, Name: "NAME" + id, Points: judge.IntScore(1), Visibility: visibility, Message: "MESSAGE", Call: c})
	}
	return a
}

func gradeWith(t *testing.T, m *machine) (course.Report, []string, error) {
	t.Helper()
	languages, err := judge.DefaultLanguages()
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	s := course.Submission{ID: "s", Files: []course.File{{Name: "a.py", Data: []byte("def f(x): ...")}}}
	r, err := New(m, languages).Grade(t.Context(), threeTests(t), s, func(name string) { seen = append(seen, name) })
	if !m.destroyed {
		t.Error("the machine was not destroyed")
	}
	return r, seen, err
}

const right = `"stdout":{"data":"","size":0},"stderr":{"data":"","size":0},"cpu_us":1,"memory":1,"code":0,"results":"[{\"value\":\"EXPECTED\"}]"}`

// TestGrade plays callers that answer, die and forge, and looks at what entered
// their machine.
func TestGrade(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		greet  string
		answer func(id string) (string, *sandbox.Exit)
		want   string // status and cause of each test
		starts int
	}{
		"answers": {"", func(id string) (string, *sandbox.Exit) { return `{"id":` + id + "," + right, nil }, "passed,passed,passed", 1},
		"dies_in_one": {"", func(id string) (string, *sandbox.Exit) {
			if id == "3" {
				return "", &sandbox.Exit{Cause: guest.MemoryLimit}
			}
			return `{"id":` + id + "," + right, nil
		}, "passed,passed,error memory", 3},
		"dies_after_answer": {"", func(id string) (string, *sandbox.Exit) {
			return `{"id":` + id + "," + right, &sandbox.Exit{Cause: guest.Exited}
		}, "passed,passed,passed", 3},
		"another_id": {"", func(string) (string, *sandbox.Exit) { return `{"id":7,` + right, nil }, "error invalid_result,error invalid_result,error invalid_result", 3},
		"forged":     {"", func(string) (string, *sandbox.Exit) { return `{"passed":true}`, nil }, "error invalid_result,error invalid_result,error invalid_result", 3},
		"late": {"", func(id string) (string, *sandbox.Exit) {
			return `{"id":` + id + `,"stdout":{},"stderr":{},"cpu_us":99000000,"memory":1,"code":0,"results":"[]"}`, nil
		}, "error time,error time,error time", 1},
		"flood": {"", func(id string) (string, *sandbox.Exit) {
			return `{"id":` + id + `,"stdout":{"size":99000000},"stderr":{},"cpu_us":1,"memory":1,"signal":9}`, nil
		}, "error output,error output,error output", 1},
		"not_loaded":   {`{"failed":{"class":"KeyError","text":"x"}}`, nil, "not_imported", 1},
		"exit_at_load": {`{"failed":{"class":"SystemExit","text":"0"}}`, nil, "ended_test_process", 1},
		"odd_greeting": {`{"ready":1}`, nil, "invalid_result", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &machine{greet: c.greet, answer: c.answer}
			if m.greet == "" {
				m.greet = `{"ready":true}`
			}
			r, seen, err := gradeWith(t, m)
			if err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, f := range r.Findings {
				got = append(got, strings.TrimSpace(string(f.Status)+" "+string(f.Cause)))
			}
			if r.Cause != course.NoCause {
				got = append(got, string(r.Cause))
			}
			if d := cmp.Diff(c.want, strings.Join(got, ",")); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if m.starts != c.starts {
				t.Errorf("the caller was started %d times, want %d", m.starts, c.starts)
			}
			if r.Cause == course.NoCause {
				if d := cmp.Diff([]string{"NAME1", "NAME3", "NAME2"}, seen); d != "" {
					t.Errorf("order of the tests (-want +got):\n%s", d)
				}
			}
			for _, word := range []string{"EXPECTED", "NAME", "MESSAGE"} {
				if strings.Contains(m.sent.String(), word) {
					t.Errorf("%s entered the machine", word)
				}
			}
			if strings.Contains(strings.Join(got, ","), "invalid_result") != (len(r.Suspicions) > 0) {
				t.Errorf("suspicions: %v", r.Suspicions)
			}
		})
	}
}

// TestGradeLostMachine holds that a machine that is lost is our failure.
func TestGradeLostMachine(t *testing.T) {
	t.Parallel()
	m := &machine{greet: `{"ready":true}`, answer: func(string) (string, *sandbox.Exit) { return "", &sandbox.Exit{Cause: guest.MachineLost} }}
	if _, _, err := gradeWith(t, m); !fault.Is(err, fault.Unavailable) {
		t.Errorf("error %v, want one of kind unavailable", err)
	}
}
