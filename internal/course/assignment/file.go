package assignment

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"assay/internal/bytesize"
	"assay/internal/course"
	"assay/internal/fault"
	"assay/internal/judge"
)

// FileName is the file that makes a folder an assignment.
const FileName = "assignment.yaml"

// file is assignment.yaml as it is written.
type file struct {
	Title      string            `yaml:"title"`
	Mode       course.Mode       `yaml:"mode"`
	Language   string            `yaml:"language"`
	Template   string            `yaml:"template"`
	Files      []expected        `yaml:"files"`
	Limits     limits            `yaml:"limits"`
	Visibility course.Visibility `yaml:"visibility"`
	Stdout     course.Visibility `yaml:"stdout"`
	Details    *bool             `yaml:"details"`
	Points     *score            `yaml:"points"`
	Seed       int64             `yaml:"seed"`
	Clock      *time.Time        `yaml:"clock"`
	// deciding is all of the file that can change a grade, as canonical text.
	deciding string
	// Tests and Call are read by what they belong to.
	Tests, Call ast.Node           `yaml:"-"`
	Pytest      *pytestRules       `yaml:"pytest"`
	Harness     *harnessRules      `yaml:"harness"`
	Starter     *proof             `yaml:"starter"`
	Solution    string             `yaml:"solution"`
	Proofs      []proof            `yaml:"proofs"`
	Due         course.LocalTime   `yaml:"due"`
	Late        course.LateRule    `yaml:"late"`
	Attempts    course.AttemptRule `yaml:"attempts"`
}

// expected is a file that is handed in: "sum.py", or with optional.
type expected course.ExpectedFile

func (e *expected) UnmarshalYAML(n ast.Node) error {
	if text, ok := n.(*ast.StringNode); ok {
		*e = expected{Pattern: text.Value}
		return nil
	}
	var full struct {
		Name     string `yaml:"name"`
		Optional bool   `yaml:"optional"`
	}
	err := decode(n, &full)
	*e = expected{Pattern: full.Name, Optional: full.Optional}
	return err
}

type limits struct {
	Time      time.Duration `yaml:"time"`
	Wall      time.Duration `yaml:"wall"`
	Memory    bytesize.Size `yaml:"memory"`
	Output    bytesize.Size `yaml:"output"`
	Disk      bytesize.Size `yaml:"disk"`
	Processes int           `yaml:"processes"`
}

func (l limits) limits() course.Limits {
	return course.Limits{
		Time: l.Time, Wall: l.Wall, Memory: int64(l.Memory), Output: int64(l.Output), Disk: int64(l.Disk), Processes: l.Processes,
	}
}

// score is a number of points, exact as it is written.
type score struct{ judge.Score }

func (s *score) UnmarshalYAML(n ast.Node) error {
	v, err := judge.ParseScore(n.GetToken().Value)
	if err != nil {
		return &yaml.SyntaxError{Message: err.Error(), Token: n.GetToken()}
	}
	if v.Sign() < 0 {
		return &yaml.SyntaxError{Message: "points cannot be below zero", Token: n.GetToken()}
	}
	s.Score = v
	return nil
}

type pytestRules struct {
	Paths        []string `yaml:"paths"`
	Modules      []string `yaml:"modules"`
	ValueClasses []string `yaml:"value_classes"`
	PointsEach   *score   `yaml:"points_each"`
}

type harnessRules struct {
	Format        string   `yaml:"format"`
	Path          string   `yaml:"path"`
	Command       []string `yaml:"command"`
	Report        string   `yaml:"report"`
	ReportFormat  string   `yaml:"report_format"`
	SkippedCounts bool     `yaml:"skipped_counts"`
	BaseName      string   `yaml:"base_name"`
}

// proof is a submission of the teacher's and what it must get.
type proof struct {
	Files      string       `yaml:"files"`
	Score      *proofScore  `yaml:"score"`
	Suspicious bool         `yaml:"suspicious"`
	Cause      course.Cause `yaml:"cause"`
}

// proofScore is a number of points, or "full".
type proofScore struct {
	score judge.Score
	full  bool
}

func (s *proofScore) UnmarshalYAML(n ast.Node) error {
	if n.GetToken().Value == "full" {
		s.full = true
		return nil
	}
	var number score
	err := number.UnmarshalYAML(n)
	s.score = number.Score
	return err
}

// testRule is what every test has, whatever the mode.
type testRule struct {
	Name       string            `yaml:"name"`
	ID         string            `yaml:"id"`
	Points     *score            `yaml:"points"`
	Bonus      bool              `yaml:"bonus"`
	Visibility course.Visibility `yaml:"visibility"`
	Message    string            `yaml:"message"`
	Details    *bool             `yaml:"details"`
}

var testRuleKeys = []string{"name", "id", "points", "bonus", "visibility", "message", "details"}

// ioRule is what a test of mode io has beside.
type ioRule struct {
	Args       []string          `yaml:"args"`
	Stdin      *string           `yaml:"stdin"`
	StdinFile  string            `yaml:"stdin_file"`
	Stdout     *string           `yaml:"stdout"`
	StdoutFile string            `yaml:"stdout_file"`
	Check      string            `yaml:"check"`
	Exit       int               `yaml:"exit"`
	Files      map[string]string `yaml:"files"`
	Outputs    map[string]string `yaml:"outputs"`
}

const (
	maxFile   = 1 << 20
	maxTests  = 1000
	maxIndent = 100
)

// parseFile reads assignment.yaml. Errors are Invalid and show the line.
func parseFile(name string, data []byte) (file, error) {
	var f file
	if len(data) > maxFile {
		return f, fault.Errorf(fault.Invalid, "%s has more than %s", name, bytesize.Size(maxFile)).
			WithHint("put long inputs into files (stdin_file, stdout_file)")
	}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if len(line)-len(bytes.TrimLeft(line, " \t-?:[{")) > maxIndent {
			return f, fault.Errorf(fault.Invalid, "%s:%d: nested too deeply", name, n)
		}
	}
	tree, err := parse(data)
	if err != nil {
		return f, yamlError(name, err)
	}
	if len(tree.Docs) != 1 || tree.Docs[0].Body == nil {
		return f, fault.Errorf(fault.Invalid, "%s: expected one mapping (title: …, mode: …)", name)
	}
	root, ok := tree.Docs[0].Body.(*ast.MappingNode)
	if !ok {
		return f, fault.Errorf(fault.Invalid, "%s: expected keys and values (title: …, mode: …)", name)
	}
	var refused aliases
	ast.Walk(&refused, root)
	if refused.node != nil {
		return f, yamlError(name, &yaml.SyntaxError{Message: "anchors, aliases and merges are not allowed", Token: refused.node.GetToken()})
	}
	own, rest := take(root, "tests", "call")
	if err := decode(rest, &f); err != nil {
		return f, yamlError(name, err)
	}
	_, deciding := take(root, "title", "due", "late", "attempts", "starter", "proofs")
	f.deciding = deciding.String()
	for _, v := range own.Values {
		if v.Key.String() == "tests" {
			f.Tests = v.Value
		} else {
			f.Call = v.Value
		}
	}
	return f, nil
}

// parse calls the parser, which is third-party code: a panic in it is a bad
// file.
func parse(data []byte) (tree *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			tree, err = nil, fmt.Errorf("the parser gave up: %v", p)
		}
	}()
	return parser.ParseBytes(data, 0)
}

// decode reads a node into v; unknown keys are errors. Like parse, it calls the
// library on a stranger's file.
func decode(n ast.Node, v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = wrong(n, "the value has a form that is not expected here")
		}
	}()
	return yaml.NodeToValue(n, v, yaml.Strict())
}

type aliases struct{ node ast.Node }

func (a *aliases) Visit(n ast.Node) ast.Visitor {
	switch n.(type) {
	case *ast.AliasNode, *ast.AnchorNode, *ast.MergeKeyNode:
		if a.node == nil {
			a.node = n
		}
	}
	return a
}

// take splits a mapping into the named keys and the others.
func take(m *ast.MappingNode, keys ...string) (taken, rest *ast.MappingNode) {
	taken, rest = ast.Mapping(m.Start, m.IsFlowStyle), ast.Mapping(m.Start, m.IsFlowStyle)
	for _, v := range m.Values {
		if slices.Contains(keys, v.Key.String()) {
			taken.Values = append(taken.Values, v)
		} else {
			rest.Values = append(rest.Values, v)
		}
	}
	return taken, rest
}

// yamlError makes a fault of an error of the YAML library, with the place.
func yamlError(name string, err error) error {
	if y, ok := errors.AsType[yaml.Error](err); ok && y.GetToken() != nil && y.GetToken().Position != nil {
		p := y.GetToken().Position
		return fault.Errorf(fault.Invalid, "%s:%d:%d: %s", name, p.Line, p.Column, firstLine(y.GetMessage()))
	}
	return fault.Errorf(fault.Invalid, "%s: %s", name, firstLine(err.Error()))
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// wrong is an error at a node.
func wrong(n ast.Node, format string, args ...any) error {
	return &yaml.SyntaxError{Message: fmt.Sprintf(format, args...), Token: n.GetToken()}
}
