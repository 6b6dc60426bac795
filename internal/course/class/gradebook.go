package class

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"assay/internal/judge"
)

// Gradebook is all marks of a course. While an assignment is hidden its marks
// are Hidden here and count in no total; AnonymousMarks gives them.
type Gradebook struct {
	Course      Course       `json:"course"`
	Assignments []Assignment `json:"assignments"`
	Rows        []Row        `json:"rows"`
	// Points are those of all assignments that are not hidden.
	Points judge.Score `json:"points"`
}

// Row is one student's marks, in the order of Gradebook.Assignments.
type Row struct {
	Person Person      `json:"person"`
	Marks  []Mark      `json:"marks"`
	Total  judge.Score `json:"total"`
}

// Gradebook computes all marks of a course.
func (b *Book) Gradebook(ctx context.Context, courseID string) (Gradebook, error) {
	s, err := b.State(ctx, courseID)
	if err != nil {
		return Gradebook{}, err
	}
	return s.gradebook()
}

func (s State) gradebook() (Gradebook, error) {
	g := Gradebook{Course: s.Course, Assignments: append([]Assignment{}, s.Assignments...), Rows: []Row{}}
	var columns []map[string]Mark
	for _, a := range s.Assignments {
		marks, err := s.Marks(a)
		if err != nil {
			return g, err
		}
		columns = append(columns, marks)
		if !a.Hidden() {
			g.Points = g.Points.Add(a.Points)
		}
	}
	for _, p := range students(s.People) {
		row := Row{Person: p, Marks: make([]Mark, len(columns))}
		for i, marks := range columns {
			if s.Assignments[i].Hidden() {
				row.Marks[i] = Mark{Hidden: true, None: true}
				continue
			}
			row.Marks[i] = marks[p.ID]
			row.Total = row.Total.Add(row.Marks[i].Score)
		}
		g.Rows = append(g.Rows, row)
	}
	return g, nil
}

// Only is the gradebook with one assignment: NotFound if there is none.
func (g Gradebook) Only(assignment string) (Gradebook, error) {
	i := slices.IndexFunc(g.Assignments, func(a Assignment) bool { return a.Name == assignment })
	if i < 0 {
		return g, noAssignment(g.Course.ID, assignment)
	}
	out := Gradebook{Course: g.Course, Assignments: g.Assignments[i : i+1], Rows: []Row{}}
	if !g.Assignments[i].Hidden() {
		out.Points = g.Assignments[i].Points
	}
	for _, r := range g.Rows {
		out.Rows = append(out.Rows, Row{r.Person, r.Marks[i : i+1], r.Marks[i].Score})
	}
	return out, nil
}

// AnonymousMark is a mark without a name.
type AnonymousMark struct {
	Pseudonym string `json:"pseudonym"`
	Mark      Mark   `json:"mark"`
}

// AnonymousMarks are the marks of one assignment by pseudonym. What would tell
// who somebody is is left out: group, own due time, attempt and instant.
func (b *Book) AnonymousMarks(ctx context.Context, courseID, assignment string) (Assignment, []AnonymousMark, error) {
	s, err := b.State(ctx, courseID)
	if err != nil {
		return Assignment{}, nil, err
	}
	a, err := s.assignment(assignment)
	if err != nil {
		return a, nil, err
	}
	marks, err := s.Marks(a)
	if err != nil {
		return a, nil, err
	}
	list := []AnonymousMark{}
	for person, m := range marks {
		m.Group, m.Attempt = "", ""
		m.Received, m.Due, m.Late.After = time.Time{}, time.Time{}, 0
		list = append(list, AnonymousMark{s.Course.Pseudonym(a.Name, person), m})
	}
	slices.SortFunc(list, func(x, y AnonymousMark) int { return strings.Compare(x.Pseudonym, y.Pseudonym) })
	return a, list, nil
}

// Statistics say how scores are spread. Values are rounded, for people.
type Statistics struct {
	Count  int     `json:"count"`
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
	// Quartiles are at a quarter and at three quarters.
	Quartiles [2]float64 `json:"quartiles"`
	Min       float64    `json:"min"`
	Max       float64    `json:"max"`
	// Deviation is the standard deviation of these scores.
	Deviation float64 `json:"deviation"`
}

// Spread computes statistics of scores.
func Spread(scores []judge.Score) Statistics {
	s := Statistics{Count: len(scores)}
	if s.Count == 0 {
		return s
	}
	sorted := slices.SortedFunc(slices.Values(scores), judge.Score.Cmp)
	var sum judge.Score
	for _, v := range sorted {
		sum = sum.Add(v)
	}
	mean := sum.Over(s.Count)
	var squares judge.Score
	for _, v := range sorted {
		d := v.Sub(mean)
		squares = squares.Add(d.Mul(d))
	}
	at := func(part float64) float64 { // as spreadsheets do: between neighbours
		position := part * float64(s.Count-1)
		low := int(position)
		high := min(low+1, s.Count-1)
		f := position - float64(low)
		return sorted[low].Float()*(1-f) + sorted[high].Float()*f
	}
	s.Mean, s.Median, s.Quartiles = mean.Float(), at(0.5), [2]float64{at(0.25), at(0.75)}
	s.Min, s.Max = sorted[0].Float(), sorted[s.Count-1].Float()
	s.Deviation = math.Sqrt(squares.Over(s.Count).Float())
	for _, v := range []*float64{&s.Mean, &s.Median, &s.Quartiles[0], &s.Quartiles[1], &s.Min, &s.Max, &s.Deviation} {
		*v = math.Round(*v*1000) / 1000
	}
	return s
}

// Bin is one bar of a histogram: scores from Low to below High, in percent; the
// last bar has its High in it.
type Bin struct {
	Low   int `json:"low_percent"`
	High  int `json:"high_percent"`
	Count int `json:"count"`
}

// Histogram counts scores by tenths of the points. What is above all points is
// in the last bar, and so is everything if there are no points.
func Histogram(scores []judge.Score, points judge.Score) []Bin {
	bins := make([]Bin, 10)
	for i := range bins {
		bins[i].Low, bins[i].High = i*10, i*10+10
	}
	for _, s := range scores {
		i := 0
		for i < 9 && s.Mul(judge.IntScore(10)).Cmp(points.Mul(judge.IntScore(int64(i+1)))) >= 0 {
			i++
		}
		bins[i].Count++
	}
	return bins
}

// Column gives the scores of one assignment, of those who have a mark; with ""
// the totals of all.
func (g Gradebook) Column(assignment string) (scores []judge.Score, points judge.Score) {
	if assignment == "" {
		for _, r := range g.Rows {
			scores = append(scores, r.Total)
		}
		return scores, g.Points
	}
	i := slices.IndexFunc(g.Assignments, func(a Assignment) bool { return a.Name == assignment })
	if i < 0 {
		return nil, points
	}
	for _, r := range g.Rows {
		if !r.Marks[i].None {
			scores = append(scores, r.Marks[i].Score)
		}
	}
	return scores, g.Assignments[i].Points
}

// title is what a column of a table for people is called.
func (a Assignment) title() string { return cmp.Or(a.Title, a.Name) }
