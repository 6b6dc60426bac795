package problempkg

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"assay/internal/fault"
	"assay/internal/judge"
)

// maxFlow bounds brackets and braces, which the parser nests.
const maxFlow = 1000

// field is one key of a mapping, where it stands, and its value.
type field struct {
	file string
	data []byte
	key  string
	line int
	node ast.Node
}

// mapping reads a file of the package with parseMapping.
func (t *tree) mapping(name string) ([]field, error) {
	data, err := t.text(name, maxTextFile)
	if err != nil {
		return nil, err
	}
	return parseMapping(name, data)
}

// parseMapping reads a YAML file that is one mapping with text keys. Anchors,
// aliases, merges and tags are refused: nobody needs them here, and they are
// what bombs are made of.
func parseMapping(file string, data []byte) ([]field, error) {
	if bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > maxFlow {
		return nil, fault.Errorf(fault.Invalid, "%s has too many brackets", file)
	}
	if line := deepLine(data); line > 0 {
		return nil, spot(file, data, line, "nested too deeply")
	}
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		data = data[3:]
	}
	// Old files are not all UTF-8; what they name is for people.
	data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	tree, err := parse(data)
	if err != nil {
		if y, ok := errors.AsType[yaml.Error](err); ok && y.GetToken() != nil && y.GetToken().Position != nil {
			return nil, spot(file, data, y.GetToken().Position.Line, "%s", y.GetMessage())
		}
		return nil, fault.Errorf(fault.Invalid, "%s: not YAML that can be read: %w", file, err)
	}
	if len(tree.Docs) > 1 {
		return nil, spot(file, data, lineOf(tree.Docs[1].Body), "a second document begins here")
	}
	if len(tree.Docs) == 0 || tree.Docs[0].Body == nil {
		return nil, nil
	}
	body := tree.Docs[0].Body
	var refused refuser
	ast.Walk(&refused, body)
	if refused.node != nil {
		return nil, spot(file, data, lineOf(refused.node), "anchors, aliases, merges and tags are not allowed")
	}
	return mappingFields(file, data, body)
}

// maxIndent is how far a line may be indented, list and key marks included. The
// parser nests a level for each mark, and its memory grows with the square of
// the depth.
const maxIndent = 200

// deepLine gives the first line that is indented further than any file needs,
// from 1, or 0.
func deepLine(data []byte) int {
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if len(line)-len(bytes.TrimLeft(line, " \t-?:")) > maxIndent {
			return n
		}
	}
	return 0
}

// parse calls the parser, which is third-party code on a stranger's file: a
// panic in it is a bad file, not the end of the process.
func parse(data []byte) (tree *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			tree, err = nil, fmt.Errorf("the parser gave up: %v", p)
		}
	}()
	return parser.ParseBytes(data, 0)
}

func mappingFields(file string, data []byte, node ast.Node) ([]field, error) {
	var values []*ast.MappingValueNode
	switch n := node.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	case *ast.NullNode, *ast.CommentGroupNode, nil:
		return nil, nil
	default:
		return nil, spot(file, data, lineOf(node), "expected keys and values (key: value)")
	}
	seen := map[string]bool{}
	var fields []field
	for _, v := range values {
		key := strings.Trim(v.Key.String(), `"'`)
		if s, ok := ast.Node(v.Key).(*ast.StringNode); ok {
			key = s.Value
		}
		line := lineOf(v.Key)
		if seen[key] {
			return nil, spot(file, data, line, "key %q is there twice", clip(key))
		}
		seen[key] = true
		fields = append(fields, field{file: file, data: data, key: key, line: line, node: v.Value})
	}
	return fields, nil
}

type refuser struct{ node ast.Node }

func (r *refuser) Visit(n ast.Node) ast.Visitor {
	switch n.(type) {
	case *ast.AliasNode, *ast.AnchorNode, *ast.MergeKeyNode, *ast.TagNode:
		if r.node == nil {
			r.node = n
		}
	}
	return r
}

func lineOf(n ast.Node) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 1
	}
	return n.GetToken().Position.Line
}

// spot is an error about a line of a file, with the line itself.
func spot(file string, data []byte, line int, format string, args ...any) *fault.Error {
	text := ""
	if lines := bytes.Split(data, []byte("\n")); line >= 1 && line <= len(lines) {
		text = strings.ToValidUTF8(strings.TrimRight(string(lines[line-1]), "\r"), "\uFFFD")
	}
	return fault.Errorf(fault.Invalid, "%s:%d: %s\n  %d | %s", file, line, fmt.Sprintf(format, args...), line, clip(text))
}

// at puts file and line before an error and keeps its kind and hint.
func at(file string, line int, err error) error {
	return fault.Errorf(fault.KindOf(err), "%s:%d: %w", file, line, err)
}

func (f field) wrong(format string, args ...any) *fault.Error {
	return spot(f.file, f.data, f.line, "%s: %s", f.key, fmt.Sprintf(format, args...))
}

func (f field) unsupported(format string, args ...any) *fault.Error {
	e := f.wrong(format, args...)
	e.Kind = fault.Unsupported
	return e
}

// fields gives the value as a mapping.
func (f field) fields() ([]field, error) {
	sub, err := mappingFields(f.file, f.data, f.node)
	if err != nil {
		return nil, err
	}
	for i := range sub {
		sub[i].key = f.key + "." + sub[i].key
	}
	return sub, nil
}

// text gives the value as text; numbers and booleans are taken as written.
func (f field) text() (string, error) {
	switch n := f.node.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.NullNode, nil:
		return "", nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	}
	return "", f.wrong("expected text")
}

// number gives the value as a positive number no larger than limit.
func (f field) number(limit float64) (float64, error) {
	var v float64
	switch n := f.node.(type) {
	case *ast.IntegerNode:
		switch i := n.Value.(type) {
		case int64:
			v = float64(i)
		case uint64:
			v = float64(i)
		default:
			return 0, f.wrong("expected a number")
		}
	case *ast.FloatNode:
		v = n.Value
	default:
		return 0, f.wrong("expected a number")
	}
	if math.IsNaN(v) || v <= 0 {
		return 0, f.wrong("must be above zero").WithHint("leave the key out for the usual value")
	}
	if v > limit {
		return 0, f.wrong("must be at most %g", limit)
	}
	return v, nil
}

// texts gives a list of texts; a single text is a list of one.
func (f field) texts() ([]string, error) {
	seq, ok := f.node.(*ast.SequenceNode)
	if !ok {
		s, err := f.text()
		if err != nil {
			return nil, f.wrong("expected text, or a list of texts")
		}
		return []string{s}, nil
	}
	list := []string{}
	for _, n := range seq.Values {
		item := f
		item.node, item.line = n, lineOf(n)
		s, err := item.text()
		if err != nil {
			return nil, item.wrong("expected a list of texts")
		}
		list = append(list, s)
	}
	return list, nil
}

// empty reports whether the key has no value.
func (f field) empty() bool {
	_, null := f.node.(*ast.NullNode)
	return f.node == nil || null
}

// yes gives the value as true or false.
func (f field) yes() (bool, error) {
	if b, ok := f.node.(*ast.BoolNode); ok {
		return b.Value, nil
	}
	return false, f.wrong("expected true or false")
}

// score gives the value as an exact number of points, as it is written.
func (f field) score() (judge.Score, error) {
	text, err := f.text()
	if err != nil {
		return judge.Score{}, err
	}
	s, err := judge.ParseScore(text)
	if err != nil {
		return s, f.wrong("expected a decimal number")
	}
	return s, nil
}

// last is the key without those it lies in.
func (f field) last(parent field) string { return strings.TrimPrefix(f.key, parent.key+".") }
