package tagged

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Kind is the exact plain type of a value.
type Kind uint8

// The kinds, by their names in Python.
const (
	Null Kind = iota
	Bool
	Int
	Float
	Complex
	String
	Bytes
	List
	Tuple
	Set
	FrozenSet
	Dict
	Range
	Decimal
	Fraction
	Date
	DateTime
	Time
	Delta
	Array  // of numpy
	Scalar // of numpy
)

var kindNames = [...]string{
	"None", "bool", "int", "float", "complex", "str", "bytes", "list", "tuple", "set", "frozenset", "dict", "range",
	"Decimal", "Fraction", "date", "datetime", "time", "timedelta", "numpy array", "numpy scalar",
}

// String gives the name that people know the type by.
func (k Kind) String() string { return kindNames[k] }

// Value is one plain value. Values are made by this package's functions and
// never change; the zero value is Null.
type Value struct {
	Kind Kind
	// Text is the decimal digits of an Int, "true" or "false", the bytes of a
	// String (UTF-8, lone surrogates in the same manner) or of Bytes, the text of
	// a Decimal, Date, DateTime or Time, and the data of an Array or Scalar.
	Text string
	// Float is a Float.
	Float float64
	// Items are the items of a List, Tuple, Set or FrozenSet; keys and values by
	// turns of a Dict; start, stop and step of a Range; the two Floats of a
	// Complex, the two Ints of a Fraction; days, seconds and microseconds of a
	// Delta; the Ints of an Array's shape.
	Items []Value
	// Type is the dtype of an Array or Scalar ("<i8").
	Type string
}

// OfBool makes a Bool.
func OfBool(b bool) Value { return Value{Kind: Bool, Text: strconv.FormatBool(b)} }

// OfInt makes an Int.
func OfInt(n int64) Value { return Value{Kind: Int, Text: strconv.FormatInt(n, 10)} }

// OfFloat makes a Float.
func OfFloat(f float64) Value { return Value{Kind: Float, Float: f} }

// OfString makes a String.
func OfString(s string) Value { return Value{Kind: String, Text: s} }

// Of makes a List, Tuple, Set, FrozenSet or Dict of its items.
func Of(k Kind, items ...Value) Value { return Value{Kind: k, Items: items} }

// floatText is the shortest text of a float, as Python writes it.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// order is a total order of values, by which sets and dicts are compared.
// Numbers stand by their size, whatever their kinds.
func order(a, b Value) int {
	if c := rank(a.Kind) - rank(b.Kind); c != 0 {
		return c
	}
	if rank(a.Kind) == rank(Int) {
		return orderNumbers(a, b)
	}
	if a.Kind != b.Kind {
		return int(a.Kind) - int(b.Kind)
	}
	if c := strings.Compare(a.Text, b.Text); c != 0 {
		return c
	}
	if c := strings.Compare(a.Type, b.Type); c != 0 {
		return c
	}
	return slices.CompareFunc(a.Items, b.Items, order)
}

func rank(k Kind) int {
	if k == Float {
		k = Int
	}
	return int(k)
}

func orderNumbers(a, b Value) int {
	if a.Kind == Int && b.Kind == Int {
		return orderInts(a.Text, b.Text)
	}
	x, y := number(a), number(b)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	case x != y: // one is not a number: that one is last
		return boolInt(math.IsNaN(x)) - boolInt(math.IsNaN(y))
	}
	return int(a.Kind) - int(b.Kind)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// orderInts compares decimal digits.
func orderInts(a, b string) int {
	minusA, minusB := strings.HasPrefix(a, "-"), strings.HasPrefix(b, "-")
	if minusA != minusB {
		return boolInt(minusB) - boolInt(minusA)
	}
	if minusA {
		a, b = b[1:], a[1:]
	}
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// number is an Int or Float as a float; an Int too large for one is infinite.
func number(v Value) float64 {
	if v.Kind == Float {
		return v.Float
	}
	f, _ := strconv.ParseFloat(v.Text, 64) // only its range can be wrong: then f is infinite
	return f
}
