package tagged

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
)

// dtypes are the numpy types of plain numbers, booleans and texts of fixed
// length; the number is the size of one item in bytes.
var dtypes = regexp.MustCompile(`^[<>|=]?([biufcSUV?])(\d{0,6})$`)

// itemSize is the size of one item in bytes, or 0 for a type that is not known.
func itemSize(dtype string) int {
	m := dtypes.FindStringSubmatch(dtype)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[2]) // at most six digits
	switch m[1] {
	case "?":
		return 1
	case "U":
		return 4 * n
	}
	return n
}

// numpy reads the object of an Array or Scalar. The data must be as long as
// type and shape say.
func (d *decoder) numpy(tag string) (Value, error) {
	var raw struct {
		DType string  `json:"dtype"`
		Shape []int64 `json:"shape"`
		Data  []byte  `json:"data"`
	}
	if err := d.json.Decode(&raw); err != nil {
		return Value{}, fmt.Errorf("numpy value: %w", err)
	}
	v := Value{Kind: Array, Type: raw.DType, Text: string(raw.Data)}
	if tag == "nps" {
		v.Kind = Scalar
		if raw.Shape != nil {
			return v, fmt.Errorf("a numpy scalar with a shape")
		}
	}
	size := int64(itemSize(raw.DType))
	if size == 0 || len(raw.Shape) > 32 {
		return v, fmt.Errorf("numpy type %q, or its shape, is not supported", clip(raw.DType))
	}
	for _, n := range raw.Shape {
		if n < 0 || n > math.MaxInt32 {
			return v, fmt.Errorf("numpy shape out of bounds")
		}
		// A zero anywhere makes the whole empty; beyond the cap nothing can fit.
		size = min(size*n, math.MaxInt32)
		v.Items = append(v.Items, OfInt(n))
	}
	if size != int64(len(raw.Data)) {
		return v, fmt.Errorf("a numpy value of %d bytes where %d were expected", len(raw.Data), size)
	}
	return v, nil
}

// numpyJSON is the reverse of numpy.
func numpyJSON(v Value) any {
	type scalar struct {
		DType string `json:"dtype"`
		Data  []byte `json:"data"`
	}
	if v.Kind == Scalar {
		return map[string]scalar{"nps": {v.Type, []byte(v.Text)}}
	}
	type array struct {
		DType string        `json:"dtype"`
		Shape []json.Number `json:"shape"`
		Data  []byte        `json:"data"`
	}
	a := array{v.Type, []json.Number{}, []byte(v.Text)}
	for _, n := range v.Items {
		a.Shape = append(a.Shape, json.Number(n.Text))
	}
	return map[string]array{"np": a}
}

// numbers gives the items of an Array or Scalar of real numbers, or false for
// another type.
func numbers(v Value) ([]Value, bool) {
	var one func([]byte) Value
	m := dtypes.FindStringSubmatch(v.Type)
	if m == nil {
		return nil, false
	}
	var bytes binary.ByteOrder = binary.LittleEndian
	if v.Type[0] == '>' {
		bytes = binary.BigEndian
	}
	switch m[1] + m[2] {
	case "f8":
		one = func(b []byte) Value { return OfFloat(math.Float64frombits(bytes.Uint64(b))) }
	case "f4":
		one = func(b []byte) Value { return OfFloat(float64(math.Float32frombits(bytes.Uint32(b)))) }
	case "i8":
		one = func(b []byte) Value { return OfInt(int64(bytes.Uint64(b))) }
	case "i4":
		one = func(b []byte) Value { return OfInt(int64(int32(bytes.Uint32(b)))) }
	case "i2":
		one = func(b []byte) Value { return OfInt(int64(int16(bytes.Uint16(b)))) }
	case "i1":
		one = func(b []byte) Value { return OfInt(int64(int8(b[0]))) }
	case "u8":
		one = func(b []byte) Value { return Value{Kind: Int, Text: strconv.FormatUint(bytes.Uint64(b), 10)} }
	case "u4":
		one = func(b []byte) Value { return OfInt(int64(bytes.Uint32(b))) }
	case "u2":
		one = func(b []byte) Value { return OfInt(int64(bytes.Uint16(b))) }
	case "u1":
		one = func(b []byte) Value { return OfInt(int64(b[0])) }
	case "b1", "?", "?1":
		one = func(b []byte) Value { return OfBool(b[0] != 0) }
	default:
		return nil, false
	}
	size := itemSize(v.Type)
	var items []Value
	for data := []byte(v.Text); len(data) >= size; data = data[size:] {
		items = append(items, one(data))
	}
	return items, true
}
