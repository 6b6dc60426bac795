package tagged

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"assay/internal/fault"
)

// FromYAML makes the value that a teacher wrote. What YAML has itself is
// written as always: null, true, 3, 2.5, .nan, .inf, text, lists, and mappings
// with any keys. The rest has tags:
//
//	!tuple [1, 2]   !set [1, 2]   !frozenset [a]   !range [0, 10, 2]
//	!dict [[!tuple [0, 1], wall], [2, floor]]      keys that are no plain text
//	!float 3        a float without a fraction; nan, inf, -inf, -0.0
//	!bytes "h\x00\xff"  one byte a character       !!binary aGk=   base64
//	!complex [1, -2.5]   !decimal "1.50"   !fraction 1/3   !!str 5
//	!date 2026-01-02   !datetime 2026-01-02T10:00:00   !time 10:00:00
//	!timedelta [1, 3600, 0]                        days, seconds, microseconds
//	!array {dtype: float64, values: [[1, 2], [3, 4]]}
//
// Errors are Invalid and name the line. Anchors, aliases and merges are refused.
func FromYAML(n ast.Node) (Value, error) { return fromYAML(n, 0) }

// Line gives the line on which a node begins, from 1.
func Line(n ast.Node) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 1
	}
	return n.GetToken().Position.Line
}

func wrong(n ast.Node, format string, args ...any) *fault.Error {
	e := fault.Errorf(fault.Invalid, format, args...)
	e.Text = "line " + strconv.Itoa(Line(n)) + ": " + e.Text
	return e
}

func fromYAML(n ast.Node, depth int) (Value, error) {
	if depth > MaxDepth {
		return Value{}, wrong(n, "the value is nested more than %d times", MaxDepth)
	}
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return Value{}, nil
	case *ast.BoolNode:
		return OfBool(n.Value), nil
	case *ast.IntegerNode:
		return yamlInt(n)
	case *ast.FloatNode:
		return OfFloat(n.Value), nil
	case *ast.InfinityNode:
		return OfFloat(n.Value), nil
	case *ast.NanNode:
		return OfFloat(math.NaN()), nil
	case *ast.StringNode:
		return yamlText(n)
	case *ast.LiteralNode:
		return OfString(n.Value.Value), nil
	case *ast.SequenceNode:
		return yamlList(List, n, depth)
	case *ast.MappingNode:
		return yamlDict(n.Values, depth)
	case *ast.MappingValueNode:
		return yamlDict([]*ast.MappingValueNode{n}, depth)
	case *ast.TagNode:
		return yamlTag(n, depth)
	}
	return Value{}, wrong(n, "anchors, aliases and merges are not allowed in a value")
}

func yamlInt(n *ast.IntegerNode) (Value, error) {
	switch i := n.Value.(type) {
	case int64:
		return OfInt(i), nil
	case uint64:
		return Value{Kind: Int, Text: strconv.FormatUint(i, 10)}, nil
	}
	return Value{}, wrong(n, "%q is no integer", clip(n.GetToken().Value))
}

// yamlText takes unquoted text that is a number for one: the reader knows neither
// integers beyond 64 bits nor "1e20".
func yamlText(n *ast.StringNode) (Value, error) {
	if n.Token != nil && n.Token.Type == token.StringType {
		switch {
		case intForm.MatchString(n.Value):
			return intOf(n.Value)
		case floatForm.MatchString(n.Value):
			return yamlFloat(n, n.Value)
		}
	}
	return OfString(n.Value), nil
}

func yamlList(k Kind, n ast.Node, depth int) (Value, error) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return Value{}, wrong(n, "a %s is written as a list: [1, 2]", k)
	}
	v := Value{Kind: k}
	for _, item := range seq.Values {
		i, err := fromYAML(item, depth+1)
		if err != nil {
			return v, err
		}
		v.Items = append(v.Items, i)
	}
	return v, nil
}

func yamlDict(pairs []*ast.MappingValueNode, depth int) (Value, error) {
	v := Value{Kind: Dict}
	for _, p := range pairs {
		if p.Key.IsMergeKey() {
			return v, wrong(p, "merges are not allowed in a value")
		}
		var key ast.Node = p.Key
		if m, ok := key.(*ast.MappingKeyNode); ok {
			key = m.Value
		}
		k, err := fromYAML(key, depth+1)
		if err != nil {
			return v, err
		}
		item, err := fromYAML(p.Value, depth+1)
		if err != nil {
			return v, err
		}
		v.Items = append(v.Items, k, item)
	}
	return v, nil
}

var yamlSequences = map[string]Kind{"!tuple": Tuple, "!set": Set, "!frozenset": FrozenSet}

var yamlTexts = map[string]string{"!decimal": "dec", "!date": "date", "!datetime": "dt", "!time": "tm"}

func yamlTag(n *ast.TagNode, depth int) (Value, error) {
	tag := n.Start.Value
	if k, ok := yamlSequences[tag]; ok {
		return yamlList(k, n.Value, depth)
	}
	if name, ok := yamlTexts[tag]; ok {
		text := scalar(n.Value)
		form := texts[name]
		if !form.form.MatchString(text) {
			return Value{}, wrong(n, "%q is no %s", clip(text), form.kind)
		}
		return Value{Kind: form.kind, Text: text}, nil
	}
	switch tag {
	case "!!str":
		return OfString(scalar(n.Value)), nil
	case "!float":
		return yamlFloat(n, scalar(n.Value))
	case "!bytes":
		return yamlBytes(n)
	case "!!binary":
		data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(scalar(n.Value)), ""))
		if err != nil {
			return Value{}, wrong(n, "!!binary: %v", err)
		}
		return Value{Kind: Bytes, Text: string(data)}, nil
	case "!fraction":
		return yamlFraction(n)
	case "!complex", "!range", "!timedelta":
		return yamlParts(n, depth)
	case "!dict":
		list, err := yamlList(List, n.Value, depth)
		if err != nil {
			return list, err
		}
		v := Value{Kind: Dict}
		for _, pair := range list.Items {
			if pair.Kind != List || len(pair.Items) != 2 {
				return v, wrong(n, "!dict is a list of pairs: [[key, value], …]")
			}
			v.Items = append(v.Items, pair.Items...)
		}
		return v, nil
	case "!array":
		return yamlArray(n, depth)
	}
	return Value{}, wrong(n, "the tag %s is not known", clip(tag)).
		WithHint("use !tuple, !set, !frozenset, !dict, !range, !float, !bytes, !!binary, !!str, !complex, !decimal, !fraction, !date, !datetime, !time, !timedelta or !array")
}

// scalar is a text or number as it is written.
func scalar(n ast.Node) string {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value
	}
	return ""
}

func yamlFloat(n ast.Node, text string) (Value, error) {
	switch text {
	case "nan", "inf", "-inf":
	default:
		if !floatForm.MatchString(text) {
			return Value{}, wrong(n, "%q is no float", clip(text))
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return Value{}, wrong(n, "%q is too large for a float", clip(text))
	}
	return OfFloat(f), nil
}

func yamlBytes(n *ast.TagNode) (Value, error) {
	var data []byte
	for _, r := range scalar(n.Value) {
		if r > 0xFF {
			return Value{}, wrong(n, "!bytes has one byte a character: %q is none", r)
		}
		data = append(data, byte(r))
	}
	return Value{Kind: Bytes, Text: string(data)}, nil
}

func yamlFraction(n *ast.TagNode) (Value, error) {
	above, below, _ := strings.Cut(scalar(n.Value), "/")
	num, err := intOf(above)
	den, err2 := intOf(below)
	if err != nil || err2 != nil || den.Text == "0" {
		return Value{}, wrong(n, "!fraction is written as 1/3")
	}
	return Of(Fraction, num, den), nil
}

// yamlParts reads kinds that are a short list of numbers.
func yamlParts(n *ast.TagNode, depth int) (Value, error) {
	list, err := yamlList(List, n.Value, depth)
	if err != nil {
		return list, err
	}
	part, count, kind := Int, 3, Range
	switch n.Start.Value {
	case "!complex":
		part, count, kind = Float, 2, Complex
	case "!timedelta":
		kind = Delta
	default:
		if len(list.Items) == 2 {
			list.Items = append(list.Items, OfInt(1))
		}
	}
	if len(list.Items) != count {
		return list, wrong(n, "%s needs %d numbers", n.Start.Value, count)
	}
	for i, item := range list.Items {
		switch {
		case part == Float && item.Kind == Int:
			list.Items[i] = OfFloat(number(item))
		case item.Kind != part:
			return list, wrong(n, "%s needs %d numbers", n.Start.Value, count)
		}
	}
	list.Kind = kind
	return list, nil
}

var dtypeNames = map[string]string{
	"int64": "<i8", "int32": "<i4", "uint8": "|u1", "float64": "<f8", "float32": "<f4", "bool": "|b1",
}

func yamlArray(n *ast.TagNode, depth int) (Value, error) {
	v, err := fromYAML(n.Value, depth)
	if err != nil {
		return v, err
	}
	a := Value{Kind: Array}
	if v.Kind == Dict && len(v.Items) == 4 && v.Items[0].Text == "dtype" && v.Items[2].Text == "values" {
		a.Type = dtypeNames[v.Items[1].Text]
	}
	if a.Type == "" {
		return v, wrong(n, "!array is written as {dtype: float64, values: [1, 2]}").
			WithHint("types are int64, int32, uint8, float64, float32 and bool")
	}
	data, ok := a.fill(nil, v.Items[3], 0)
	if !ok {
		return v, wrong(n, "the values of the array are uneven, or do not fit its type")
	}
	a.Text = string(data)
	return a, nil
}

// fill adds nested lists of numbers to an array's data, and finds its shape.
func (v *Value) fill(data []byte, in Value, depth int) ([]byte, bool) {
	if in.Kind != List {
		if depth != len(v.Items) {
			return nil, false
		}
		return appendNumber(data, v.Type, in)
	}
	size := OfInt(int64(len(in.Items)))
	if depth == len(v.Items) {
		if len(data) > 0 {
			return nil, false
		}
		v.Items = append(v.Items, size)
	}
	if v.Items[depth].Text != size.Text {
		return nil, false
	}
	for _, item := range in.Items {
		var ok bool
		if data, ok = v.fill(data, item, depth+1); !ok {
			return nil, false
		}
	}
	return data, true
}

func appendNumber(data []byte, dtype string, v Value) ([]byte, bool) {
	little := binary.LittleEndian
	switch {
	case v.Kind == Bool && dtype == "|b1":
		return append(data, byte(boolInt(v.Text == "true"))), true
	case v.Kind != Int && v.Kind != Float:
		return nil, false
	case dtype == "<f8":
		return little.AppendUint64(data, math.Float64bits(number(v))), true
	case dtype == "<f4":
		return little.AppendUint32(data, math.Float32bits(float32(number(v)))), true
	}
	n, err := strconv.ParseInt(v.Text, 10, 64)
	switch {
	case v.Kind != Int || err != nil:
		return nil, false
	case dtype == "<i8":
		return little.AppendUint64(data, uint64(n)), true
	case dtype == "<i4" && n == int64(int32(n)):
		return little.AppendUint32(data, uint32(n)), true
	case dtype == "|u1" && n == int64(uint8(n)):
		return append(data, byte(n)), true
	}
	return nil, false
}
