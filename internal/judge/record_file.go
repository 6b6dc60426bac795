package judge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"assay/internal/fault"
)

// recordFormat is the number of the format of record files; another number is
// another format.
const recordFormat = 1

// maxRecord bounds a record that is read, in bytes. A run of ten thousand cases
// has about a tenth of it.
const maxRecord = 256 << 20

// Record is a run with all that is needed to repeat it and to see what is not
// the same then.
type Record struct {
	Format int `json:"format"`
	Run    Run `json:"run"`
	// Package is the absolute path of the problem package; Run.Problem.Version is
	// its digest.
	Package string `json:"package"`
	// Sources, Language and Entry are the submission's, as it was sent.
	Sources  []RecordSource `json:"sources"`
	Language string         `json:"language,omitempty"`
	Entry    string         `json:"entry,omitempty"`
	// TimeLimitUS is the limit of the problem in microseconds, before the
	// language's factor: a package may leave it out.
	TimeLimitUS int64 `json:"time_limit_us"`
	// AllCases and Template are as in Options.
	AllCases bool   `json:"all_cases,omitempty"`
	Template string `json:"template,omitempty"`
}

// RecordSource is one source; Data is base64 in the file.
type RecordSource struct {
	Name string `json:"name"`
	Data []byte `json:"data"`
}

// NewRecord makes the record of a run of s against p, which was read from path.
func NewRecord(r Run, s Submission, p Problem, path string, o Options) Record {
	rec := Record{
		Format: recordFormat, Run: r, Package: path, Language: s.Language, Entry: s.Entry,
		TimeLimitUS: p.Limits.CPU.Microseconds(), Template: o.Template,
	}
	// A run that went on after its first failure says so by itself.
	rec.AllCases = o.AllCases || len(p.Groups) == 0 && r.wentOn()
	for _, f := range s.Files {
		rec.Sources = append(rec.Sources, RecordSource(f))
	}
	return rec
}

// wentOn reports whether a case was judged after one that failed.
func (r Run) wentOn() bool {
	failed := false
	for _, c := range r.Cases {
		if c.Verdict != Skipped && failed {
			return true
		}
		failed = failed || c.Verdict != Accepted
	}
	return false
}

// Submission gives what was judged.
func (r Record) Submission() Submission {
	s := Submission{Name: r.Run.Submission.Name, Language: r.Language, Entry: r.Entry}
	for _, f := range r.Sources {
		s.Files = append(s.Files, SourceFile(f))
	}
	return s
}

// TimeLimit is TimeLimitUS as a duration.
func (r Record) TimeLimit() time.Duration { return time.Duration(r.TimeLimitUS) * time.Microsecond }

// ReadRecord reads a record file. Invalid for one that is none, that is of
// another format, or whose sources are not those that the run was made of.
func ReadRecord(from io.Reader) (Record, error) {
	data, err := io.ReadAll(io.LimitReader(from, maxRecord+1))
	if err != nil {
		return Record{}, fault.Errorf(fault.Invalid, "read the record: %w", err)
	}
	if len(data) > maxRecord {
		return Record{}, fault.Errorf(fault.Invalid, "the record is larger than %s", sizeText(maxRecord))
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			err = fmt.Errorf("byte %d: %w", syntax.Offset, err)
		}
		return Record{}, fault.Errorf(fault.Invalid, "this is no record of a run: %w", err).
			WithHint("\"assay judge --record DIR\" writes records")
	}
	switch {
	case r.Format == 0:
		return Record{}, fault.Errorf(fault.Invalid, "this is no record of a run: it has no format").
			WithHint("\"assay judge --record DIR\" writes records")
	case r.Format != recordFormat:
		return Record{}, fault.Errorf(fault.Invalid, "the record has format %d, this program reads %d", r.Format, recordFormat)
	case r.Package == "" || len(r.Sources) == 0 || !r.Run.Verdict.Known() || r.TimeLimitUS < 0:
		return Record{}, fault.Errorf(fault.Invalid, "the record lacks the package, the sources or the verdict")
	}
	if got := r.Submission().Digest(); got != r.Run.Submission.Digest {
		return Record{}, fault.Errorf(fault.Invalid, "the sources of the record have digest %s, the run was made of %s", got, r.Run.Submission.Digest).
			WithHint("the record was changed after it was written")
	}
	return r, nil
}

// Change is what differs between two runs of the same submission.
type Change struct {
	What string `json:"what"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// Verdicts says what differs in the outcome: the verdict, the score, or those
// of a group.
func (r Run) Verdicts(next Run) []Change {
	list := changes(nil, "verdict", string(r.Verdict), string(next.Verdict))
	list = changes(list, "score", scoreWord(r.Score), scoreWord(next.Score))
	for i, g := range r.Groups {
		if i == 0 || i >= len(next.Groups) {
			continue // The whole is the run's.
		}
		n := next.Groups[i]
		list = changes(list, "group "+g.Name, string(g.Verdict)+" "+scoreWord(g.Score), string(n.Verdict)+" "+scoreWord(n.Score))
	}
	return list
}

// Circumstances says what else differs that a verdict may rest on: the problem,
// the machine, the host and the limits.
func (r Run) Circumstances(next Run) []Change {
	list := changes(nil, "problem version", r.Problem.Version, next.Problem.Version)
	a, b := r.Machine, next.Machine
	list = changes(list, "template", a.Template, b.Template)
	list = changes(list, "template digest", a.TemplateDigest, b.TemplateDigest)
	list = changes(list, "driver", a.Driver, b.Driver)
	list = changes(list, "driver identity", a.DriverIdentity, b.DriverIdentity)
	list = fieldChanges(list, "machine", a.Shape, b.Shape)
	list = fieldChanges(list, "host", r.Host, next.Host)
	if r.Limits != (LimitsInfo{}) && next.Limits != (LimitsInfo{}) {
		list = fieldChanges(list, "limit", r.Limits, next.Limits)
	}
	return list
}

// fieldChanges compares two structs of one type field by field.
func fieldChanges[T any](list []Change, what string, old, next T) []Change {
	a, b := reflect.ValueOf(old), reflect.ValueOf(next)
	for i := range a.NumField() {
		name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
		list = changes(list, what+" "+name, fmt.Sprint(a.Field(i).Interface()), fmt.Sprint(b.Field(i).Interface()))
	}
	return list
}

func changes(list []Change, what, old, next string) []Change {
	if old == next {
		return list
	}
	return append(list, Change{what, old, next})
}

func scoreWord(s *Score) string {
	if s == nil {
		return ""
	}
	return s.String()
}
