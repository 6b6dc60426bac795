package call

import (
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"assay/internal/course"
	"assay/internal/course/tagged"
	"assay/internal/fault"
)

// ParseTest reads the keys of a test that are this mode's. One call:
//
//	call: gcd            or get: VERSION
//	args: [12, 18]       in the YAML of tagged.FromYAML
//	kwargs: {fast: true}
//	value: 6             or raises: ValueError, or raises: {class: ValueError, text: negative}
//	after: [[1, 2, 3]]   the arguments after the call
//	stdin: "7\n"
//	stdout: "seven\n"
//	tolerance: 1e-9
//	unordered: true
//
// An object and its methods, or several calls in one process:
//
//	new: Stack
//	args: [10]
//	steps:
//	  - {call: push, args: [1]}
//	  - {call: pop, value: 1}
//	  - {call: pop, raises: IndexError}
//	  - {get: size, value: 0}
//
// Errors are Invalid and name the line.
func ParseTest(n *ast.MappingNode) (*course.CallTest, error) {
	t := &course.CallTest{}
	first := course.CallStep{}
	var steps *ast.SequenceNode
	own := false // first has a key
	for _, p := range n.Values {
		mine, err := testKey(t, &steps, p)
		if !mine && err == nil {
			own = true
			err = stepKey(&first, p)
		}
		if err != nil {
			return nil, err
		}
	}
	if steps != nil && own && first.New == "" {
		return nil, wrong(n, "steps stand beside new, or alone").WithHint("put the call into the list of steps")
	}
	if steps == nil || own {
		if err := checkStep(n, first); err != nil {
			return nil, err
		}
		t.Steps = append(t.Steps, first)
	}
	if steps != nil {
		for _, s := range steps.Values {
			step, err := parseStep(s)
			if err != nil {
				return nil, err
			}
			t.Steps = append(t.Steps, step)
		}
	}
	compares := t.Stdout != nil
	for _, s := range t.Steps {
		compares = compares || s.Value != nil || s.Raises != "" || s.After != nil
	}
	if !compares {
		return nil, wrong(n, "the test compares nothing").WithHint("give value, raises, after or stdout")
	}
	return t, nil
}

// testKey reads a key that is not of a step.
func testKey(t *course.CallTest, steps **ast.SequenceNode, p *ast.MappingValueNode) (mine bool, err error) {
	switch p.Key.String() {
	case "steps":
		list, ok := p.Value.(*ast.SequenceNode)
		if !ok || len(list.Values) == 0 {
			return true, wrong(p, "steps is a list of calls")
		}
		*steps = list
	case "stdin":
		t.Stdin, err = text(p)
	case "stdout":
		var out string
		out, err = text(p)
		t.Stdout = &out
	case "tolerance":
		t.Tolerance, err = tolerance(p)
	case "unordered":
		b, ok := p.Value.(*ast.BoolNode)
		if !ok {
			return true, wrong(p, "unordered is true or false")
		}
		t.Unordered = b.Value
	default:
		return false, nil
	}
	return true, err
}

// ParseRules reads the settings of the mode: module and files. Errors are Invalid
// and name the line.
func ParseRules(n ast.Node) (course.CallRules, error) {
	var r course.CallRules
	m, ok := n.(*ast.MappingNode)
	if !ok {
		return r, wrong(n, "call must have keys and values (module: …, files: […])")
	}
	for _, p := range m.Values {
		var err error
		switch key := p.Key.String(); key {
		case "module":
			r.Module, err = text(p)
		case "files":
			r.Files, err = texts(p)
		default:
			err = wrong(p, "key %q is not known in call", key)
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

func parseStep(n ast.Node) (course.CallStep, error) {
	var s course.CallStep
	m, ok := n.(*ast.MappingNode)
	if !ok {
		return s, wrong(n, "a step must have keys and values (call: …)")
	}
	for _, p := range m.Values {
		if err := stepKey(&s, p); err != nil {
			return s, err
		}
	}
	return s, checkStep(m, s)
}

func stepKey(s *course.CallStep, p *ast.MappingValueNode) (err error) {
	switch key := p.Key.String(); key {
	case "new":
		s.New, err = text(p)
	case "call":
		s.Call, err = text(p)
	case "get":
		s.Get, err = text(p)
	case "args":
		s.Args, err = values(p)
	case "after":
		s.After, err = values(p)
	case "kwargs":
		v, err := tagged.FromYAML(p.Value)
		if err != nil {
			return err
		}
		if v.Kind != tagged.Dict {
			return wrong(p, "kwargs are names and values: {fast: true}")
		}
		for i := 0; i < len(v.Items); i += 2 {
			s.Kwargs = append(s.Kwargs, course.CallKeyword{Name: v.Items[i].Text, Value: v.Items[i+1]})
		}
	case "value":
		v, err := tagged.FromYAML(p.Value)
		if err != nil {
			return err
		}
		s.Value = &v
	case "raises":
		return raisesKey(s, p)
	default:
		err = wrong(p, "key %q is not known in mode call", key)
	}
	return err
}

func raisesKey(s *course.CallStep, p *ast.MappingValueNode) (err error) {
	m, ok := p.Value.(*ast.MappingNode)
	if !ok {
		s.Raises, err = text(p)
		return err
	}
	for _, q := range m.Values {
		switch q.Key.String() {
		case "class":
			s.Raises, err = text(q)
		case "text":
			s.RaisesText, err = text(q)
		default:
			err = wrong(q, "raises has class and text")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func checkStep(n *ast.MappingNode, s course.CallStep) error {
	set := 0
	for _, name := range []string{s.New, s.Call, s.Get} {
		if name != "" {
			set++
		}
	}
	switch {
	case set != 1:
		return wrong(n, "one of call, new and get must be given")
	case s.Get != "" && len(s.Args)+len(s.Kwargs)+len(s.After) > 0:
		return wrong(n, "get has no arguments")
	case s.RaisesText != "" && s.Raises == "":
		return wrong(n, "raises needs a class")
	case s.Raises != "" && s.Value != nil:
		return wrong(n, "a call returns a value or raises, not both")
	case s.New != "" && s.Value != nil:
		return wrong(n, "new gives an object: there is no value to compare")
	case s.After != nil && len(s.After) != len(s.Args):
		return wrong(n, "after has %d values and args %d", len(s.After), len(s.Args))
	}
	return nil
}

func values(p *ast.MappingValueNode) ([]tagged.Value, error) {
	v, err := tagged.FromYAML(p.Value)
	if err != nil {
		return nil, err
	}
	if v.Kind != tagged.List {
		return nil, wrong(p, "%s is a list of values", p.Key)
	}
	return append([]tagged.Value{}, v.Items...), nil
}

// text gives a value that is text, or a number as it is written.
func text(p *ast.MappingValueNode) (string, error) {
	switch n := p.Value.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	}
	return "", wrong(p, "%s must be text", p.Key)
}

func texts(p *ast.MappingValueNode) ([]string, error) {
	seq, ok := p.Value.(*ast.SequenceNode)
	if !ok {
		return nil, wrong(p, "%s is a list of names", p.Key)
	}
	var list []string
	for _, n := range seq.Values {
		s, ok := n.(*ast.StringNode)
		if !ok {
			return nil, wrong(n, "%s is a list of names", p.Key)
		}
		list = append(list, s.Value)
	}
	return list, nil
}

func tolerance(p *ast.MappingValueNode) (float64, error) {
	s, err := text(p)
	if err != nil {
		return 0, err
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f <= 1e300) {
		return 0, wrong(p, "tolerance is a number that is not negative")
	}
	return f, nil
}

func wrong(n ast.Node, format string, args ...any) *fault.Error {
	switch m := n.(type) {
	case *ast.MappingValueNode:
		n = m.Key
	case *ast.MappingNode:
		if len(m.Values) > 0 {
			n = m.Values[0].Key
		}
	}
	e := fault.Errorf(fault.Invalid, format, args...)
	e.Text = "line " + strconv.Itoa(tagged.Line(n)) + ": " + e.Text
	return e
}
