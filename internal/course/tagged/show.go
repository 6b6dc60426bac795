package tagged

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxShown is how many bytes String gives, about.
const maxShown = 300

// String shows a value to people as Python would write it, cut where it is long.
func (v Value) String() string {
	s := shower{left: maxShown}
	s.show(v)
	return s.text.String()
}

type shower struct {
	text strings.Builder
	left int
}

// put adds a piece that is not cut unless it is long by itself.
func (s *shower) put(piece string) {
	if len(piece) > maxShown {
		piece = strings.ToValidUTF8(piece[:maxShown], "") + "…"
	}
	s.text.WriteString(piece)
	s.left -= len(piece)
}

var brackets = map[Kind][2]string{
	List: {"[", "]"}, Tuple: {"(", ")"}, Set: {"{", "}"}, FrozenSet: {"frozenset({", "})"}, Dict: {"{", "}"},
	Range: {"range(", ")"}, Fraction: {"Fraction(", ")"}, Delta: {"timedelta(", ")"},
}

func (s *shower) show(v Value) {
	if b, ok := brackets[v.Kind]; ok {
		s.items(v, b)
		return
	}
	switch v.Kind {
	case Null:
		s.put("None")
	case Bool:
		s.put(strings.ToUpper(v.Text[:1]) + v.Text[1:])
	case Int:
		s.put(v.Text)
	case Float:
		s.put(floatText(v.Float))
	case Complex:
		s.put(fmt.Sprintf("complex(%s, %s)", floatText(v.Items[0].Float), floatText(v.Items[1].Float)))
	case String:
		s.put(quoted(v.Text))
	case Bytes:
		s.put("b" + quoted(v.Text))
	case Array, Scalar:
		s.put(numpyType(v))
		if items, ok := numbers(v); ok {
			s.items(Value{Kind: List, Items: items}, [2]string{" [", "]"})
		}
	default:
		s.put(v.Kind.String() + "(" + quoted(v.Text) + ")")
	}
}

func (s *shower) items(v Value, b [2]string) {
	if v.Kind == Set && len(v.Items) == 0 {
		b = [2]string{"set(", ")"}
	}
	s.put(b[0])
	for i, item := range v.Items {
		switch {
		case i == 0:
		case v.Kind == Dict && i%2 == 1:
			s.put(": ")
		default:
			s.put(", ")
		}
		if s.left <= 0 && (v.Kind != Dict || i%2 == 0) {
			s.put("…")
			break
		}
		s.show(item)
	}
	if v.Kind == Tuple && len(v.Items) == 1 {
		s.put(",")
	}
	s.put(b[1])
}

// quoted is text in single quotes, with everything that cannot be seen escaped.
func quoted(text string) string {
	if len(text) > 2*maxShown {
		text = text[:2*maxShown]
	}
	var b strings.Builder
	b.WriteByte('\'')
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\'' || r == '\\':
			b.WriteString("\\" + string(r))
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
		i += n
	}
	b.WriteByte('\'')
	return b.String()
}

// numpyType is type and shape of an Array or Scalar.
func numpyType(v Value) string {
	var shape []string
	for _, n := range v.Items {
		shape = append(shape, n.Text)
	}
	return fmt.Sprintf("%s of %s (%s)", v.Kind, v.Type, strings.Join(shape, ", "))
}
