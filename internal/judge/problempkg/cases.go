package problempkg

import (
	"bytes"
	"strings"

	"assay/internal/fault"
	"assay/internal/judge"
)

// cases finds the test cases: samples first, then secret ones, each in byte
// order of their paths. digest must have read the files.
func (t *tree) cases() ([]judge.Case, error) {
	var cases []judge.Case
	for _, kind := range []string{"data/sample/", "data/secret/"} {
		before := len(cases)
		for _, name := range t.names {
			if !strings.HasPrefix(name, kind) {
				continue
			}
			if base, ok := strings.CutSuffix(name, ".ans"); ok && t.files[base+".in"] == nil {
				return nil, fault.Errorf(fault.Invalid, "%s has no input %s.in", name, base).
					WithHint("every case needs both files, even if the input is empty")
			}
			base, ok := strings.CutSuffix(name, ".in")
			if !ok {
				continue
			}
			if t.files[base+".ans"] == nil {
				return nil, fault.Errorf(fault.Invalid, "%s has no answer %s.ans", name, base).
					WithHint("every case needs both files; make the answer with an accepted submission")
			}
			t.warnOfBOM(base + ".ans")
			cases = append(cases, judge.Case{
				Name: strings.TrimPrefix(base, "data/"), Sample: kind == "data/sample/",
				Input: t.blob(name), Answer: t.blob(base + ".ans"),
			})
		}
		if len(cases) == before && kind == "data/secret/" {
			t.warn("data/secret has no test cases")
		}
	}
	if len(cases) == 0 {
		return nil, fault.Errorf(fault.Invalid, "the package has no test cases").
			WithHint("put pairs of X.in and X.ans into data/secret (and data/sample)")
	}
	return cases, nil
}

func (t *tree) blob(name string) judge.Blob {
	f := t.files[name]
	return judge.NewBlob(name, f.size, f.sha256, f.open)
}

// warnOfBOM tells of answers no program can match byte for byte.
func (t *tree) warnOfBOM(name string) {
	start := t.files[name].start
	for _, bom := range [][]byte{[]byte("\xef\xbb\xbf"), []byte("\xff\xfe"), []byte("\xfe\xff")} {
		if bytes.HasPrefix(start, bom) {
			t.warn("%s begins with a byte order mark, which outputs will not have", name)
			return
		}
	}
}
