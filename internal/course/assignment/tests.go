package assignment

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"assay/internal/course"
	"assay/internal/course/call"
	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/judge/checker"
)

// tests reads the list of tests.
func (l *loader) tests() error {
	a := l.a
	if l.file.Tests == nil {
		if a.Mode == course.IO || a.Mode == course.Call {
			return fault.Errorf(fault.Invalid, "%s: tests is missing", FileName)
		}
		return nil
	}
	list, ok := l.file.Tests.(*ast.SequenceNode)
	if !ok {
		return wrong(l.file.Tests, "tests must be a list")
	}
	if len(list.Values) > maxTests {
		return wrong(list, "more than %d tests", maxTests)
	}
	names := map[string]bool{}
	for _, n := range list.Values {
		t, err := l.test(n)
		if err != nil {
			return err
		}
		if names[t.Name] {
			return wrong(n, "two tests are called %q", t.Name)
		}
		names[t.Name] = true
		a.Tests = append(a.Tests, t)
		if !t.Bonus {
			a.Points = a.Points.Add(t.Points)
		}
	}
	if want := l.file.Points; want != nil && (a.Mode == course.IO || a.Mode == course.Call) && want.Cmp(a.Points) != 0 {
		return fault.Errorf(fault.Invalid, "%s: points is %s, and the tests add up to %s", FileName, want, a.Points)
	}
	return nil
}

func (l *loader) test(n ast.Node) (course.Test, error) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		return course.Test{}, wrong(n, "a test must have keys and values (name: …)")
	}
	common, rest := take(m, testRuleKeys...)
	var r testRule
	if err := decode(common, &r); err != nil {
		return course.Test{}, err
	}
	split := l.a.Mode == course.IO || l.a.Mode == course.Call
	t := course.Test{
		ID: r.ID, Name: r.Name, Bonus: r.Bonus, Message: strings.TrimSpace(r.Message), Visibility: r.Visibility,
		Details: l.a.Mode != course.Pytest,
	}
	if split {
		if r.ID != "" {
			return t, wrong(n, "id belongs to the modes pytest and harness")
		}
		t.ID, t.Points = t.Name, judge.IntScore(1)
	} else if t.ID == "" {
		return t, wrong(n, "the test has no id: its name in the report of a run")
	}
	if t.Name == "" {
		if t.Name = t.ID; t.Name == "" {
			return t, wrong(n, "the test has no name")
		}
	}
	if r.Points != nil {
		t.Points = r.Points.Score
	}
	for _, d := range []*bool{l.file.Details, r.Details} {
		if d != nil {
			t.Details = *d
		}
	}
	var err error
	if split || t.Visibility != "" {
		if t.Visibility, err = visibility("visibility", t.Visibility, l.a.Visibility); err != nil {
			return t, wrong(n, "%v", err)
		}
	}
	switch l.a.Mode {
	case course.IO:
		t.IO, err = l.ioTest(rest)
	case course.Call:
		t.Call, err = call.ParseTest(rest)
	default:
		if len(rest.Values) > 0 {
			err = wrong(rest.Values[0].Key, "key %q is not known in mode %s", rest.Values[0].Key.String(), l.a.Mode)
		}
	}
	return t, err
}

func (l *loader) ioTest(n *ast.MappingNode) (*course.IOTest, error) {
	var r ioRule
	if err := decode(n, &r); err != nil {
		return nil, err
	}
	t := &course.IOTest{Args: r.Args, Check: strings.Fields(r.Check), Exit: r.Exit}
	if _, err := checker.ParseOptions(t.Check); err != nil {
		return nil, wrong(n, "check: %v", err)
	}
	if r.Exit < 0 || r.Exit > 255 {
		return nil, wrong(n, "exit: %d is not an exit code", r.Exit)
	}
	var err error
	text := func(key string, inline *string, file string) []byte {
		switch {
		case inline != nil && file != "":
			err = wrong(n, "%s and %s_file exclude each other", key, key)
		case inline != nil:
			return []byte(*inline)
		case file != "":
			data, ok := find(l.files, path.Clean(file))
			if !ok {
				err = wrong(n, "%s_file: there is no %s in the folder", key, file)
			}
			return data
		}
		return nil
	}
	t.Stdin, t.Stdout = text("stdin", r.Stdin, r.StdinFile), text("stdout", r.Stdout, r.StdoutFile)
	named := func(key string, m map[string]string) (list []course.File) {
		for name, from := range m {
			data, ok := find(l.files, path.Clean(from))
			if !ok {
				err = wrong(n, "%s: there is no %s in the folder", key, from)
			}
			if !fs.ValidPath(name) || name == "." {
				err = wrong(n, "%s: %q is not a relative file name", key, name)
			}
			list = append(list, course.File{Name: name, Data: data})
		}
		slices.SortFunc(list, func(x, y course.File) int { return strings.Compare(x.Name, y.Name) })
		return list
	}
	t.Files, t.Outputs = named("files", r.Files), named("outputs", r.Outputs)
	if err == nil && t.Stdout == nil && len(t.Outputs) == 0 && r.Exit == 0 {
		err = wrong(n, "the test compares nothing")
	}
	return t, err
}
