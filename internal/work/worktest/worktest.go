// Package worktest is the one suite that every store of jobs must pass. Start
// with Run; Memory is a store without a database.
//
// It must not know any other store.
package worktest

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"assay/internal/fault"
	"assay/internal/work"
)

// Run runs the suite. open gives a new empty store each time; it is closed by
// the test's cleanup.
func Run(t *testing.T, open func(t *testing.T) work.Store) {
	tests := []struct {
		name string
		run  func(t *testing.T, s work.Store)
	}{
		{"EverythingComesBack", everythingComesBack},
		{"OrderOfClaims", orderOfClaims},
		{"OnlyTheHolderMay", onlyTheHolderMay},
		{"EndedStaysEnded", endedStaysEnded},
		{"GivenBack", givenBack},
		{"NotBefore", notBefore},
		{"Cancel", cancel},
		{"Sweep", sweep},
		{"Nodes", nodes},
		{"CountAndPrune", countAndPrune},
		{"ManyClaimAtOnce", manyClaimAtOnce},
		{"OneOfManyFinishes", oneOfManyFinishes},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(t, open(t))
		})
	}
}

var noon = time.Date(2026, 5, 1, 12, 0, 0, 123_456_000, time.UTC)

func minute(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }

func enqueue(t *testing.T, s work.Store, jobs ...work.Job) {
	t.Helper()
	for _, j := range jobs {
		j.Kind, j.Created = cmp.Or(j.Kind, "judge"), cmp.Or(j.Created, noon)
		if err := s.Enqueue(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
}

// claim gives the zero job if there is none.
func claim(t *testing.T, s work.Store, token string, now time.Time, kinds ...string) work.Job {
	t.Helper()
	if len(kinds) == 0 {
		kinds = []string{"judge"}
	}
	j, ok, err := s.Claim(t.Context(), work.Claim{Node: "n1", Kinds: kinds, Token: token, Now: now, Until: now.Add(time.Minute)})
	if err != nil || ok != (j.ID != "") {
		t.Fatalf("claim: %+v, %v, %v", j, ok, err)
	}
	return j
}

func job(t *testing.T, s work.Store, id string) work.Job {
	t.Helper()
	j, err := s.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t *testing.T, what string, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("%s: %v (%s), want %s", what, err, fault.KindOf(err), kind)
	}
}

func diff(t *testing.T, want, got any) {
	t.Helper()
	if d := gocmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func everythingComesBack(t *testing.T, s work.Store) {
	want := work.Job{ID: "j", Kind: "judge", Ref: "run/ü", Priority: -3, State: work.Queued, Available: minute(1), Created: noon}
	enqueue(t, s, want)
	diff(t, want, job(t, s, "j"))
	wantKind(t, "the same again", s.Enqueue(t.Context(), want), fault.Conflict)
	_, err := s.Job(t.Context(), "none")
	wantKind(t, "no job", err, fault.NotFound)

	got := claim(t, s, "token", minute(1))
	want.State, want.Node, want.Token, want.LeaseUntil = work.Running, "n1", "token", minute(2)
	diff(t, want, got)
	diff(t, want, job(t, s, "j"))
	must(t, s.Renew(t.Context(), "j", "token", minute(9)))
	want.LeaseUntil = minute(9)
	diff(t, want, job(t, s, "j"))
	must(t, s.Finish(t.Context(), "j", "token", work.End{State: work.Done, Reason: "as it should", At: minute(3)}))
	want.State, want.Token, want.LeaseUntil, want.Ended, want.Reason = work.Done, "", time.Time{}, minute(3), "as it should"
	diff(t, want, job(t, s, "j"))
}

func orderOfClaims(t *testing.T, s work.Store) {
	enqueue(t, s, work.Job{ID: "late", Created: minute(2)}, work.Job{ID: "b"}, work.Job{ID: "a"}, work.Job{ID: "low", Priority: -1},
		work.Job{ID: "high", Priority: 5, Created: minute(3)}, work.Job{ID: "other", Kind: "grade", Priority: 9})
	var got []string
	for i := range 6 {
		got = append(got, claim(t, s, fmt.Sprint(i), minute(5)).ID)
	}
	diff(t, []string{"high", "a", "b", "late", "low", ""}, got)
	if j := claim(t, s, "x", minute(5), "mail", "grade"); j.ID != "other" {
		t.Errorf("claimed %q, want the other kind", j.ID)
	}
}

func onlyTheHolderMay(t *testing.T, s work.Store) {
	enqueue(t, s, work.Job{ID: "j"})
	done := work.End{State: work.Done, At: noon}
	for _, when := range []string{"queued", "running"} {
		for _, token := range []string{"", "guess"} {
			wantKind(t, when+": renew", s.Renew(t.Context(), "j", token, minute(9)), fault.Conflict)
			wantKind(t, when+": finish", s.Finish(t.Context(), "j", token, done), fault.Conflict)
			wantKind(t, when+": release", s.Release(t.Context(), "j", token, noon), fault.Conflict)
			wantKind(t, when+": retry", s.Retry(t.Context(), "j", token, noon, ""), fault.Conflict)
		}
		if when == "queued" {
			claim(t, s, "token", noon)
		}
	}
	must(t, s.Finish(t.Context(), "j", "token", done))
}

func endedStaysEnded(t *testing.T, s work.Store) {
	enqueue(t, s, work.Job{ID: "j"})
	claim(t, s, "token", noon)
	must(t, s.Finish(t.Context(), "j", "token", work.End{State: work.Failed, Reason: "first", At: noon}))
	for _, token := range []string{"token", ""} {
		wantKind(t, "finish", s.Finish(t.Context(), "j", token, work.End{State: work.Done, Reason: "second", At: noon}), fault.Conflict)
		wantKind(t, "release", s.Release(t.Context(), "j", token, noon), fault.Conflict)
		wantKind(t, "retry", s.Retry(t.Context(), "j", token, noon, ""), fault.Conflict)
	}
	wantKind(t, "cancel", s.Cancel(t.Context(), "j", noon, ""), fault.Conflict)
	if kinds, err := s.Sweep(t.Context(), minute(99)); err != nil || len(kinds) != 0 {
		t.Errorf("swept %v, %v", kinds, err)
	}
	if got := job(t, s, "j"); got.State != work.Failed || got.Reason != "first" {
		t.Errorf("got %+v", got)
	}
	if j := claim(t, s, "again", minute(99)); j.ID != "" {
		t.Errorf("claimed %+v", j)
	}
}

func givenBack(t *testing.T, s work.Store) {
	want := work.Job{ID: "j", Kind: "judge", State: work.Queued, Created: noon}
	enqueue(t, s, want)
	claim(t, s, "one", noon)
	must(t, s.Release(t.Context(), "j", "one", minute(1)))
	want.Available = minute(1)
	diff(t, want, job(t, s, "j"))
	if j := claim(t, s, "early", noon); j.ID != "" {
		t.Errorf("claimed %+v too early", j)
	}
	claim(t, s, "two", minute(1))
	must(t, s.Release(t.Context(), "j", "two", time.Time{}))
	want.Available = time.Time{}
	diff(t, want, job(t, s, "j"))
	claim(t, s, "two", noon)
	wantKind(t, "renew by the old token", s.Renew(t.Context(), "j", "one", minute(9)), fault.Conflict)
	must(t, s.Retry(t.Context(), "j", "two", minute(3), "the disk\x00 was full"))
	want.Tries, want.Available = 1, minute(3)
	got := job(t, s, "j")
	if got.Reason == "" {
		t.Error("the reason is lost")
	}
	want.Reason = got.Reason
	diff(t, want, got)
}

func notBefore(t *testing.T, s work.Store) {
	enqueue(t, s, work.Job{ID: "j", Available: minute(2)})
	if j := claim(t, s, "early", minute(2).Add(-time.Microsecond)); j.ID != "" {
		t.Errorf("claimed %+v too early", j)
	}
	if j := claim(t, s, "now", minute(2)); j.ID != "j" {
		t.Errorf("claimed %+v", j)
	}
}

func cancel(t *testing.T, s work.Store) {
	enqueue(t, s, work.Job{ID: "a"}, work.Job{ID: "b"})
	claim(t, s, "token", noon)
	for _, id := range []string{"a", "b"} {
		must(t, s.Cancel(t.Context(), id, minute(1), "not needed"))
		if j := job(t, s, id); j.State != work.Failed || j.Reason != "not needed" || !j.Ended.Equal(minute(1)) || j.Token != "" {
			t.Errorf("got %+v", j)
		}
	}
	wantKind(t, "renew", s.Renew(t.Context(), "a", "token", minute(9)), fault.Conflict)
	wantKind(t, "finish", s.Finish(t.Context(), "a", "token", work.End{State: work.Done, At: noon}), fault.Conflict)
	wantKind(t, "again", s.Cancel(t.Context(), "a", noon, ""), fault.Conflict)
	wantKind(t, "no job", s.Cancel(t.Context(), "none", noon, ""), fault.NotFound)
}

func sweep(t *testing.T, s work.Store) {
	enqueue(t, s, work.Job{ID: "a"}, work.Job{ID: "b"}, work.Job{ID: "c"}, work.Job{ID: "queued", Priority: -1})
	claim(t, s, "a", noon)
	claim(t, s, "b", minute(1))
	claim(t, s, "c", noon)
	must(t, s.Renew(t.Context(), "c", "c", minute(5)))
	kinds, err := s.Sweep(t.Context(), minute(1))
	if err != nil || len(kinds) != 0 {
		t.Errorf("just in time: swept %v, %v", kinds, err)
	}
	kinds, err = s.Sweep(t.Context(), minute(1).Add(time.Microsecond))
	must(t, err)
	diff(t, []string{"judge"}, kinds)
	got := job(t, s, "a")
	if got.Reason == "" {
		t.Error("no reason")
	}
	got.Reason = ""
	diff(t, work.Job{ID: "a", Kind: "judge", State: work.Queued, Tries: 1, Created: noon}, got)
	wantKind(t, "finish after that", s.Finish(t.Context(), "a", "a", work.End{State: work.Done, At: noon}), fault.Conflict)
	must(t, s.Finish(t.Context(), "b", "b", work.End{State: work.Done, At: noon}))
	must(t, s.Finish(t.Context(), "c", "c", work.End{State: work.Done, At: noon}))
}

func nodes(t *testing.T, s work.Store) {
	one := work.Node{
		ID: "n1", Address: "10.0.0.1:80", Capacity: 4, Roles: []string{"api", "node"}, Started: noon, Seen: noon,
		Load: work.Load{Sandboxes: 3, Memory: 64 << 30, Held: 5 << 30},
	}
	two := work.Node{ID: "n2", Roles: []string{"api"}, Started: noon, Seen: minute(5)}
	must(t, s.Beat(t.Context(), two))
	must(t, s.Beat(t.Context(), one))
	one.Seen, one.Capacity, one.Held = minute(1), 2, 6<<30
	must(t, s.Beat(t.Context(), one))
	got, err := s.Nodes(t.Context())
	must(t, err)
	diff(t, []work.Node{one, two}, got)
	older := two
	older.Started, older.Seen = noon.Add(-time.Microsecond), two.Seen
	wantKind(t, "a process that was replaced", s.Beat(t.Context(), older), fault.Conflict)
	older.Seen = two.Seen.Add(-time.Microsecond)
	must(t, s.Beat(t.Context(), older)) // started when the clock had been set back
	must(t, s.Beat(t.Context(), two))

	enqueue(t, s, work.Job{ID: "a"}, work.Job{ID: "b"})
	claim(t, s, "a", noon)
	claim(t, s, "b", noon)
	one.Jobs = 2
	got, err = s.Nodes(t.Context())
	must(t, err)
	diff(t, []work.Node{one, two}, got)
	kinds, err := s.Bury(t.Context(), minute(1))
	if err != nil || len(kinds) != 0 {
		t.Errorf("a living node: %v, %v", kinds, err)
	}
	kinds, err = s.Bury(t.Context(), minute(1).Add(time.Microsecond))
	must(t, err)
	diff(t, []string{"judge", "judge"}, kinds)
	if j := job(t, s, "a"); j.State != work.Queued || j.Tries != 1 {
		t.Errorf("got %+v", j)
	}
	if kinds, err = s.Bury(t.Context(), minute(9)); err != nil || len(kinds) != 0 {
		t.Errorf("again: %v, %v", kinds, err)
	}
	claim(t, s, "a2", noon)
	if kinds, err = s.Drop(t.Context(), "n2"); err != nil || len(kinds) != 0 {
		t.Errorf("drop another node: %v, %v", kinds, err)
	}
	kinds, err = s.Drop(t.Context(), "n1")
	must(t, err)
	diff(t, []string{"judge"}, kinds)
	must(t, s.Forget(t.Context(), "n1"))
	must(t, s.Forget(t.Context(), "n1"))
	got, err = s.Nodes(t.Context())
	must(t, err)
	diff(t, []work.Node{two}, got)
}

func countAndPrune(t *testing.T, s work.Store) {
	enqueue(t, s, work.Job{ID: "a"}, work.Job{ID: "b"}, work.Job{ID: "c", Created: minute(1)}, work.Job{ID: "d", Kind: "grade"})
	claim(t, s, "a", minute(2))
	must(t, s.Finish(t.Context(), "a", "a", work.End{State: work.Done, At: minute(3)}))
	got, err := s.Counts(t.Context())
	must(t, err)
	diff(t, []work.Count{
		{Kind: "grade", State: work.Queued, Jobs: 1, Oldest: noon},
		{Kind: "judge", State: work.Done, Jobs: 1, Oldest: noon},
		{Kind: "judge", State: work.Queued, Jobs: 2, Oldest: noon},
	}, got)
	for _, tt := range []struct {
		before time.Time
		want   int
	}{{minute(3), 0}, {minute(4), 1}, {minute(99), 0}} {
		if n, err := s.Prune(t.Context(), tt.before); err != nil || n != tt.want {
			t.Errorf("pruned %d before %s, %v; want %d", n, tt.before, err, tt.want)
		}
	}
	if got, err = s.Counts(t.Context()); err != nil || len(got) != 2 {
		t.Errorf("left are %v, %v", got, err)
	}
}

// manyClaimAtOnce has eight claim until there is nothing left.
func manyClaimAtOnce(t *testing.T, s work.Store) {
	const jobs = 120
	for i := range jobs {
		enqueue(t, s, work.Job{ID: fmt.Sprintf("j%03d", i)})
	}
	var mu sync.Mutex
	var got []string
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				token := fmt.Sprintf("%d-%d", worker, i)
				j, ok, err := s.Claim(t.Context(), work.Claim{Node: "n", Kinds: []string{"judge"}, Token: token, Now: noon, Until: minute(1)})
				if err != nil {
					t.Error(err)
				}
				if !ok {
					return
				}
				if err := s.Finish(t.Context(), j.ID, token, work.End{State: work.Done, At: noon}); err != nil {
					t.Error(err)
				}
				mu.Lock()
				got = append(got, j.ID)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(got)
	if n := len(slices.Compact(slices.Clone(got))); len(got) != jobs || n != jobs {
		t.Errorf("%d claims of %d jobs, want %d of each", len(got), n, jobs)
	}
}

func oneOfManyFinishes(t *testing.T, s work.Store) {
	enqueue(t, s, work.Job{ID: "j"})
	claim(t, s, "token", noon)
	var mu sync.Mutex
	var wg sync.WaitGroup
	finished := 0
	for i := range 16 {
		wg.Go(func() {
			err := s.Finish(t.Context(), "j", "token", work.End{State: work.Done, Reason: fmt.Sprint(i), At: noon})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				finished++
			case !fault.Is(err, fault.Conflict):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if finished != 1 {
		t.Errorf("finished %d times", finished)
	}
}
