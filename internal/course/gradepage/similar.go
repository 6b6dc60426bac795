package gradepage

import (
	"fmt"
	"io"
	"time"

	"assay/internal/course/similarity"
)

// What one page shows; more would be too long to print.
const (
	maxPairs   = 100
	maxRegions = 20
)

type similarPair struct {
	similarity.Pair
	Number int
	// More counts the places that are not shown.
	More int
}

// Similar writes what submissions share, side by side. title names the task.
func Similar(w io.Writer, title string, r similarity.Result) error {
	p := struct {
		Title  string
		Made   time.Time
		Result similarity.Result
		Pairs  []similarPair
	}{Title: title, Made: time.Now(), Result: r}
	for i, pair := range r.Pairs[:min(len(r.Pairs), maxPairs)] {
		more := max(0, len(pair.Regions)-maxRegions)
		pair.Regions = pair.Regions[:len(pair.Regions)-more]
		p.Pairs = append(p.Pairs, similarPair{pair, i + 1, more})
	}
	if n := len(r.Pairs) - len(p.Pairs); n > 0 {
		p.Result.Notes = append(p.Result.Notes[:len(r.Notes):len(r.Notes)], plural(n, "pair", "pairs")+" that share less than those above")
	}
	return pages.ExecuteTemplate(w, "similar.html", p)
}

// share is a part of one as people read it.
func share(part float64) string { return fmt.Sprintf("%d %%", whole(part)) }

// whole is a part of one in hundredths, rounded down: only all is 100 %.
func whole(part float64) int { return int(part*100 + 1e-9) }

func lines(from, to int) string {
	if from == to {
		return fmt.Sprintf("line %d", from)
	}
	return fmt.Sprintf("lines %d–%d", from, to)
}
