package similarity

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"assay/internal/course"
)

// pythonOf writes a Python program of so many lines at least.
func pythonOf(seed, lines int) string {
	r := rand.New(rand.NewPCG(uint64(seed), 7))
	var b strings.Builder
	var expression func(depth int) string
	expression = func(depth int) string {
		if depth == 0 {
			return []string{"a", "b", "total", "1", "27", `"x"`}[r.IntN(6)]
		}
		switch r.IntN(6) {
		case 0:
			return expression(depth-1) + []string{" + ", " * ", " - ", " % "}[r.IntN(4)] + expression(depth-1)
		case 1:
			return []string{"len", "sum", "f", "max"}[r.IntN(4)] + "(" + expression(depth-1) + ")"
		case 2:
			return "a[" + expression(depth-1) + "]"
		case 3:
			return "(" + expression(depth-1) + ", " + expression(depth-1) + ")"
		case 4:
			return "b." + []string{"get", "name", "split"}[r.IntN(3)] + "(" + expression(depth-1) + ")"
		}
		return "-" + expression(depth-1)
	}
	for n := 0; n < lines; {
		fmt.Fprintf(&b, "def f%d(a, b):\n    total = %s\n", r.IntN(1000), expression(1))
		n += 2
		for range 4 + r.IntN(8) {
			switch r.IntN(5) {
			case 0:
				fmt.Fprintf(&b, "    if %s < %s:\n        total += %s\n", expression(1), expression(1), expression(2))
			case 1:
				fmt.Fprintf(&b, "    for a in range(%s):\n        total = %s\n", expression(1), expression(2))
			case 2:
				fmt.Fprintf(&b, "    while %s:\n        break  # %d\n", expression(2), r.IntN(100))
			default:
				fmt.Fprintf(&b, "    total = %s\n", expression(3))
			}
			n += 2
		}
		fmt.Fprintf(&b, "    return %s\n\n", expression(2))
	}
	return b.String()
}

// BenchmarkClass compares 500 submissions of 300 lines, a tenth of them copies.
func BenchmarkClass(b *testing.B) {
	var all []course.Submission
	lines := 0
	for i := range 500 {
		seed := i
		if i%10 == 9 {
			seed = i - 1
		}
		text := pythonOf(seed, 300)
		lines += strings.Count(text, "\n")
		all = append(all, course.Submission{ID: fmt.Sprint(i), Files: []course.File{{Name: "a.py", Data: []byte(text)}}})
	}
	b.ReportMetric(float64(lines)/500, "lines")
	for b.Loop() {
		d, err := NewDetector(Options{Min: 0.5})
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range all {
			d.Add(s)
		}
		if r := d.Result(); len(r.Pairs) != 50 {
			b.Fatalf("%d pairs", len(r.Pairs))
		}
	}
}
