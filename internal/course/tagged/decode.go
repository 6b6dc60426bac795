package tagged

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"

	"assay/internal/fault"
)

// Bounds of what Decode takes.
const (
	// MaxDepth is how deeply values may be nested.
	MaxDepth = 150
	// MaxValues is how many values one value may consist of.
	MaxValues = 300_000
	// maxDigits is how many digits an Int may have.
	maxDigits = 100_000
)

// Decode reads one tagged value. What is not exactly the encoding, or is a handle,
// is Invalid; what is nested more than MaxDepth times or has more than MaxValues
// parts is Exhausted.
func Decode(data []byte) (Value, error) {
	d := decoder{json: json.NewDecoder(bytes.NewReader(data)), left: MaxValues}
	d.json.UseNumber()
	v, err := d.value(0)
	if err == nil {
		if _, more := d.json.Token(); more != io.EOF {
			err = fmt.Errorf("something follows the value")
		}
	}
	if err != nil {
		kind := fault.Invalid
		if fault.Is(err, fault.Exhausted) {
			kind = fault.Exhausted
		}
		return Value{}, fault.Errorf(kind, "tagged value: %w", err)
	}
	return v, nil
}

type decoder struct {
	json *json.Decoder
	left int
}

func (d *decoder) token() (json.Token, error) {
	t, err := d.json.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return t, err
}

func (d *decoder) value(depth int) (Value, error) {
	if depth > MaxDepth {
		return Value{}, fault.Errorf(fault.Exhausted, "nested more than %d times", MaxDepth)
	}
	if d.left--; d.left < 0 {
		return Value{}, fault.Errorf(fault.Exhausted, "more than %d values", MaxValues)
	}
	t, err := d.token()
	if err != nil {
		return Value{}, err
	}
	switch t := t.(type) {
	case nil:
		return Value{}, nil
	case bool:
		return OfBool(t), nil
	case string:
		return OfString(t), nil
	case json.Number:
		return intOf(t.String())
	case json.Delim:
		if t == '{' {
			return d.object(depth)
		}
	}
	return Value{}, fmt.Errorf("a bare list is no value")
}

// object reads what follows "{": one key, its value, "}".
func (d *decoder) object(depth int) (Value, error) {
	t, err := d.token()
	if err != nil {
		return Value{}, err
	}
	tag, ok := t.(string)
	if !ok {
		return Value{}, fmt.Errorf("an object without a tag")
	}
	v, err := d.tagged(tag, depth)
	if err != nil {
		return Value{}, err
	}
	if t, err = d.token(); err != nil {
		return Value{}, err
	}
	if t != json.Delim('}') {
		return Value{}, fmt.Errorf("an object with more than one tag")
	}
	return v, nil
}

var sequences = map[string]Kind{"l": List, "t": Tuple, "s": Set, "z": FrozenSet}

// texts are kinds that are a string, with the form it must have.
var texts = map[string]struct {
	kind Kind
	form *regexp.Regexp
}{
	"dec":  {Decimal, regexp.MustCompile(`^(-?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|-?Infinity|-?s?NaN\d*)$`)},
	"date": {Date, regexp.MustCompile(`^\d{4}-\d\d-\d\d$`)},
	"dt":   {DateTime, regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d(:\d\d(\.\d{6})?)?)?$`)},
	"tm":   {Time, regexp.MustCompile(`^\d\d:\d\d:\d\d(\.\d{1,9})?([+-]\d\d:\d\d(:\d\d(\.\d{6})?)?)?$`)},
}

func (d *decoder) tagged(tag string, depth int) (Value, error) {
	if k, ok := sequences[tag]; ok {
		items, err := d.list(depth)
		return Value{Kind: k, Items: items}, err
	}
	if t, ok := texts[tag]; ok {
		s, err := d.text()
		if err == nil && (len(s) > maxDigits || !t.form.MatchString(s)) {
			err = fmt.Errorf("a %s of another form", t.kind)
		}
		return Value{Kind: t.kind, Text: s}, err
	}
	switch tag {
	case "i":
		s, err := d.text()
		if err != nil {
			return Value{}, err
		}
		return intOf(s)
	case "f":
		return d.float()
	case "b", "u":
		data, err := d.base64()
		if tag == "b" {
			return Value{Kind: Bytes, Text: data}, err
		}
		return OfString(data), err
	case "c":
		return d.fixed(Complex, 2, func() (Value, error) { return d.float() })
	case "frac":
		return d.fixed(Fraction, 2, d.intText)
	case "range":
		return d.fixed(Range, 3, d.intValue)
	case "td":
		return d.fixed(Delta, 3, d.intValue)
	case "d":
		return d.dict(depth)
	case "np", "nps":
		return d.numpy(tag)
	case "h":
		return Value{}, fmt.Errorf("an object of the program's own, not a plain value")
	}
	return Value{}, fmt.Errorf("tag %q is not known", clip(tag))
}

func (d *decoder) text() (string, error) {
	t, err := d.token()
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", fmt.Errorf("text was expected")
	}
	return s, nil
}

func (d *decoder) base64() (string, error) {
	s, err := d.text()
	if err != nil {
		return "", err
	}
	data, err := base64.StdEncoding.Strict().DecodeString(s)
	return string(data), err
}

var (
	intForm   = regexp.MustCompile(`^(0|-?[1-9]\d*)$`)
	floatForm = regexp.MustCompile(`^-?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$`)
)

func intOf(s string) (Value, error) {
	if len(s) > maxDigits || !intForm.MatchString(s) {
		return Value{}, fmt.Errorf("%q is no integer, or has more than %d digits", clip(s), maxDigits)
	}
	return Value{Kind: Int, Text: s}, nil
}

func (d *decoder) intText() (Value, error) {
	s, err := d.text()
	if err != nil {
		return Value{}, err
	}
	return intOf(s)
}

// intValue is an Int in either of its forms.
func (d *decoder) intValue() (Value, error) {
	v, err := d.value(MaxDepth - 1)
	if err == nil && v.Kind != Int {
		err = fmt.Errorf("an integer was expected")
	}
	return v, err
}

func (d *decoder) float() (Value, error) {
	s, err := d.text()
	if err != nil {
		return Value{}, err
	}
	switch s {
	case "nan":
		return OfFloat(math.NaN()), nil
	case "inf":
		return OfFloat(math.Inf(1)), nil
	case "-inf":
		return OfFloat(math.Inf(-1)), nil
	}
	if len(s) > 400 || !floatForm.MatchString(s) {
		return Value{}, fmt.Errorf("%q is no float", clip(s))
	}
	f, err := strconv.ParseFloat(s, 64)
	return OfFloat(f), err
}

func (d *decoder) open(delim json.Delim) error {
	t, err := d.token()
	if err == nil && t != delim {
		err = fmt.Errorf("%q was expected", delim.String())
	}
	return err
}

func (d *decoder) list(depth int) ([]Value, error) {
	if err := d.open('['); err != nil {
		return nil, err
	}
	var items []Value
	for d.json.More() {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
	return items, d.open(']')
}

func (d *decoder) dict(depth int) (Value, error) {
	v := Value{Kind: Dict}
	if err := d.open('['); err != nil {
		return v, err
	}
	for d.json.More() {
		pair, err := d.fixed(Tuple, 2, func() (Value, error) { return d.value(depth + 1) })
		if err != nil {
			return v, err
		}
		v.Items = append(v.Items, pair.Items...)
	}
	return v, d.open(']')
}

// fixed reads a list of n things.
func (d *decoder) fixed(k Kind, n int, read func() (Value, error)) (Value, error) {
	v := Value{Kind: k}
	if err := d.open('['); err != nil {
		return v, err
	}
	for range n {
		item, err := read()
		if err != nil {
			return v, err
		}
		v.Items = append(v.Items, item)
	}
	return v, d.open(']')
}

func clip(s string) string {
	if len(s) > 40 {
		s = s[:40] + "…"
	}
	return s
}
