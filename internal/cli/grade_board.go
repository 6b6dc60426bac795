package cli

import (
	"fmt"
	"strings"

	"assay/internal/course/gradepage"
	"assay/internal/course/grading"
)

// gradeBoard shows how far a class is. Service.Run calls its methods one at a
// time.
type gradeBoard struct {
	p        *Progress
	entries  []grading.Entry
	outcomes map[string]int
	ended    int
	kept     int
	suspects int
}

func newGradeBoard(env *Env, title string, entries []grading.Entry) *gradeBoard {
	return &gradeBoard{p: env.UI.Progress(title, int64(len(entries))), entries: entries, outcomes: map[string]int{}}
}

func (b *gradeBoard) began(i int) {
	b.p.Detail(strings.TrimPrefix(b.tally()+", "+b.entries[i].ID, ", "))
}

func (b *gradeBoard) done(o grading.Outcome) {
	b.ended++
	b.outcomes[gradepage.Outcome(o.Grade)]++
	if o.Kept {
		b.kept++
	}
	if len(o.Grade.Suspicious) > 0 {
		b.suspects++
	}
	b.p.Set(int64(b.ended), int64(len(b.entries)))
	b.p.Detail(b.tally())
}

// tally counts outcomes ("all points 3, no points 1").
func (b *gradeBoard) tally() string {
	var parts []string
	for _, name := range gradepage.Outcomes {
		if n := b.outcomes[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, n))
		}
	}
	if b.suspects > 0 {
		parts = append(parts, fmt.Sprintf("suspicious %d", b.suspects))
	}
	if b.kept > 0 {
		parts = append(parts, fmt.Sprintf("kept from before %d", b.kept))
	}
	return strings.Join(parts, ", ")
}

func (b *gradeBoard) finish() { b.p.Finish(b.tally()) }
