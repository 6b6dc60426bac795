package course

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestOrder(t *testing.T) {
	t.Parallel()
	at := func(id, student, assignment string, second int64) Waiting {
		return Waiting{ID: id, Student: student, Assignment: assignment, Received: time.Unix(second, 0)}
	}
	ids := func(list []Waiting) []string {
		var out []string
		for _, w := range list {
			out = append(out, w.ID)
		}
		return out
	}
	tests := []struct {
		name            string
		waiting         []Waiting
		served          map[string]int
		order, replaced []string
	}{
		{name: "none"},
		{
			name:    "one_who_hands_in_much_waits_for_others",
			waiting: []Waiting{at("a1", "a", "1", 1), at("a2", "a", "2", 2), at("a3", "a", "3", 3), at("b1", "b", "1", 4), at("c1", "c", "1", 5)},
			order:   []string{"a1", "b1", "c1", "a2", "a3"},
		},
		{
			name:     "a_newer_one_takes_the_place",
			waiting:  []Waiting{at("a1", "a", "1", 1), at("b1", "b", "1", 2), at("a1b", "a", "1", 3), at("a1c", "a", "1", 4)},
			order:    []string{"a1c", "b1"},
			replaced: []string{"a1", "a1b"},
		},
		{
			name:    "who_was_served_waits",
			waiting: []Waiting{at("a1", "a", "1", 1), at("b1", "b", "1", 2)},
			served:  map[string]int{"a": 1},
			order:   []string{"b1", "a1"},
		},
		{
			name:    "same_instant",
			waiting: []Waiting{at("y", "b", "1", 1), at("x", "a", "1", 1)},
			order:   []string{"x", "y"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			order, replaced := Order(tt.waiting, tt.served)
			if diff := cmp.Diff(tt.order, ids(order)); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.replaced, ids(replaced)); diff != "" {
				t.Errorf("replaced (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOrderLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "n")
		waiting := make([]Waiting, n)
		for i := range waiting {
			waiting[i] = Waiting{
				ID:         fmt.Sprintf("s%02d", i),
				Student:    rapid.SampledFrom([]string{"ada", "bo", "cy", "di"}).Draw(t, "student"),
				Assignment: rapid.SampledFrom([]string{"1", "2", "3", "4", "5"}).Draw(t, "assignment"),
				Received:   time.Unix(rapid.Int64Range(0, 20).Draw(t, "received"), 0),
			}
		}
		order, replaced := Order(waiting, nil)

		again, _ := Order(rapid.Permutation(waiting).Draw(t, "shuffled"), nil)
		if diff := cmp.Diff(order, again); diff != "" {
			t.Fatalf("the order depends on how they are given:\n%s", diff)
		}
		all := slices.Concat(order, replaced)
		slices.SortFunc(all, func(a, b Waiting) int { return strings.Compare(a.ID, b.ID) })
		if diff := cmp.Diff(waiting, all, cmp.Transformer("none", func(l []Waiting) []Waiting { return append([]Waiting{}, l...) })); diff != "" {
			t.Fatalf("some are lost or there twice:\n%s", diff)
		}
		for _, old := range replaced {
			if !slices.ContainsFunc(order, func(w Waiting) bool {
				return w.Student == old.Student && w.Assignment == old.Assignment && byReceived(old, w) < 0
			}) {
				t.Fatalf("%+v was replaced by none that is newer", old)
			}
		}
		// Fair: as long as a student has something waiting, nobody gets two ahead.
		had, left := map[string]int{}, map[string]int{}
		for _, w := range order {
			left[w.Student]++
		}
		for _, w := range order {
			had[w.Student]++
			left[w.Student]--
			for other, n := range left {
				if n > 0 && had[w.Student] > had[other]+1 {
					t.Fatalf("%s has had %d, %s %d and %d wait", w.Student, had[w.Student], other, had[other], n)
				}
			}
		}
	})
}
