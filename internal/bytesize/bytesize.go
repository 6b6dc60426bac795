// Package bytesize reads and writes numbers of bytes with their unit, as people
// write them in files and flags ("512MiB"). Start with Parse. It knows nothing
// else.
package bytesize

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// Size is a number of bytes that is written with its unit: "512MiB".
type Size int64

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
}

// Parse reads a whole number with a unit: KiB, MiB, GiB, TiB (powers of
// 1024) or KB, MB, GB, TB (powers of 1000).
func Parse(text string) (Size, error) {
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 63)
		if err != nil || int64(n) > math.MaxInt64/u.bytes {
			break
		}
		return Size(int64(n) * u.bytes), nil
	}
	return 0, fmt.Errorf("size %q is not a whole number with a unit such as 512MiB or 2GiB", text)
}

// String gives the size in the largest binary unit that is exact.
func (s Size) String() string {
	for i := 3; i >= 0; i-- {
		if u := sizeUnits[i]; s > 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// UnmarshalYAML reads a size and refuses one without a unit.
func (s *Size) UnmarshalYAML(n ast.Node) error {
	text := ""
	switch n := n.(type) {
	case *ast.StringNode:
		text = n.Value
	case *ast.IntegerNode:
		text = n.String()
	default:
		return &yaml.SyntaxError{Message: "a size is a number with a unit such as 512MiB", Token: n.GetToken()}
	}
	size, err := Parse(text)
	if err != nil {
		return &yaml.SyntaxError{Message: err.Error(), Token: n.GetToken()}
	}
	*s = size
	return nil
}

// MarshalYAML writes the size so that UnmarshalYAML reads the same.
func (s Size) MarshalYAML() (any, error) {
	if s%(1<<10) != 0 {
		return nil, fmt.Errorf("size of %d bytes has no unit it is a whole number of", int64(s))
	}
	return s.String(), nil
}
