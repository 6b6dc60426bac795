package problempkg

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/fault"
)

func TestReadSubmission(t *testing.T) {
	t.Parallel()
	dir := writeFolder(t, map[string]string{
		"submissions/accepted/a.py": "", "submissions/mixed/b.c": "// @EXPECTED_RESULTS@: TLE", "submissions/accepted/many/x.c": "", "submissions/accepted/many/x.h": "",
		"loose.c": "", "tagged.c": "/* @EXPECTED_RESULTS@: RE */", "accepted/no_package.c": "", "linked/x.c": "-> ../loose.c", "large.c": strings.Repeat("x", maxSource+1),
	})
	for name, want := range map[string]string{
		"submissions/accepted/a.py": "AC", "submissions/mixed/b.c": "TLE", "submissions/accepted/many": "AC",
		"loose.c": "anything", "tagged.c": "RE", "accepted/no_package.c": "anything",
	} {
		l, warnings, err := ReadSubmission(filepath.Join(dir, name))
		if err != nil || len(warnings) > 0 || l.Expectation.Text() != want {
			t.Errorf("%s: %q %q %v, want %q", name, l.Expectation.Text(), warnings, err, want)
		}
		if n := len(l.Submission.Files); n != 1 && n != 2 || strings.Contains(l.Submission.Files[0].Name, "/") {
			t.Errorf("%s: files %+v", name, l.Submission.Files)
		}
	}
	for name, kind := range map[string]fault.Kind{"none.c": fault.NotFound, "linked": fault.Invalid, "large.c": fault.Invalid} {
		if _, _, err := ReadSubmission(filepath.Join(dir, name)); !fault.Is(err, kind) {
			t.Errorf("%s: %v, want %v", name, err, kind)
		}
	}
	if _, _, err := ReadSubmission(os.DevNull); !fault.Is(err, fault.Invalid) {
		t.Errorf("a device: %v, want Invalid", err)
	}
}
