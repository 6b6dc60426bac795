package call

import (
	"bytes"
	"encoding/json"
	"fmt"

	"assay/internal/course"
	"assay/internal/course/tagged"
	"assay/internal/fault"
)

// request is one test as a caller gets it: what to call, nothing of what is
// expected.
type request struct {
	ID    int           `json:"id"`
	Steps []requestStep `json:"steps"`
	// Stdin is only there where the caller itself gives it to the program.
	Stdin string `json:"stdin"`
}

type requestStep struct {
	New    string         `json:"new,omitempty"`
	Call   string         `json:"call,omitempty"`
	Get    string         `json:"get,omitempty"`
	Args   []tagged.Value `json:"args,omitempty"`
	Kwargs [][2]any       `json:"kwargs,omitempty"`
	After  bool           `json:"after,omitempty"`
}

func newRequest(id int, t *course.CallTest) request {
	r := request{ID: id}
	for _, s := range t.Steps {
		step := requestStep{New: s.New, Call: s.Call, Get: s.Get, Args: s.Args, After: s.After != nil}
		for _, k := range s.Kwargs {
			step.Kwargs = append(step.Kwargs, [2]any{k.Name, k.Value})
		}
		r.Steps = append(r.Steps, step)
	}
	return r
}

// result is what a program says of one step: a claim.
type result struct {
	// One of Value, Raised, Unplain and Missing is set.
	Value   *tagged.Value
	Raised  *raised
	Unplain string // why the value cannot be compared
	Missing string // the name that is not there
	After   []tagged.Value
}

// raised is an exception: its class, the nearest class above it that the
// language itself has, its text, and where it came from in the student's files.
type raised struct {
	Class string `json:"class"`
	Above string `json:"above"`
	Text  string `json:"text"`
	Trace string `json:"trace"`
}

// parseResults reads the results of the steps of a test. Anything but the form
// that callers write is Invalid, a value beyond the bounds Exhausted.
func parseResults(data []byte) ([]result, error) {
	var raw []struct {
		Value   json.RawMessage   `json:"value"`
		Raised  *raised           `json:"raised"`
		Unplain string            `json:"unplain"`
		Missing string            `json:"missing"`
		After   []json.RawMessage `json:"after"`
	}
	if err := strictly(data, &raw); err != nil {
		return nil, fault.Errorf(fault.Invalid, "results: %w", err)
	}
	var list []result
	for i, r := range raw {
		res := result{Raised: r.Raised, Unplain: r.Unplain, Missing: r.Missing}
		var err error
		if r.Value != nil {
			if res.Value, err = decoded(r.Value); err != nil {
				return nil, fault.Errorf(fault.KindOf(err), "result %d: %w", i+1, err)
			}
		}
		for _, a := range r.After {
			v, err := decoded(a)
			if err != nil {
				return nil, fault.Errorf(fault.KindOf(err), "result %d, argument: %w", i+1, err)
			}
			res.After = append(res.After, *v)
		}
		list = append(list, res)
	}
	return list, nil
}

func decoded(data json.RawMessage) (*tagged.Value, error) {
	v, err := tagged.Decode(data)
	return &v, err
}

// output is what a program wrote: the beginning, and how much it was in all.
type output struct {
	Data []byte `json:"data"`
	Size int64  `json:"size"`
}

// answer is what the Python caller says of one test.
type answer struct {
	ID      int    `json:"id"`
	Stdout  output `json:"stdout"`
	Stderr  output `json:"stderr"`
	CPU     int64  `json:"cpu_us"`
	Memory  int64  `json:"memory"`
	Ended   string `json:"ended"`
	Signal  int    `json:"signal"`
	Code    int    `json:"code"`
	Results string `json:"results"`
}

// greeting is what the Python caller says when it has loaded the module, or not.
type greeting struct {
	Ready  bool    `json:"ready"`
	Failed *raised `json:"failed"`
	Syntax string  `json:"syntax"`
}

// strictly decodes JSON that must have nothing but what is expected.
func strictly(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("something follows")
	}
	return nil
}
