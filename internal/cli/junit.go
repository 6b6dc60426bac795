package cli

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strconv"
	"time"

	"assay/internal/fault"
	"assay/internal/judge"
)

// suite is a package and what was judged of it, for JUnit XML.
type suite struct {
	name     string
	runs     []judged
	findings []judge.Finding
}

// The elements of JUnit XML that programs agree on.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name      string      `xml:"name,attr"`
		Tests     int         `xml:"tests,attr"`
		Failures  int         `xml:"failures,attr"`
		Errors    int         `xml:"errors,attr"`
		Skipped   int         `xml:"skipped,attr"`
		Time      string      `xml:"time,attr"`
		Timestamp string      `xml:"timestamp,attr,omitempty"`
		Cases     []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name       string          `xml:"name,attr"`
		ClassName  string          `xml:"classname,attr"`
		Time       string          `xml:"time,attr"`
		Properties []junitProperty `xml:"properties>property,omitempty"`
		Failure    *junitOutcome   `xml:"failure"`
		Error      *junitOutcome   `xml:"error"`
		Skipped    *junitOutcome   `xml:"skipped"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitOutcome struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// junit makes the document: a test suite for each package, a test case for each
// submission. It fails when its label is not met or, without a label, when it
// was not accepted; JE is an error. time is how long the judging took, the
// times that count are properties. A finding about the package is a test case,
// too, which fails when it is wrong.
func junit(suites []suite) ([]byte, error) {
	var doc junitSuites
	for _, s := range suites {
		out := junitSuite{Name: s.name}
		var total time.Duration
		for _, f := range s.findings {
			if f.Wrong {
				out.Failures++
				out.Cases = append(out.Cases, junitCase{
					Name: "package: " + f.Where, ClassName: s.name, Time: "0.000", Failure: &junitOutcome{Message: f.Text, Type: "finding", Text: f.Text},
				})
			}
		}
		for _, r := range s.runs {
			c := junitRun(s.name, r)
			took := r.run.FinishedAt.Sub(r.run.StartedAt)
			total += took
			if !r.run.StartedAt.IsZero() && out.Timestamp == "" {
				out.Timestamp = r.run.StartedAt.Format("2006-01-02T15:04:05")
			}
			for count, there := range map[*int]bool{&out.Failures: c.Failure != nil, &out.Errors: c.Error != nil, &out.Skipped: c.Skipped != nil} {
				if there {
					*count++
				}
			}
			out.Cases = append(out.Cases, c)
		}
		out.Tests, out.Time = len(out.Cases), junitTime(total)
		doc.Tests += out.Tests
		doc.Failures += out.Failures
		doc.Errors += out.Errors
		doc.Suites = append(doc.Suites, out)
	}
	// Text that XML cannot hold is replaced by the encoder.
	body, err := xml.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "write JUnit XML: %w", err)
	}
	return bytes.Join([][]byte{[]byte(xml.Header), body, []byte("\n")}, nil), nil
}

func junitRun(suite string, r judged) junitCase {
	c := junitCase{
		Name: r.row.Submission, ClassName: suite + "." + r.row.Language, Time: junitTime(r.run.FinishedAt.Sub(r.run.StartedAt)),
		Properties: []junitProperty{
			{"verdict", string(r.run.Verdict)},
			{"expected", r.row.Expected},
			{"cpu_us", strconv.FormatInt(r.run.TimeUS, 10)},
			{"memory_bytes", strconv.FormatInt(r.run.MemoryBytes, 10)},
		},
	}
	if r.run.Score != nil {
		c.Properties = append(c.Properties, junitProperty{"score", r.run.Score.String()})
	}
	said := fmt.Sprintf("verdict %s (%s), expected %s", r.run.Verdict, r.run.Verdict.Text(), r.row.Expected)
	if r.run.Reason != "" {
		said += "\n" + r.run.Reason
	}
	o := &junitOutcome{Message: r.row.Mismatch, Type: string(r.run.Verdict), Text: said}
	switch {
	case r.run.Verdict == judge.Skipped:
		o.Message, c.Skipped = r.run.Reason, o
	case r.run.Verdict == judge.JudgeError:
		c.Error = o
	case !r.row.Met:
		c.Failure = o
	case r.row.Expected == "anything" && r.run.Verdict != judge.Accepted:
		o.Message, c.Failure = r.run.Verdict.Text(), o
	}
	return c
}

// junitTime is in seconds.
func junitTime(d time.Duration) string { return strconv.FormatFloat(max(0, d.Seconds()), 'f', 3, 64) }

func writeJUnit(path string, suites []suite) error {
	data, err := junit(suites)
	if err != nil {
		return err
	}
	return writeWhole(path, data, 0o644)
}
