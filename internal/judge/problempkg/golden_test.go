package problempkg

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write the golden files")

// archive reads a package of testdata. A file that begins with "-> " is a link,
// and the mark ␍ stands for a carriage return.
func archive(t *testing.T, name string) map[string]string {
	t.Helper()
	a, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range a.Files {
		text := strings.ReplaceAll(string(f.Data), "␍", "\r")
		if strings.HasPrefix(text, "-> ") {
			text = strings.TrimSpace(text)
		}
		files[f.Name] = text
	}
	return files
}

// TestPackages compares all that is read of a package with what was found right
// once, from a folder and from a zip.
func TestPackages(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/packages/*.txtar")
	if err != nil || len(names) < 6 {
		t.Fatalf("packages %q, %v", names, err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			t.Parallel()
			files := archive(t, name)
			got := describe(load(t, writeFolder(t, files)))
			if zipped := describe(load(t, writeZip(t, zipBytes(t, "sum/", files)))); zipped != got {
				t.Errorf("the zip reads otherwise:\n%s", cmp.Diff(got, zipped))
			}
			golden := strings.TrimSuffix(name, ".txtar") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLineFeeds(t *testing.T) {
	t.Parallel()
	p := load(t, writeFolder(t, archive(t, "testdata/packages/polygon.txtar")))
	if got := content(t, p.Problem.Cases[0].Input); got != "1 2\n\n3\n" {
		t.Errorf("input %q, want it with line feeds only", got)
	}
}
