package tagged

import (
	"fmt"
	"math"
	"slices"
)

// Rules say how values are compared.
type Rules struct {
	// Tolerance lets floats differ by so much, absolutely or relatively to the
	// wanted one.
	Tolerance float64
	// Unordered compares the outermost List or Tuple without regard to order.
	Unordered bool
	// Loose is for languages other than Python: an Int equals the Float of its
	// size, and a List equals the Tuple of its items.
	Loose bool
}

// Diff says where and how got first differs from what was wanted, or gives "".
// Types must be the same, exactly: neither is 1 equal to 1.0 nor to True. A NaN
// equals a NaN. The order of sets and dicts does not count.
func Diff(want, got Value, r Rules) string {
	if r.Unordered && sequence(want.Kind) && sequence(got.Kind) {
		want.Items, got.Items = sorted(want.Items), sorted(got.Items)
	}
	return r.diff("", want, got)
}

func sequence(k Kind) bool { return k == List || k == Tuple }

func sorted(items []Value) []Value {
	items = slices.Clone(items)
	slices.SortFunc(items, order)
	return items
}

func (r Rules) diff(at string, want, got Value) string {
	if want.Kind != got.Kind {
		return r.diffKinds(at, want, got)
	}
	switch want.Kind {
	case Float:
		if !r.near(want.Float, got.Float) {
			return differ(at, want, got)
		}
		return ""
	case Set, FrozenSet:
		want.Items, got.Items = sorted(want.Items), sorted(got.Items)
	case Dict:
		want.Items, got.Items = sortedPairs(want.Items), sortedPairs(got.Items)
	case Array, Scalar:
		return r.diffNumpy(at, want, got)
	default:
		if want.Text != got.Text {
			return differ(at, want, got)
		}
	}
	if len(want.Items) != len(got.Items) {
		n := 1
		if want.Kind == Dict {
			n = 2
		}
		return fmt.Sprintf("%s: %d items wanted, got %d", place(at), len(want.Items)/n, len(got.Items)/n)
	}
	for i := range want.Items {
		if d := r.diff(step(at, want, i), want.Items[i], got.Items[i]); d != "" {
			return d
		}
	}
	return ""
}

func (r Rules) diffKinds(at string, want, got Value) string {
	if r.Loose {
		switch {
		case rank(want.Kind) == rank(got.Kind):
			if r.near(number(want), number(got)) {
				return ""
			}
			return differ(at, want, got)
		case sequence(want.Kind) && sequence(got.Kind):
			got.Kind = want.Kind
			return r.diff(at, want, got)
		}
	}
	return fmt.Sprintf("%s: %s %s wanted, got %s %s", place(at), want.Kind, want, got.Kind, got)
}

// near compares floats: the same, or within the tolerance. Minus zero passes for
// zero; who asks for minus zero must get it.
func (r Rules) near(want, got float64) bool {
	if math.IsNaN(want) || math.IsNaN(got) {
		return math.IsNaN(want) && math.IsNaN(got)
	}
	if want == got {
		return want != 0 || !math.Signbit(want) || math.Signbit(got)
	}
	if math.IsInf(want, 0) || math.IsInf(got, 0) {
		return false
	}
	d := math.Abs(want - got)
	return d <= r.Tolerance || d <= r.Tolerance*math.Abs(want)
}

func (r Rules) diffNumpy(at string, want, got Value) string {
	if want.Type != got.Type || !slices.EqualFunc(want.Items, got.Items, func(a, b Value) bool { return a.Text == b.Text }) {
		return fmt.Sprintf("%s: %s wanted, got %s", place(at), numpyType(want), numpyType(got))
	}
	wants, ok := numbers(want)
	gots, _ := numbers(got) // of the same type
	if !ok {
		if want.Text != got.Text {
			return differ(at, want, got)
		}
		return ""
	}
	for i := range wants {
		if d := r.diff(fmt.Sprintf("%s[flat %d]", at, i), wants[i], gots[i]); d != "" {
			return d
		}
	}
	return ""
}

// sortedPairs sorts the pairs of a dict by their keys.
func sortedPairs(items []Value) []Value {
	pairs := slices.Collect(slices.Chunk(items, 2))
	slices.SortFunc(pairs, func(a, b []Value) int { return order(a[0], b[0]) })
	return slices.Concat(pairs...)
}

func differ(at string, want, got Value) string {
	return fmt.Sprintf("%s: %s wanted, got %s", place(at), want, got)
}

func place(at string) string {
	if at == "" {
		return "value"
	}
	return "value" + at
}

// step is the place of item i.
func step(at string, in Value, i int) string {
	switch {
	case in.Kind != Dict:
		return fmt.Sprintf("%s[%d]", at, i)
	case i%2 == 0:
		return at + " key"
	}
	return fmt.Sprintf("%s[%s]", at, in.Items[i-1])
}
