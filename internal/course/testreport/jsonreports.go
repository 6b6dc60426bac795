package testreport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"assay/internal/course"
)

// words is a text or a list of texts.
type words []string

func (w *words) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*w = words{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(w))
}

func parseCTRF(data []byte) (Report, error) {
	var doc struct {
		ReportFormat string `json:"reportFormat"`
		Results      *struct {
			Tests []struct {
				Name     string  `json:"name"`
				Status   string  `json:"status"`
				Duration float64 `json:"duration"` // milliseconds
				Suite    words   `json:"suite"`
				Message  string  `json:"message"`
				Trace    string  `json:"trace"`
			} `json:"tests"`
		} `json:"results"`
	}
	if err := one(data, &doc); err != nil {
		return Report{}, err
	}
	if doc.Results == nil || doc.ReportFormat != "" && doc.ReportFormat != "CTRF" {
		return Report{}, errors.New("it has no \"results\", or another \"reportFormat\"")
	}
	states := map[string]course.Status{
		"passed": course.Passed, "failed": course.Failed, "skipped": course.Skipped, "pending": course.Skipped, "other": course.Errored,
	}
	var r Report
	for i, t := range doc.Results.Tests {
		s, ok := states[t.Status]
		if !ok {
			return Report{}, fmt.Errorf("test %d has the unknown status %q", i+1, clip(course.Clean(t.Status), 40))
		}
		err := r.add(Test{
			Name: joined(" > ", append(t.Suite, t.Name)...), Status: s,
			Message: joined("\n", t.Message, t.Trace), Time: seconds(t.Duration / 1000),
		})
		if err != nil {
			return Report{}, err
		}
	}
	return r, nil
}

func parsePytestJSON(data []byte) (Report, error) {
	type phase struct {
		Duration float64 `json:"duration"` // seconds
		Crash    *struct {
			Message string `json:"message"`
		} `json:"crash"`
		Longrepr any `json:"longrepr"`
	}
	var doc struct {
		Tests *[]struct {
			NodeID  string `json:"nodeid"`
			Outcome string `json:"outcome"`
			Setup   phase  `json:"setup"`
			Call    phase  `json:"call"`
			After   phase  `json:"teardown"`
		} `json:"tests"`
	}
	if err := one(data, &doc); err != nil {
		return Report{}, err
	}
	if doc.Tests == nil {
		return Report{}, errors.New("it has no \"tests\"")
	}
	states := map[string]course.Status{
		"passed": course.Passed, "xpassed": course.Passed, "failed": course.Failed, "error": course.Errored,
		// A failure that was expected is no success of the student's.
		"skipped": course.Skipped, "xfailed": course.Skipped,
	}
	var r Report
	for _, t := range *doc.Tests {
		s, ok := states[t.Outcome]
		if !ok {
			return Report{}, fmt.Errorf("test %q has the unknown outcome %q", clip(course.Clean(t.NodeID), 80), clip(course.Clean(t.Outcome), 40))
		}
		test := Test{Name: t.NodeID, Status: s, Time: seconds(t.Setup.Duration + t.Call.Duration + t.After.Duration)}
		for _, p := range []phase{t.Setup, t.Call, t.After} {
			if p.Crash != nil {
				test.Message = joined("\n", test.Message, p.Crash.Message)
			} else if text, ok := p.Longrepr.(string); ok {
				test.Message = joined("\n", test.Message, text)
			}
		}
		if err := r.add(test); err != nil {
			return Report{}, err
		}
	}
	return r, nil
}

// parseGoTest reads the events of go test -json. A test that began and did not
// end is an error; one that ended twice is there twice.
func parseGoTest(data []byte) (Report, error) {
	type key struct{ pkg, test string }
	var (
		r      Report
		began  []key
		index  = map[key]int{}
		output = map[key]*strings.Builder{}
	)
	for n, line := range bytes.Split(data, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] != '{' {
			continue // the go command's own messages
		}
		var e struct {
			Action, Package, Test, Output string
			Elapsed                       float64
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return Report{}, fmt.Errorf("line %d: %w", n+1, err)
		}
		k := key{e.Package, e.Test}
		if e.Test == "" {
			continue
		}
		switch e.Action {
		case "run":
			if _, twice := index[k]; !twice {
				if index[k] = -1; len(began) > MaxTests {
					return Report{}, fmt.Errorf("more than %d tests", MaxTests)
				}
				began = append(began, k)
			}
		case "output":
			b := output[k]
			if b == nil {
				b = &strings.Builder{}
				output[k] = b
			}
			if b.Len() < maxMessage {
				b.WriteString(e.Output)
			}
		case "pass", "fail", "skip":
			t := Test{
				Name: joined(".", e.Package, e.Test), Time: seconds(e.Elapsed),
				Status: map[string]course.Status{"pass": course.Passed, "fail": course.Failed, "skip": course.Skipped}[e.Action],
			}
			if b := output[k]; b != nil && e.Action != "pass" {
				t.Message = b.String()
			}
			if err := r.add(t); err != nil {
				return Report{}, err
			}
			index[k] = len(r.Tests)
		}
	}
	for _, k := range began {
		if index[k] < 0 {
			if err := r.add(Test{Name: joined(".", k.pkg, k.test), Status: course.Errored, Message: "the test did not end"}); err != nil {
				return Report{}, err
			}
		}
	}
	if len(r.Tests) == 0 {
		return Report{}, errors.New("it has no event of a test")
	}
	return r, nil
}

// one decodes exactly one JSON value.
func one(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the document")
	}
	return nil
}
