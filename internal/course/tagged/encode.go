package tagged

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// MarshalJSON gives the canonical encoding. It never fails for a value that
// this package made.
func (v Value) MarshalJSON() ([]byte, error) { return Append(nil, v) }

// maxBareInt is the length of 2^53 in digits; shorter ones are surely exact in
// every JSON reader.
const maxBareInt = len("9007199254740992")

// Append adds the canonical encoding of v to b.
func Append(b []byte, v Value) ([]byte, error) {
	switch v.Kind {
	case Null:
		return append(b, "null"...), nil
	case Bool:
		return append(b, v.Text...), nil
	case Int:
		if digits := strings.TrimPrefix(v.Text, "-"); len(digits) < maxBareInt || len(digits) == maxBareInt && digits <= "9007199254740992" {
			return append(b, v.Text...), nil
		}
		return quote(b, "i", v.Text), nil
	case Float:
		return quote(b, "f", floatText(v.Float)), nil
	case Complex:
		return append(append(append(b, `{"c":["`+floatText(v.Items[0].Float)...), `","`+floatText(v.Items[1].Float)...), `"]}`...), nil
	case String:
		if !utf8.ValidString(v.Text) {
			return quote(b, "u", base64.StdEncoding.EncodeToString([]byte(v.Text))), nil
		}
		text, err := json.Marshal(v.Text)
		return append(b, text...), err
	case Bytes:
		return quote(b, "b", base64.StdEncoding.EncodeToString([]byte(v.Text))), nil
	case List, Tuple, Set, FrozenSet, Range, Delta:
		return appendList(append(b, `{"`+tags[v.Kind]+`":`...), v.Items, 1)
	case Dict:
		return appendList(append(b, `{"d":`...), v.Items, 2)
	case Fraction:
		return append(b, `{"frac":["`+v.Items[0].Text+`","`+v.Items[1].Text+`"]}`...), nil
	case Array, Scalar:
		text, err := json.Marshal(numpyJSON(v))
		return append(b, text...), err
	default:
		return quote(b, tags[v.Kind], v.Text), nil
	}
}

var tags = map[Kind]string{
	List: "l", Tuple: "t", Set: "s", FrozenSet: "z", Range: "range", Delta: "td",
	Decimal: "dec", Date: "date", DateTime: "dt", Time: "tm",
}

func quote(b []byte, tag, text string) []byte {
	return append(b, `{"`+tag+`":"`+text+`"}`...)
}

// appendList adds the items and the end of their object; those of a Dict stand
// in pairs.
func appendList(b []byte, items []Value, group int) ([]byte, error) {
	b = append(b, '[')
	for i, group := range slices.Collect(slices.Chunk(items, group)) {
		if i > 0 {
			b = append(b, ',')
		}
		if len(group) == 2 {
			b = append(b, '[')
		}
		for j, item := range group {
			if j > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = Append(b, item); err != nil {
				return nil, err
			}
		}
		if len(group) == 2 {
			b = append(b, ']')
		}
	}
	return append(b, "]}"...), nil
}
