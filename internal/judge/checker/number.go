package checker

import (
	"math"
	"strconv"
)

// number reads a decimal number byte by byte in constant memory. The grammar is
// [+-] (digits [. [digits]] | . digits) [(e|E) [+-] digits]: no inf, nan, hex
// digits or thousands marks, which strconv.ParseFloat would take in part.
//
// More significant digits than maxDigits cannot change the nearest float64,
// except for "is there anything but zeros after them", which is kept.
type number struct {
	state    state
	negative bool
	digits   []byte
	// scale is the power of ten of the digits read so far, exp the written one.
	scale  int64
	exp    int64
	expNeg bool
	rest   bool
	seen   bool // a digit of the mantissa was read
}

type state byte

const (
	atStart state = iota
	inWhole
	inFraction
	atExp
	atExpDigit
	inExp
	isNoNumber
)

// maxDigits is enough for correct rounding of any decimal to float64.
const maxDigits = 780

// maxExp bounds written exponents and lengths; beyond it all is zero or infinite.
const maxExp = 1 << 40

func (n *number) add(b byte) {
	isDigit := b >= '0' && b <= '9'
	switch n.state {
	case atStart, inWhole, inFraction:
		switch {
		case n.state == atStart && (b == '+' || b == '-'):
			n.negative = b == '-'
			n.state = inWhole
		case isDigit:
			n.digit(b, n.state == inFraction)
			if n.state == atStart {
				n.state = inWhole
			}
		case b == '.' && n.state != inFraction:
			n.state = inFraction
		case (b == 'e' || b == 'E') && n.seen:
			n.state = atExp
		default:
			n.state = isNoNumber
		}
	case atExp, atExpDigit, inExp:
		switch {
		case n.state == atExp && (b == '+' || b == '-'):
			n.expNeg = b == '-'
			n.state = atExpDigit
		case isDigit:
			n.exp = min(n.exp*10+int64(b-'0'), maxExp)
			n.state = inExp
		default:
			n.state = isNoNumber
		}
	}
}

func (n *number) digit(b byte, fraction bool) {
	n.seen = true
	switch {
	case b == '0' && len(n.digits) == 0:
		if fraction {
			n.scale--
		}
	case len(n.digits) < maxDigits:
		n.digits = append(n.digits, b)
		if fraction {
			n.scale--
		}
	default:
		n.rest = n.rest || b != '0'
		if !fraction {
			n.scale++
		}
	}
}

// value gives the nearest float64. ok is false for what is not a number, and
// for one that float64 cannot hold: those are compared as text.
func (n *number) value() (v float64, ok bool) {
	switch n.state {
	case inWhole, inFraction, inExp:
	default:
		return 0, false
	}
	if !n.seen {
		return 0, false
	}
	if len(n.digits) == 0 {
		return 0, true
	}
	text := n.digits
	scale := n.scale
	if n.rest {
		text = append(append([]byte{}, text...), '1')
		scale--
	}
	exp := n.exp
	if n.expNeg {
		exp = -exp
	}
	v, err := strconv.ParseFloat(string(text)+"e"+strconv.FormatInt(exp+scale, 10), 64)
	if err != nil || math.IsInf(v, 0) {
		return 0, false
	}
	if n.negative {
		v = -v
	}
	return v, true
}

// reset makes n ready for another word and keeps its memory.
func (n *number) reset() { *n = number{digits: n.digits[:0]} }

// near is the comparison of numbers: within abs, or within rel of the answer,
// bounds included. Both were rounded to float64 once, so one unit in the last
// place is given on top: a difference of exactly 1e-6 in decimal must not
// depend on how its binary neighbour lies.
func near(output, answer float64, o Options) bool {
	if output == answer {
		return true
	}
	diff := math.Abs(output - answer)
	larger := math.Max(math.Abs(output), math.Abs(answer))
	if o.Abs != nil && diff <= *o.Abs+ulp(math.Max(larger, *o.Abs)) {
		return true
	}
	// Only zero is relatively near to zero.
	if o.Rel == nil || answer == 0 {
		return false
	}
	bound := *o.Rel * math.Abs(answer)
	return diff <= bound+ulp(math.Max(larger, bound))
}

func ulp(x float64) float64 {
	next := math.Nextafter(x, math.Inf(1))
	if math.IsInf(next, 1) {
		return x - math.Nextafter(x, 0)
	}
	return next - x
}
