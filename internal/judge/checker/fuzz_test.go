package checker

import (
	"math/big"
	"regexp"
	"strings"
	"testing"
)

func FuzzCompare(f *testing.F) {
	for _, s := range [][2]string{
		{"1 2 3\n", "1  2 3"},
		{"1.0", "1.0000001"},
		{"inf", "INF"},
		{"0", "-0.0"},
		{"Hello\x00", "hello\x00\x00"},
		{"5", "5."},
		{".5", "+0.5e0"},
		{"1e400", "1E400"},
		{"", "\n"},
		{"\r\n a\v", "a\f"},
		{"1e-400", "0"},
	} {
		for flags := range uint8(16) {
			f.Add(s[0], s[1], flags)
		}
	}
	f.Fuzz(func(t *testing.T, answer, output string, flags uint8) {
		if len(answer) > 4096 || len(output) > 4096 {
			t.Skip()
		}
		checkAgainstReference(t, answer, output, flags)
	})
}

// checkAgainstReference compares Compare with a plain, slow implementation that
// holds everything in memory and counts exactly.
func checkAgainstReference(t *testing.T, answer, output string, flags uint8) {
	t.Helper()
	const tol = "0.001"
	e := 0.001
	o := Options{CaseSensitive: flags&1 != 0, SpaceSensitive: flags&2 != 0}
	if flags&4 != 0 {
		o.Abs = &e
	}
	if flags&8 != 0 {
		o.Rel = &e
	}
	d, err := Compare(strings.NewReader(answer), strings.NewReader(output), o)
	if err != nil {
		t.Fatal(err)
	}
	want, sure := reference(answer, output, o, tol)
	if sure && (d == nil) != want {
		t.Fatalf("answer %q, output %q, %+v: right = %v (%v), reference says %v", answer, output, o, d == nil, d, want)
	}
	if d != nil && d.String() == "" {
		t.Fatal("a difference without words")
	}
}

var referenceNumber = regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$`)

// reference says whether the output is right. sure is false where the float64
// rounding of a number at the very bound may decide either way, or where a
// number is too large or small for exact arithmetic here.
func reference(answer, output string, o Options, tol string) (right, sure bool) {
	a, b := split(answer), split(output)
	sure = true
	if len(a.words) != len(b.words) || o.SpaceSensitive && strings.Join(a.spaces, "|") != strings.Join(b.spaces, "|") {
		return false, true
	}
	for i := range a.words {
		same, certain := referenceWord(a.words[i], b.words[i], o, tol)
		if !certain {
			sure = false
		} else if !same {
			return false, true
		}
	}
	return true, sure
}

type pieces struct{ words, spaces []string }

// split cuts text into space, word, space, word, …, space.
func split(text string) pieces {
	var p pieces
	for rest := text; ; {
		i := 0
		for i < len(rest) && strings.IndexByte(" \n\r\t\v\f", rest[i]) >= 0 {
			i++
		}
		p.spaces = append(p.spaces, rest[:i])
		rest = rest[i:]
		if rest == "" {
			return p
		}
		i = 0
		for i < len(rest) && strings.IndexByte(" \n\r\t\v\f", rest[i]) < 0 {
			i++
		}
		p.words = append(p.words, rest[:i])
		rest = rest[i:]
	}
}

func referenceWord(want, got string, o Options, tol string) (same, sure bool) {
	text := want == got || !o.CaseSensitive && upper(want) == upper(got)
	if o.Abs == nil && o.Rel == nil || !referenceNumber.MatchString(want) {
		return text, true
	}
	if !referenceNumber.MatchString(got) {
		return false, true
	}
	a, ok1 := exact(want)
	s, ok2 := exact(got)
	if !ok1 || !ok2 {
		return text, text
	}
	e, _ := new(big.Rat).SetString(tol)
	diff := new(big.Rat).Abs(new(big.Rat).Sub(s, a))
	size := new(big.Rat).Abs(a)
	if o.Abs != nil && diff.Cmp(e) <= 0 || diff.Sign() == 0 {
		return true, true
	}
	if o.Rel != nil && diff.Cmp(new(big.Rat).Mul(e, size)) <= 0 {
		return true, true
	}
	// Outside of the bound: certainly wrong when by more than a few units in the
	// last place.
	larger := size
	if x := new(big.Rat).Abs(s); x.Cmp(larger) > 0 {
		larger = x
	}
	slack := new(big.Rat).Mul(new(big.Rat).Add(larger, e), big.NewRat(1, 1<<50))
	for _, bound := range []*big.Rat{e, new(big.Rat).Mul(e, size)} {
		if diff.Cmp(new(big.Rat).Add(bound, slack)) <= 0 {
			return false, false
		}
	}
	return false, true
}

// exact gives the number exactly when its exponent is small.
func exact(text string) (*big.Rat, bool) {
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		digits := strings.TrimLeft(text[i+1:], "+-0")
		if len(digits) > 2 {
			return nil, false
		}
	}
	if len(text) > 250 {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

func upper(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'a' && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}
