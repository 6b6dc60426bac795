package judge

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"assay/internal/sandbox"
)

// TestForContestantHidesWhatIsNotHis fills every text of a run with a word of
// its own and looks for those that may be seen.
func TestForContestantHidesWhatIsNotHis(t *testing.T) {
	t.Parallel()
	var run Run
	marks := fill(reflect.ValueOf(&run).Elem(), "run")
	run.Verdict, run.FailedCase = WrongAnswer, 2
	run.Cases = []CaseResult{run.Cases[0], run.Cases[0]}
	run.Cases[0].Sample, run.Cases[0].Number, run.Cases[0].Name = true, 1, "sample/1"
	run.Cases[0].Reason, run.Cases[0].Message = "sample-reason", "sample-message"
	run.Cases[1].Sample, run.Cases[1].Number = false, 2
	if marks < 40 {
		t.Fatalf("only %d texts were filled", marks)
	}
	data, err := json.Marshal(run.ForContestant())
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, want := range []string{
		"run.ID", "run.Submission.Name", "run.Submission.Language", "run.Problem.Name", "run.Compile.Output", "sample/1", "sample-reason", "sample-message", `"failed_case":2`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not shown", want)
		}
	}
	seen := []string{"run.ID", "run.Submission.", "run.Problem.ShortName", "run.Problem.Name", "run.Problem.Version", "run.Compile.Output", "run.Cases[0].Verdict", "run.Cases[0].Message", "run.Groups[0].Verdict"}
	for rest := text; ; {
		i := strings.Index(rest, "run.")
		if i < 0 {
			break
		}
		rest = rest[i:]
		allowed := false
		for _, s := range seen {
			allowed = allowed || strings.HasPrefix(rest, s)
		}
		if !allowed {
			t.Errorf("shown: %s", rest[:min(len(rest), 60)])
		}
		rest = rest[4:]
	}
	for _, c := range run.ForContestant().Cases {
		if c.Staff != nil || c.Exit != (sandbox.Exit{}) || c.Number == 2 && (c.Message == "" || c.Reason != "" || c.Name != "case 2") {
			t.Errorf("too much of case %d: %+v", c.Number, c)
		}
	}
}

func TestForContestantSaysWhyItDoesNotCompile(t *testing.T) {
	t.Parallel()
	run := Run{Verdict: CompileError, Reason: "exit code 1", Compile: CompileResult{Output: "line 1: expected ;"}}
	if seen := run.ForContestant(); seen.Reason != run.Reason || seen.Compile.Output != run.Compile.Output {
		t.Errorf("reason %q, output %q", seen.Reason, seen.Compile.Output)
	}
	run = Run{Verdict: JudgeError, Reason: "output_validator: exit code 3: expected 42 in secret/7"}
	if seen := run.ForContestant(); seen.Reason != "" {
		t.Errorf("a judge error quotes the jury: %q", seen.Reason)
	}
}

// fill puts the path of each text into it, one element into each list and a
// value into each pointer, and counts the texts.
func fill(v reflect.Value, path string) (texts int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(path)
		return 1
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				texts += fill(v.Field(i), path+"."+v.Type().Field(i).Name)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		texts = fill(v.Index(0), path+"[0]")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		texts = fill(v.Elem(), path)
	}
	return texts
}
