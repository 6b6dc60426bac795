package judge

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"assay/internal/fault"
)

// Score is an exact number of points. The zero value is zero. It is immutable.
type Score struct{ r *big.Rat }

// maxScoreText bounds what ParseScore reads; maxScoreExponent keeps a short
// text from standing for a number of millions of digits.
const (
	maxScoreText     = 64
	maxScoreExponent = 60
	scoreDigits      = 9
)

var scoreText = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE]([+-]?[0-9]{1,4}))?$`)

// ParseScore reads a decimal number, as the package formats write scores.
func ParseScore(text string) (Score, error) {
	m := scoreText.FindStringSubmatch(text)
	if m == nil || len(text) > maxScoreText {
		return Score{}, fault.Errorf(fault.Invalid, "%q is not a score", clipText(text, maxScoreText)).WithHint("write a decimal number")
	}
	if m[3] != "" {
		if e, err := strconv.Atoi(m[3]); err != nil || e > maxScoreExponent || e < -maxScoreExponent {
			return Score{}, fault.Errorf(fault.Invalid, "the exponent of score %q is out of range", text)
		}
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return Score{}, fault.Errorf(fault.Invalid, "%q is not a score", text)
	}
	return Score{r}, nil
}

// IntScore is a whole number of points.
func IntScore(n int64) Score { return Score{new(big.Rat).SetInt64(n)} }

func (s Score) rat() *big.Rat {
	if s.r == nil {
		return new(big.Rat)
	}
	return s.r
}

// Add is s + t.
func (s Score) Add(t Score) Score { return Score{new(big.Rat).Add(s.rat(), t.rat())} }

// Sub is s - t.
func (s Score) Sub(t Score) Score { return Score{new(big.Rat).Sub(s.rat(), t.rat())} }

// Mul is s x t.
func (s Score) Mul(t Score) Score { return Score{new(big.Rat).Mul(s.rat(), t.rat())} }

// Over is s / n; n must be above zero.
func (s Score) Over(n int) Score {
	return Score{new(big.Rat).Quo(s.rat(), new(big.Rat).SetInt64(int64(max(1, n))))}
}

// Quo is s / t; t must not be zero.
func (s Score) Quo(t Score) Score { return Score{new(big.Rat).Quo(s.rat(), t.rat())} }

// Cmp is -1, 0 or 1 as s is below, equal to or above t.
func (s Score) Cmp(t Score) int { return s.rat().Cmp(t.rat()) }

// Sign is -1, 0 or 1.
func (s Score) Sign() int { return s.rat().Sign() }

// Float is the score rounded, for statistics and pictures.
func (s Score) Float() float64 {
	f, _ := s.rat().Float64()
	return f
}

// String writes the score as a decimal number with at most nine digits after
// the point, and no zeros at its end.
func (s Score) String() string {
	text := s.rat().FloatString(scoreDigits)
	text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	if text == "-0" {
		return "0"
	}
	return text
}

// MarshalJSON writes a JSON number.
func (s Score) MarshalJSON() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalJSON reads a JSON number.
func (s *Score) UnmarshalJSON(data []byte) error {
	t, err := ParseScore(string(data))
	if err == nil {
		*s = t
	}
	return err
}

func clipText(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
