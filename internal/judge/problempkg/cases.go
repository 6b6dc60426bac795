package problempkg

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"assay/internal/fault"
	"assay/internal/judge"
)

// caseBases finds the test cases below a folder of data/ ("data/secret"): their
// paths without extension, folder by folder in byte order of the names. Both
// files of each must be there; wantAnswer false is for inputs that are invalid.
// digest must have read the files.
func (t *tree) caseBases(dir string, wantAnswer bool) ([]string, error) {
	var bases []string
	for _, name := range t.below(dir) {
		if inFiles(name) {
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
		if wantAnswer && t.files[base+".ans"] == nil {
			return nil, fault.Errorf(fault.Invalid, "%s has no answer %s.ans", name, base).
				WithHint("every case needs both files; make the answer with an accepted submission")
		}
		if path.Base(base) == "test_group" {
			return nil, fault.Errorf(fault.Invalid, "%s: a case must not be named test_group", name)
		}
		bases = append(bases, base)
	}
	slices.SortFunc(bases, byParts)
	return bases, nil
}

// byParts orders paths folder by folder, so that a group's cases are together
// and a case comes where its name puts it, not its extension.
func byParts(a, b string) int {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}

// inFiles reports whether a path lies in a case's folder of files.
func inFiles(name string) bool { return strings.Contains(path.Dir(name)+"/", ".files/") }

// newCase makes the case of a path without extension.
func (t *tree) newCase(base string) judge.Case {
	t.warnOfBOM(base + ".ans")
	return judge.Case{
		Name: strings.TrimPrefix(base, "data/"), Sample: strings.HasPrefix(base, "data/sample/"),
		Input: t.blob(base + ".in"), Answer: t.blob(base + ".ans"),
	}
}

// checkCases refuses a package that decides nothing.
func (t *tree) checkCases(cases []judge.Case) error {
	if len(cases) == 0 {
		return fault.Errorf(fault.Invalid, "the package has no test cases").
			WithHint("put pairs of X.in and X.ans into data/secret (and data/sample)")
	}
	if !slices.ContainsFunc(cases, func(c judge.Case) bool { return !c.Sample }) {
		t.warn("data/secret has no test cases")
	}
	return nil
}

// below lists the files below a folder, sorted by bytes.
func (t *tree) below(dir string) []string {
	prefix := dir + "/"
	from, _ := slices.BinarySearch(t.names, prefix)
	to := from
	for to < len(t.names) && strings.HasPrefix(t.names[to], prefix) {
		to++
	}
	return t.names[from:to]
}

// blob is a file of the package; one that is not there is empty.
func (t *tree) blob(name string) judge.Blob {
	f := t.files[name]
	if f == nil {
		return judge.BytesBlob(name, nil)
	}
	return judge.NewBlob(name, f.size, f.sha256, f.open)
}

// warnOfBOM tells of answers no program can match byte for byte.
func (t *tree) warnOfBOM(name string) {
	f := t.files[name]
	if f == nil {
		return
	}
	for _, bom := range [][]byte{[]byte("\xef\xbb\xbf"), []byte("\xff\xfe"), []byte("\xfe\xff")} {
		if bytes.HasPrefix(f.start, bom) {
			t.warn("%s begins with a byte order mark, which outputs will not have", name)
			return
		}
	}
}
