package handin

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/course"
	"assay/internal/fault"
)

// metadata is what Gradescope writes, with a section that is passed over.
const metadata = `---
submission_11:
  :submitters:
  - :name: Ada L
    :sid: '0042'
    :email: ada@example.org
  :created_at: 2026-03-01 22:15:09.250000000 Z
  :score: 3.0
  :results:
    output: "submission_12:\n  :submitters:"
    tests:
    - name: "one"
submission_12:
  :submitters:
  - :name: Bo
    :sid: '7'
    :email: bo@example.org
  - :name: Cy
    :sid:
    :email: cy@example.org
  :created_at: 2026-03-01 23:15:09.000000000 -05:00
submission_13:
  :submitters:
  - :name: Di
    :sid: '9'
`

// told is what a test looks at of an entry.
type told struct {
	ID       string
	People   []Person
	Received string
	Files    map[string]string
	Notes    []string
	Err      string
}

func look(t *testing.T, c *Class) (all []told) {
	t.Helper()
	for _, e := range c.Entries {
		one := told{ID: e.ID, People: e.People}
		if !e.Received.IsZero() {
			one.Received = e.Received.UTC().Format(time.RFC3339)
		}
		s, err := e.Open()
		if err != nil {
			one.Err = err.Error()
		} else {
			one.Files, one.Notes = contents(s), s.Notes
			if s.ID != e.ID || !s.Received.Equal(e.Received) {
				t.Errorf("submission %q received %v, its entry is %q received %v", s.ID, s.Received, e.ID, e.Received)
			}
		}
		all = append(all, one)
	}
	return all
}

func TestReadClass(t *testing.T) {
	t.Parallel()
	inner := string(zipOf([]item{{name: "hw/calc.py", data: "z"}}))
	calc := Options{Expected: []course.ExpectedFile{{Pattern: "calc.py"}}}
	tests := []struct {
		name string
		// dir is the folder's name, files what is in it.
		dir   string
		files map[string]string
		o     Options
		want  []told
		notes []string
		// zipToo reads the same from a zip.
		zipToo bool
	}{
		{
			name: "folder", dir: "class", o: calc,
			files: map[string]string{"ada/calc.py": "a", "bo.zip": inner, "cy.py": "c", "di.tar.gz": string(gzipOf(t, tarOf(t))), ".DS_Store": "x", "ed/x/y": "e"},
			want: []told{
				{ID: "ada", Files: map[string]string{"calc.py": "a"}},
				{ID: "bo", Files: map[string]string{"calc.py": "z"}, Notes: []string{`took the files out of the folder "hw"`}},
				{ID: "cy", Files: map[string]string{"calc.py": "c"}, Notes: []string{`took "cy.py" as "calc.py"`}},
				{ID: "di", Err: `submission "di": "di.tar.gz" is compressed, but there is no tar in it`},
				{ID: "ed", Files: map[string]string{"x/y": "e"}, Notes: []string{`missing: "calc.py"`, `kept files that were not asked for: "x/y"`}},
			},
		},
		{
			name: "one_submission", dir: "ada", o: calc, files: map[string]string{"calc.py": "a", "more/x.py": "b"},
			want: []told{{ID: "ada", Files: map[string]string{"calc.py": "a", "more/x.py": "b"}, Notes: []string{`kept files that were not asked for: "more/x.py"`}}},
		},
		{
			name: "gradescope", dir: "assignment_5_export", zipToo: true,
			files: map[string]string{gradescopeFile: metadata, "submission_11/calc.py": "a", "submission_12/hand.zip": inner, "submission_14/calc.py": "d", "readme.txt": "x"},
			want: []told{
				{ID: "0042", People: []Person{{"Ada L", "ada@example.org", "0042"}}, Received: "2026-03-01T22:15:09Z", Files: map[string]string{"calc.py": "a"}},
				{ID: "7+cy@example.org", People: []Person{{"Bo", "bo@example.org", "7"}, {"Cy", "cy@example.org", ""}}, Received: "2026-03-02T04:15:09Z", Files: map[string]string{"calc.py": "z"}, Notes: []string{`unpacked "hand.zip"`, `took the files out of the folder "hw"`}},
				{ID: "submission_14", Files: map[string]string{"calc.py": "d"}},
			},
			notes: []string{`"submission_13" is in submission_metadata.yml but not there`, `passed over "readme.txt"`, `read "assignment_5_export" as a download of Gradescope`},
		},
		{
			name: "moodle_folders", dir: "CS1-HW1-99", zipToo: true,
			files: map[string]string{"Ada Lovelace_314_assignsubmission_file_/calc.py": "a", "Bo_X Y_27_assignsubmission_file_/all.zip": inner, "Ada Lovelace_314_assignsubmission_onlinetext_/onlinetext.html": "x"},
			want: []told{
				{ID: "27", People: []Person{{Name: "Bo_X Y"}}, Files: map[string]string{"calc.py": "z"}, Notes: []string{`unpacked "all.zip"`, `took the files out of the folder "hw"`}},
				{ID: "314", People: []Person{{Name: "Ada Lovelace"}}, Files: map[string]string{"calc.py": "a"}},
			},
			notes: []string{`passed over "Ada Lovelace_314_assignsubmission_onlinetext_"`, `read "CS1-HW1-99" as a download of Moodle`},
		},
		{
			name: "moodle_flat", dir: "hw", zipToo: true,
			files: map[string]string{"Ada Lovelace_314_assignsubmission_file_calc.py": "a", "Ada Lovelace_314_assignsubmission_file_read_me.txt": "b"},
			want:  []told{{ID: "314", People: []Person{{Name: "Ada Lovelace"}}, Files: map[string]string{"calc.py": "a", "read_me.txt": "b"}}},
			notes: []string{`read "hw" as a download of Moodle`},
		},
		{
			name: "canvas", dir: "submissions", zipToo: true, o: calc,
			files: map[string]string{"lovelaceada_LATE_31_415_calc-2.py": "a", "lovelaceada_31_416_my_notes.txt": "n", "bo_27_1_hw.zip": inner},
			want: []told{
				{ID: "27", People: []Person{{Name: "bo"}}, Files: map[string]string{"calc.py": "z"}, Notes: []string{`took the files out of the folder "hw"`}},
				{ID: "31", People: []Person{{Name: "lovelaceada"}}, Files: map[string]string{"calc.py": "a", "my_notes.txt": "n"}, Notes: []string{"handed in late, says Canvas", `kept files that were not asked for: "my_notes.txt"`}},
			},
			notes: []string{`read "submissions" as a download of Canvas`},
		},
		{
			name: "github_classroom", dir: "hw1-submissions",
			files: map[string]string{"hw1-ada/calc.py": "a", "hw1-ada/.git/HEAD": "x", "hw1-bo-b/calc.py": "b"},
			want: []told{
				{ID: "ada", Files: map[string]string{"calc.py": "a"}, Notes: []string{`dropped what tools left behind: ".git"`}},
				{ID: "bo-b", Files: map[string]string{"calc.py": "b"}},
			},
			notes: []string{`read "hw1-submissions" as a download of GitHub Classroom`},
		},
		{
			name: "hostile_among_others", dir: "class",
			files: map[string]string{"ada/calc.py": "a", "bo.zip": string(zipOf([]item{{name: "../x"}})), "cy.zip": "PK\x03\x04"},
			want: []told{
				{ID: "ada", Files: map[string]string{"calc.py": "a"}},
				{ID: "bo", Err: `submission "bo": the name "../x" climbs out of its folder with ".."`},
				{ID: "cy", Err: `submission "cy": the zip has no end`},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), tt.dir)
			var items []item
			for _, name := range slices.Sorted(maps.Keys(tt.files)) {
				p := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(p, []byte(tt.files[name]), 0o644); err != nil {
					t.Fatal(err)
				}
				items = append(items, item{name: name, data: tt.files[name]})
			}
			paths := []string{dir}
			if tt.zipToo {
				z := filepath.Join(t.TempDir(), tt.dir)
				if err := os.WriteFile(z, zipOf(items), 0o644); err != nil {
					t.Fatal(err)
				}
				for i := range items {
					items[i].name = "top/" + items[i].name
				}
				inTop := filepath.Join(t.TempDir(), tt.dir)
				if err := os.WriteFile(inTop, zipOf(items), 0o644); err != nil {
					t.Fatal(err)
				}
				paths = append(paths, z, inTop)
			}
			for _, p := range paths {
				c, err := ReadClass([]string{p}, tt.o)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, look(t, c)); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(tt.notes, c.Notes); diff != "" {
					t.Error(diff)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestReadClassOfPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, data := range map[string]string{"ada/calc.py": "a", "bo.zip": string(zipOf([]item{{name: "calc.py", data: "b"}})), "bo/calc.py": "b"} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "cy.py")); err != nil {
		t.Fatal(err)
	}
	ada, boZip, bo := filepath.Join(dir, "ada"), filepath.Join(dir, "bo.zip"), filepath.Join(dir, "bo")
	c, err := ReadClass([]string{boZip, ada}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []told{{ID: "ada", Files: map[string]string{"calc.py": "a"}}, {ID: "bo", Files: map[string]string{"calc.py": "b"}}}
	if diff := cmp.Diff(want, look(t, c)); diff != "" {
		t.Error(diff)
	}
	if _, err := ReadClass([]string{boZip, bo}, Options{}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), `two submissions are called "bo"`) {
		t.Errorf("twins: %v", err)
	}
	if _, err := ReadClass([]string{filepath.Join(dir, "nobody")}, Options{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("nobody: %v", err)
	}
	if err := os.Remove(boZip); err != nil {
		t.Fatal(err)
	}
	c, err = ReadClass([]string{dir}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := look(t, c); len(got) != 3 || !strings.Contains(got[2].Err, `"cy.py" is a symbolic link`) {
		t.Errorf("link: %+v", got)
	}
}

// TestOpenAtOnce opens the entries of one zip from many goroutines.
func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	var items []item
	for i := range 50 {
		name := fmt.Sprintf("Ada_%02d_assignsubmission_file_/", i)
		items = append(items, item{name: name + "calc.py", data: strings.Repeat(fmt.Sprint(i, "\n"), 500), deflate: true}, item{name: name + "data", data: name})
	}
	c, err := ReadClass([]string{place(t, "all.zip", zipOf(items))}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for i, e := range slices.Concat(c.Entries, c.Entries) {
		wait.Go(func() {
			i := i % len(c.Entries)
			s, err := e.Open()
			if err != nil || len(s.Files) != 2 || string(s.Files[0].Data) != strings.Repeat(fmt.Sprint(i, "\n"), 500) {
				t.Errorf("%s: %v", e.ID, err)
			}
		})
	}
	wait.Wait()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestClassIsLazy reads a class of more than may be held at once, one at a time.
func TestClassIsLazy(t *testing.T) {
	dir := t.TempDir()
	for i := range 6 {
		if err := sparse(dir, fmt.Sprintf("%02d.bin", i), 40<<20); err != nil {
			t.Fatal(err)
		}
	}
	most := peak(func() {
		c, err := ReadClass([]string{dir}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range c.Entries {
			if _, err := e.Open(); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	})
	if most > 2*(40<<20)+maxOverhead {
		t.Errorf("%d MiB of heap for one of 40 MiB at a time", most>>20)
	}
}

func TestTree(t *testing.T) {
	t.Parallel()
	s := course.Submission{
		Files: []course.File{{Name: "calc.py", Data: make([]byte, 10)}, {Name: "src/a/x.py", Data: make([]byte, 2048)}, {Name: "src/run.sh", Executable: true}},
		Notes: []string{`dropped what tools left behind: ".git"`},
	}
	want := `calc.py   10 bytes
src/
  a/
    x.py  2 KiB
  run.sh  0 bytes  (may be executed)
note: dropped what tools left behind: ".git"
`
	if diff := cmp.Diff(want, Tree(s)); diff != "" {
		t.Error(diff)
	}
}

func FuzzMetadata(f *testing.F) {
	f.Add(metadata)
	f.Add("submission_1:\n  :submitters:\n  - &a [*a]\n")
	f.Add("submission_1:\n  :created_at: !ruby/object:Gem {}\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := readMetadata(strings.NewReader(text))
		if err != nil {
			return
		}
		for name := range all {
			if !strings.HasPrefix(name, "submission_") {
				t.Errorf("took the name %q", name)
			}
		}
	})
}
