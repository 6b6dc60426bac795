package course

import (
	"errors"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"assay/internal/fault"
)

// MaxRulesBytes is how large a file of rules may be.
const MaxRulesBytes = 1 << 20

// Rules are the keys of an assignment about handing in.
type Rules struct {
	Due      LocalTime   `yaml:"due"`
	Late     LateRule    `yaml:"late"`
	Attempts AttemptRule `yaml:"attempts"`
}

// ReadRules takes the keys due, late and attempts from a YAML file, whatever
// else is in it. name is for messages.
func ReadRules(name string, data []byte) (Rules, error) {
	var r Rules
	err := yaml.Unmarshal(data, &r)
	if y, ok := errors.AsType[yaml.Error](err); ok && y.GetToken() != nil && y.GetToken().Position != nil {
		return r, fault.Errorf(fault.Invalid, "%s: line %d: %s", name, y.GetToken().Position.Line, y.GetMessage())
	}
	if err != nil {
		return r, fault.Errorf(fault.Invalid, "%s: %w", name, err)
	}
	return r, nil
}

// eachKey reads a mapping whose values are all scalars, and stops at the first
// error, to which it adds the line and the key. The parser refuses a key that is
// there twice.
func eachKey(n ast.Node, set func(key, text string) error) error {
	m, ok := n.(ast.MapNode)
	if !ok {
		return atLine(n, "", fault.Errorf(fault.Invalid, "keys and values are needed here (key: value)"))
	}
	for it := m.MapRange(); it.Next(); {
		key, err := scalar(it.Key())
		if err != nil {
			return err
		}
		text, err := scalar(it.Value())
		if err == nil {
			err = set(key, text)
		}
		if err != nil {
			return atLine(it.Key(), key, err)
		}
	}
	return nil
}

// scalar gives a value as it is written.
func scalar(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	}
	return "", fault.Errorf(fault.Invalid, "one word or number is needed here")
}

func unknownKey(known string) error {
	return fault.Errorf(fault.Invalid, "the key is not known").WithHint("known are %s", known)
}

// atLine puts line and key before an error and keeps its kind and hint.
func atLine(n ast.Node, key string, err error) error {
	line := 0
	if n != nil && n.GetToken() != nil && n.GetToken().Position != nil {
		line = n.GetToken().Position.Line
	}
	if key != "" {
		return fault.Errorf(fault.KindOf(err), "line %d: %s: %w", line, key, err)
	}
	return fault.Errorf(fault.KindOf(err), "line %d: %w", line, err)
}
