package course

import (
	"cmp"
	"slices"
	"time"
)

// Waiting is a submission that waits to be graded.
type Waiting struct {
	ID string
	// Student is the person or group that handed it in.
	Student    string
	Assignment string
	Received   time.Time
}

// Order says in which order waiting submissions are graded, and which are not
// graded at all because the same student has handed in a newer one for the same
// assignment; the newer one takes the place of the oldest in the queue.
//
// A student's submissions keep their order. Between students it goes round: who
// has had fewer submissions graded comes first, and among equals who has waited
// longer. served counts what was graded before, by student; it may be nil. The
// order in which the submissions are given makes no difference.
func Order(waiting []Waiting, served map[string]int) (order, replaced []Waiting) {
	sorted := slices.SortedFunc(slices.Values(waiting), byReceived)
	type task struct{ student, assignment string }
	place := map[task]int{}
	var queue []placed
	for _, w := range sorted {
		key := task{w.Student, w.Assignment}
		if i, older := place[key]; older {
			replaced = append(replaced, queue[i].Waiting)
			queue[i].Waiting = w
			continue
		}
		place[key] = len(queue)
		queue = append(queue, placed{w, len(queue), 0})
	}
	turns := map[string]int{}
	for i, p := range queue {
		queue[i].turn = served[p.Student] + turns[p.Student]
		turns[p.Student]++
	}
	slices.SortFunc(queue, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.place, b.place))
	})
	for _, p := range queue {
		order = append(order, p.Waiting)
	}
	return order, replaced
}

// placed is a submission with its place in the order of arrival and the
// student's turn in which it is graded.
type placed struct {
	Waiting
	place, turn int
}

func byReceived(a, b Waiting) int {
	return cmp.Or(a.Received.Compare(b.Received), cmp.Compare(a.ID, b.ID))
}
