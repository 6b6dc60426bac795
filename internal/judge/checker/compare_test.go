package checker

import (
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"assay/internal/fault"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	bigA, bigB := strings.Repeat("7", 30)+"."+strings.Repeat("3", 30), strings.Repeat("7", 30)+"."+strings.Repeat("3", 29)+"4"
	tests := map[string]struct {
		flags          string
		answer, output string
		right          bool
	}{
		"same":                       {"", "1 2 3\n", "1 2 3\n", true},
		"different":                  {"", "1 2 3\n", "1 2 4\n", false},
		"fewer_words":                {"", "1 2 3\n", "1 2\n", false},
		"more_words":                 {"", "1 2 3\n", "1 2 3 4\n", false},
		"prefix":                     {"", "12", "1", false},
		"longer":                     {"", "1", "12", false},
		"split_word":                 {"", "12", "1 2", false},
		"case_ignored":               {"", "Yes", "yES", true},
		"case_sensitive":             {"case_sensitive", "Yes", "yes", false},
		"case_of_ascii_only":         {"", "\xc3\x84", "\xc3\xa4", false},
		"at_sign_is_no_letter":       {"", "@", "`", false},
		"all_white_space":            {"", "a b", "\f\v\ta\r\n b \n", true},
		"nbsp_is_no_space":           {"", "a b", "a\xc2\xa0b", false},
		"e17_no_output":              {"", "1", "", false},
		"e18_both_empty":             {"", "", "", true},
		"e18_empty_answer_newline":   {"", "", "\n", true},
		"e18_space_sensitive":        {"space_change_sensitive", "", "\n", false},
		"e18_both_empty_sensitive":   {"space_change_sensitive", "", "", true},
		"e21_nul_bytes_after":        {"", "Hello world!\n", "Hello world!\x00\x00\n", false},
		"e21_nul_word":               {"", "Hello world!\n", "Hello world! \x00\n", false},
		"e21_nul_same":               {"", "a\x00b", "a\x00b", true},
		"e21_nul_then_other":         {"", "a\x00b", "a\x00c", false},
		"e22_spread":                 {"", "Hello, World!", "\n\n  Hello,      World!   ", true},
		"e23_crlf_answer":            {"", "1\r\n2\r\n", "1\n2\n", true},
		"e23_crlf_sensitive":         {"space_change_sensitive", "1\r\n", "1\n", false},
		"e24_trailing_spaces":        {"", "1\n", "1   \n\n\n", true},
		"e24_no_final_newline":       {"", "1\n", "1", true},
		"e24_leading_blank_line":     {"", "1\n", "\n1\n", true},
		"e24_final_newline_sens":     {"space_change_sensitive", "1\n", "1", false},
		"sens_leading":               {"space_change_sensitive", "1\n", " 1\n", false},
		"sens_inner":                 {"space_change_sensitive", "1 2\n", "1  2\n", false},
		"sens_tab":                   {"space_change_sensitive", "1 2\n", "1\t2\n", false},
		"sens_same":                  {"space_change_sensitive", "1 2\n", "1 2\n", true},
		"sens_case_ignored":          {"space_change_sensitive", "A b\n", "a B\n", true},
		"sens_float":                 {"space_change_sensitive float_tolerance 1e-3", "1.0 2\n", "1.0001 2\n", true},
		"e26_inf_same":               {"float_tolerance 1e-6", "inf", "inf", true},
		"e26_inf_upper":              {"float_tolerance 1e-6", "inf", "INF", true},
		"e26_inf_negative":           {"float_tolerance 1e-6", "inf", "-inf", false},
		"e26_inf_zero":               {"float_tolerance 1e-6", "inf", "0", false},
		"e26_inf_1e400":              {"float_tolerance 1e-6", "inf", "1e400", false},
		"e26_nan":                    {"float_tolerance 1e-6", "nan", "NaN", true},
		"e26_one_nan":                {"float_tolerance 1e-6", "1", "nan", false},
		"e26_one_inf":                {"float_tolerance 1e-6", "1", "inf", false},
		"e26_one_1e400":              {"float_tolerance 1e-6", "1", "1e400", false},
		"e26_huge_same_text":         {"float_tolerance 1e-6", "1e400", "1E400", true},
		"e26_huge_other":             {"float_tolerance 1e-6", "1e400", "2e400", false},
		"e27_integer_loosened":       {"float_tolerance 1e-6", "3", "3.0000001", true},
		"e28_1_0a":                   {"float_tolerance 1e-6", "1.0", "1.0a", false},
		"e28_1_0abc":                 {"float_tolerance 1e-6", "1.0", "1.0abc", false},
		"e28_hex":                    {"float_tolerance 1e-6", "1.0", "0x1p0", false},
		"e28_comma":                  {"float_tolerance 1e-6", "1.0", "1,0", false},
		"e28_1e":                     {"float_tolerance 1e-6", "1.0", "1e", false},
		"e28_1e_plus":                {"float_tolerance 1e-6", "1.0", "1e+", false},
		"e28_two_signs":              {"float_tolerance 1e-6", "1.0", "--1", false},
		"e28_underscore":             {"float_tolerance 1e-6", "1000", "1_000", false},
		"e28_two_points":             {"float_tolerance 1e-6", "1.0", "1.0.0", false},
		"e28_lone_sign":              {"float_tolerance 1e-6", "0", "+", false},
		"e28_lone_point":             {"float_tolerance 1e-6", "0", ".", false},
		"e28_lone_exp":               {"float_tolerance 1e-6", "0", "e5", false},
		"e28_answer_not_number":      {"float_tolerance 1e-6", "1.0a", "1.0a", true},
		"e28_answer_text_value":      {"float_tolerance 1e-6", "1e", "1", false},
		"e28_dot_five":               {"float_tolerance 1e-6", "0.5", ".5", true},
		"e28_plus_exp":               {"float_tolerance 1e-6", "0.5", "+0.5e0", true},
		"e28_five_dot":               {"float_tolerance 1e-6", "5", "5.", true},
		"e28_upper_exp":              {"float_tolerance 1e-6", "500", "5E+2", true},
		"e28_zero_rel_only":          {"float_relative_tolerance 1e-2", "0", "1", false},
		"e28_zero_rel_tiny":          {"float_relative_tolerance 1e-2", "0", "5e-324", false},
		"e28_zero_rel_minus_zero":    {"float_relative_tolerance 1e-2", "0", "-0.0", true},
		"e28_zero_abs":               {"float_absolute_tolerance 1e-2", "0", "0.01", true},
		"e28_abs_exactly":            {"float_absolute_tolerance 1e-6", "1", "1.000001", true},
		"e28_abs_exactly_below":      {"float_absolute_tolerance 1e-6", "1", "0.999999", true},
		"e28_abs_exactly_large":      {"float_absolute_tolerance 1e-6", "123456.654321", "123456.654322", true},
		"e28_abs_over":               {"float_absolute_tolerance 1e-6", "1", "1.0000010001", false},
		"e28_abs_tenth":              {"float_absolute_tolerance 0.1", "0.3", "0.4", true},
		"e28_abs_mirror":             {"float_absolute_tolerance 0.2", "-0.1", "0.1", true},
		"e28_rel_exactly":            {"float_relative_tolerance 1e-2", "100", "101", true},
		"e28_rel_over":               {"float_relative_tolerance 1e-2", "100", "101.0001", false},
		"e28_rel_of_the_answer":      {"float_relative_tolerance 0.5", "2", "4", false},
		"e28_both_by_abs":            {"float_tolerance 1e-2", "0.001", "0.01", true},
		"e28_both_by_rel":            {"float_tolerance 1e-2", "1000", "1009", true},
		"e28_abs_only_ignores_rel":   {"float_absolute_tolerance 1e-2", "1000", "1009", false},
		"zero_tolerance_forms":       {"float_tolerance 0", "1", "1.000", true},
		"no_tolerance_forms":         {"", "1", "1.0", false},
		"thirty_digits":              {"float_tolerance 1e-6", bigA, bigB, true},
		"thirty_digits_no_tolerance": {"", bigA, bigB, false},
		"negative":                   {"float_tolerance 1e-6", "-1.5", "-1.5000001", true},
		"sign_matters":               {"float_tolerance 1e-6", "-1.5", "1.5", false},
		"many_zeros":                 {"float_tolerance 1e-6", "1", strings.Repeat("0", 100000) + "1." + strings.Repeat("0", 100000), true},
		"many_digits":                {"float_tolerance 1e-6", "0.3333333333", "0." + strings.Repeat("3", 100000), true},
		"small_by_length":            {"float_relative_tolerance 1e-9", "1e-300", "0." + strings.Repeat("0", 299) + "1", true},
		"large_by_length":            {"float_relative_tolerance 1e-9", "1" + strings.Repeat("0", 300), "1e300", true},
		"exp_and_length":             {"float_tolerance 1e-9", "1", "0." + strings.Repeat("0", 999) + "1e1000", true},
		"exp_overflow":               {"float_tolerance 1e-9", "1", "1e99999999999999999999999999", false},
		"exp_underflow":              {"float_absolute_tolerance 1e-9", "0", "1e-99999999999999999999999999", true},
		"words_beside_numbers":       {"float_tolerance 1e-6", "Case 1: 0.5", "case 1: 0.50000001", true},
		"word_differs_with_float":    {"float_tolerance 1e-6", "Case 1: 0.5", "cash 1: 0.5", false},
		"last_flag_wins":             {"float_tolerance 1 float_tolerance 1e-6", "1", "1.5", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := ParseOptions(strings.Fields(tt.flags))
			if err != nil {
				t.Fatal(err)
			}
			for _, chop := range []bool{false, true} {
				var a, b io.Reader = strings.NewReader(tt.answer), strings.NewReader(tt.output)
				if chop {
					a, b = iotest.OneByteReader(a), iotest.DataErrReader(iotest.HalfReader(b))
				}
				d, err := Compare(a, b, o)
				if err != nil {
					t.Fatal(err)
				}
				if right := d == nil; right != tt.right {
					t.Errorf("chopped %v: right = %v (%v), want %v", chop, right, d, tt.right)
				}
			}
		})
	}
}

func TestDifferenceMessage(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 100)
	tests := map[string]struct {
		flags, answer, output, want string
	}{
		"nul":       {"", "Hello world!\n", "Hello world!\x00\x00\n", `word 2, line 1, column 7 (byte 6): different word: got "world!\x00\x00", want "world!" (answer line 1)`},
		"position":  {"", "1\n2 3\n", "1\n\n2 x\n", `word 3, line 3, column 3 (byte 5): different word: got "x", want "3" (answer line 2)`},
		"none":      {"", "42\n", "", `no output: want "42\n" (answer line 1)`},
		"short":     {"", "1 2\n", "1\n", `word 2, line 2, column 1 (byte 2): output ends too early: want "2\n" (answer line 1)`},
		"long":      {"", "1\n", "1\nTLE \xff\n", `word 2, line 2, column 1 (byte 2): output goes on after the end: got "TLE \xff\n"`},
		"number":    {"float_tolerance 1e-6", "1.5", "1.6", `word 1, line 1, column 1 (byte 0): number too far off: got "1.6", want "1.5" (answer line 1)`},
		"no_number": {"float_tolerance 1e-6", "1.5", "nan", `word 1, line 1, column 1 (byte 0): not a number: got "nan", want "1.5" (answer line 1)`},
		"space":     {"space_change_sensitive", "1 2\n", "1\t2\n", `word 2, line 1, column 2 (byte 1): different white space: got "\t2\n", want " 2\n" (answer line 1)`},
		"quotes":    {"", `"`, `\`, `word 1, line 1, column 1 (byte 0): different word: got "\\", want "\"" (answer line 1)`},
		"excerpt":   {"", long + "b" + long, long + "c" + long, `word 1, line 1, column 1 (byte 0): different word: got …"aaaaaaaaaaaaaaaacaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"…, want …"aaaaaaaaaaaaaaaabaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"… (answer line 1)`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := ParseOptions(strings.Fields(tt.flags))
			if err != nil {
				t.Fatal(err)
			}
			d, err := Compare(strings.NewReader(tt.answer), strings.NewReader(tt.output), o)
			if err != nil || d == nil {
				t.Fatalf("Compare = %v, %v", d, err)
			}
			if diff := cmp.Diff(tt.want, d.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseOptions(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string]string{
		"unknown": "fuzzy", "no_value": "float_tolerance", "negative": "float_tolerance -1", "not_a_number": "float_tolerance 1e-6x",
		"nan": "float_tolerance nan", "infinite": "float_tolerance 1e999", "flag_as_value": "float_tolerance case_sensitive", "upper": "CASE_SENSITIVE",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseOptions(strings.Fields(flags))
			if !fault.Is(err, fault.Invalid) || fault.HintOf(err) == "" {
				t.Errorf("ParseOptions(%q) = %v, want Invalid with a hint", flags, err)
			}
		})
	}
	o, err := ParseOptions(strings.Fields("case_sensitive space_change_sensitive float_absolute_tolerance 1e-6 float_relative_tolerance 0.01"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := o.String(), "case_sensitive space_change_sensitive float_absolute_tolerance 1e-06 float_relative_tolerance 0.01"; got != want {
		t.Errorf("String = %q, want %q", got, want)
	}
}

func TestReadErrorsAreNotDifferences(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk")
	for name, r := range map[string][2]io.Reader{
		"answer": {io.MultiReader(strings.NewReader("1 "), iotest.ErrReader(broken)), strings.NewReader("1 2")},
		"output": {strings.NewReader("1 2"), io.MultiReader(strings.NewReader("1 "), iotest.ErrReader(broken))},
		"inside": {strings.NewReader("12"), io.MultiReader(strings.NewReader("1"), iotest.ErrReader(broken))},
	} {
		if d, err := Compare(r[0], r[1], Options{}); !errors.Is(err, broken) || d != nil {
			t.Errorf("%s: Compare = %v, %v, want the reader's error", name, d, err)
		}
	}
}

// endless gives one byte for ever and counts what was taken.
type endless struct {
	b byte
	n int64
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.b
	}
	e.n += int64(len(p))
	return len(p), nil
}

// TestConstantMemoryOnOneLongWord is not parallel: it counts allocations.
func TestConstantMemoryOnOneLongWord(t *testing.T) {
	const size = 16 << 20
	e := 1e-6
	for name, o := range map[string]Options{"text": {}, "float": {Abs: &e}} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d, err := Compare(io.LimitReader(&endless{b: '1'}, size), io.LimitReader(&endless{b: '1'}, size), o)
		runtime.ReadMemStats(&after)
		if err != nil || d != nil {
			t.Fatalf("%s: Compare = %v, %v", name, d, err)
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 256<<10 {
			t.Errorf("%s: %d bytes allocated for words of %d bytes", name, allocated, size)
		}
	}
}

func TestStopsReadingAtTheDifference(t *testing.T) {
	t.Parallel()
	e := &endless{b: 'x'}
	d, err := Compare(strings.NewReader("1"), e, Options{})
	if err != nil || d == nil {
		t.Fatalf("Compare = %v, %v", d, err)
	}
	if e.n > 1<<20 {
		t.Errorf("read %d bytes of an endless output", e.n)
	}
}

func TestAgreesWithReferenceOnRandomInput(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	parts := []string{"1", "0", ".", "e", "-", "+", " ", "\n", "\t", "a", "A", "\x00", "inf", "99", "5", "\xff"}
	make1 := func() string {
		var b strings.Builder
		for range rng.IntN(12) {
			b.WriteString(parts[rng.IntN(len(parts))])
		}
		return b.String()
	}
	for range 30000 {
		answer := make1()
		output := answer
		if rng.IntN(3) > 0 {
			output = make1()
		} else if len(output) > 0 {
			i := rng.IntN(len(output))
			output = output[:i] + parts[rng.IntN(len(parts))] + output[i+rng.IntN(2):]
		}
		checkAgainstReference(t, answer, output, uint8(rng.IntN(16)))
	}
}
