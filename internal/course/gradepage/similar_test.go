package gradepage

import (
	"fmt"
	"strings"
	"testing"

	"assay/internal/course/similarity"
)

// sampleSimilar has more pairs and places than a page shows, and hostile text.
func sampleSimilar() similarity.Result {
	region := similarity.Region{
		Tokens: 30,
		A:      similarity.Span{File: "a.py", From: 9, To: 10, Text: []string{"<script>alert(1)</script>", "\tx = " + strings.Repeat("1", 300)}},
		B:      similarity.Span{File: "b.py", From: 3, To: 3, Text: []string{"y"}},
	}
	r := similarity.Result{Compared: 300, Notes: []string{"c is not compared"}}
	for i := range maxPairs + 2 {
		p := similarity.Pair{A: "ada", B: fmt.Sprintf("<b>%d", i), Similarity: 0.999, AInB: 0.5, BInA: 1}
		if i == 0 {
			for range maxRegions + 3 {
				p.Regions = append(p.Regions, region)
			}
		}
		r.Pairs = append(r.Pairs, p)
	}
	r.Clusters = []similarity.Cluster{{Members: []string{"ada", "bo\u202e"}, Pairs: 1, Highest: 1}}
	return r
}

// TestSimilar shows hostile names and code as text, and says what it left out.
func TestSimilar(t *testing.T) {
	t.Parallel()
	r := sampleSimilar()
	var b strings.Builder
	if err := Similar(&b, "hw1", r); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{
		"hw1, 300 submissions compared", "&lt;script&gt;alert(1)&lt;/script&gt;", "lines 9–10", "line 3", `<span class="at">10</span>`,
		"<td class=\"num\">50 %</td><td class=\"num\">100 %</td>", "99 %", "3 more are left out", "2 pairs that share less than those above", "ada, bo\ufffd",
		"c is not compared",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "<script") || strings.Contains(page, "<b>") {
		t.Error("markup of a student is in the page")
	}
	if got := strings.Count(page, `class="both"`); got != maxRegions {
		t.Errorf("%d places are shown, want %d", got, maxRegions)
	}
	if len(r.Notes) != 1 {
		t.Error("the result was changed")
	}
}

func TestNothingSimilar(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := Similar(&b, "hw1", similarity.Result{Compared: 3}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "No pair shares enough to be shown.") || strings.Contains(b.String(), "<table") {
		t.Error(b.String())
	}
}
