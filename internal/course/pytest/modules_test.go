package pytest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/course"
)

func TestModules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		files          []string
		names, folders []string
	}{
		{"top", []string{"a.py", "b.txt"}, []string{"a"}, []string{}},
		{"folder", []string{"src/a.py"}, []string{"src.a", "a"}, []string{studentDir + "/src"}},
		{"package", []string{"p/__init__.py", "p/queue.py"}, []string{"p", "p.queue"}, []string{}},
		{"top_package", []string{"__init__.py", "a.py"}, []string{"a"}, []string{}},
		{"none", nil, []string{}, []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var files []course.File
			for _, f := range c.files {
				files = append(files, course.File{Name: f})
			}
			names, folders := modules(files)
			if diff := cmp.Diff(c.names, names); diff != "" {
				t.Errorf("names: %s", diff)
			}
			if diff := cmp.Diff(c.folders, folders); diff != "" {
				t.Errorf("folders: %s", diff)
			}
		})
	}
}

// TestImportable wants that a student cannot hide modules of Python or of the
// tests behind files of that name.
func TestImportable(t *testing.T) {
	t.Parallel()
	submission := course.Submission{Files: []course.File{{Name: "calc.py"}, {Name: "json.py"}, {Name: "conftest.py"}}}
	for _, c := range []struct {
		name       string
		assignment course.Assignment
		names      []string
		first      bool
	}{
		{"rule", course.Assignment{Pytest: course.PytestRules{Modules: []string{"calc"}}}, []string{"calc"}, true},
		{"solution", course.Assignment{Solution: []course.File{{Name: "calc.py"}}}, []string{"calc"}, true},
		{"starter", course.Assignment{Starter: []course.File{{Name: "calc.py"}}}, []string{"calc"}, true},
		{"nothing_known", course.Assignment{}, []string{"calc", "json", "conftest"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			names, first := importable(&c.assignment, submission)
			if diff := cmp.Diff(c.names, names); diff != "" || first != c.first {
				t.Errorf("first %v, want %v; names: %s", first, c.first, diff)
			}
		})
	}
}
