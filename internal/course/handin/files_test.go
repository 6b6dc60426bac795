package handin

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/course"
	"assay/internal/fault"
)

func TestReadFileIsAsRead(t *testing.T) {
	t.Parallel()
	packed := zipOf([]item{{name: "work/calc.py", data: "x = 1\n", deflate: true}})
	s, err := ReadFile("work.zip", bytes.NewReader(packed), int64(len(packed)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"calc.py": "x = 1\n"}, contents(s)); d != "" || s.ID != "work" {
		t.Errorf("ID %q, %s", s.ID, d)
	}
	_, err = ReadFile("work.zip", bytes.NewReader(zipOf([]item{{name: "../x", data: "x"}})), int64(len(zipOf([]item{{name: "../x", data: "x"}}))), Options{})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), `"../x"`) {
		t.Errorf("got %v", err)
	}
}

func TestReadFilesHasTheCapsOfAnArchive(t *testing.T) {
	t.Parallel()
	file := func(name, data string) course.File { return course.File{Name: name, Data: []byte(data)} }
	s, err := ReadFiles("x", []course.File{file("b/c.py", "1"), file("a.py", "2"), file(".DS_Store", "3")}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"a.py": "2", "b/c.py": "1"}, contents(s)); d != "" || len(s.Notes) != 1 {
		t.Errorf("notes %q, %s", s.Notes, d)
	}
	packed := string(zipOf([]item{{name: "in.py", data: "x"}}))
	if s, err := ReadFiles("x", []course.File{file("one.zip", packed)}, Options{}); err != nil || s.Files[0].Name != "in.py" {
		t.Errorf("one archive: got %+v, %v", s, err)
	}
	for name, files := range map[string][]course.File{
		"nothing":    nil,
		"climbs_out": {file("a", ""), file("../b", "")},
		"absolute":   {file("a", ""), file("/b", "")},
		"twice":      {file("a", ""), file("a", "")},
		"twins":      {file("a", ""), file("A", "")},
		"both":       {file("a", ""), file("a/b", "")},
		"huge":       {file("a", ""), file("b", strings.Repeat("x", MaxFile+1))},
	} {
		if _, err := ReadFiles("x", files, Options{}); !fault.Is(err, fault.Invalid) || fault.HintOf(err) == "" {
			t.Errorf("%s: got %v, want it refused with a hint", name, err)
		}
	}
}
