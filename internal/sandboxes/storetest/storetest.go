// Package storetest is the one suite that every store of sandboxes must pass.
// Start with Run. Behaviour that all stores share is tested here and in no
// store's own test.
//
// It must not know any store.
package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/fault"
	"assay/internal/sandbox"
	"assay/internal/sandboxes"
)

// Run runs the suite. open gives a new empty store each time; it is closed by
// the test's cleanup.
func Run(t *testing.T, open func(t *testing.T) sandboxes.Store) {
	tests := []struct {
		name string
		run  func(t *testing.T, s sandboxes.Store)
	}{
		{"EverythingComesBack", everythingComesBack},
		{"EndStays", endStays},
		{"UsageAddsUp", usageAddsUp},
		{"ListsAreFiltered", listsAreFiltered},
		{"PagesMeet", pagesMeet},
		{"SnapshotsComeAndGo", snapshotsComeAndGo},
		{"KeysAreOnce", keysAreOnce},
		{"OldRequestsAreForgotten", oldRequestsAreForgotten},
		{"LongAnswersShrink", longAnswersShrink},
		{"OneOfManyIsFirst", oneOfManyIsFirst},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(t, open(t))
		})
	}
}

var (
	at  = time.Date(2026, 3, 29, 1, 30, 0, 123_456_000, time.UTC)
	day = at.Truncate(24 * time.Hour)
)

func record(id, owner string, created time.Time, labels map[string]string) sandboxes.Record {
	return sandboxes.Record{
		ID: id, Owner: owner, Token: "t1", Node: "n1", Name: "Ünïcode; \"quoted\"", Labels: labels,
		Template: "base", TemplateDigest: "sha256:0", Snapshot: "s0", Parent: "p0", BootMode: sandbox.BootFork, Boot: 12345 * time.Microsecond,
		Shape: sandbox.Shape{VCPUs: 2, Memory: 1 << 30, Disk: 5 << 30, Processes: 64}, Dedicated: true,
		Created: created, Deadline: created.Add(time.Hour), Idle: time.Minute,
	}
}

func add(t *testing.T, s sandboxes.Store, r sandboxes.Record) {
	t.Helper()
	must(t, s.AddSandbox(t.Context(), r))
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

func wantSandbox(t *testing.T, s sandboxes.Store, want sandboxes.Record) {
	t.Helper()
	got, err := s.Sandbox(t.Context(), want.ID)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

func everythingComesBack(t *testing.T, s sandboxes.Store) {
	r := record("a", "u1", at, map[string]string{"k": "v", "ключ": "値"})
	add(t, s, r)
	wantSandbox(t, s, r)
	wantKind(t, "the same ID again", s.AddSandbox(t.Context(), r), fault.Conflict)
	_, err := s.Sandbox(t.Context(), "nobody")
	wantKind(t, "an unknown sandbox", err, fault.NotFound)
	must(t, s.SetLimits(t.Context(), "a", at.Add(2*time.Hour), time.Second))
	must(t, s.SetPaused(t.Context(), "a", true))
	r.Deadline, r.Idle, r.Paused = at.Add(2*time.Hour), time.Second, true
	wantSandbox(t, s, r)
	bare := sandboxes.Record{ID: "b", Node: "n1", Created: at}
	add(t, s, bare)
	wantSandbox(t, s, bare)
}

func endStays(t *testing.T, s sandboxes.Store) {
	r := record("a", "u1", at, nil)
	add(t, s, r)
	r.End = sandboxes.End{At: at.Add(time.Minute), Why: "killed by ann", Cause: "killed"}
	must(t, s.EndSandbox(t.Context(), "a", r.End))
	must(t, s.EndSandbox(t.Context(), "a", sandboxes.End{At: at.Add(time.Hour), Why: "again", Cause: "machine_lost"}))
	must(t, s.SetLimits(t.Context(), "a", at.Add(9*time.Hour), time.Hour))
	must(t, s.SetPaused(t.Context(), "a", true))
	wantSandbox(t, s, r)
	must(t, s.EndSandbox(t.Context(), "nobody", r.End))
}

func usageAddsUp(t *testing.T, s sandboxes.Store) {
	r := record("a", "u1", at, nil)
	add(t, s, r)
	add(t, s, record("b", "u1", at, nil))
	add(t, s, record("c", "u2", at, nil))
	use := func(id, owner string, on time.Time, cpu time.Duration) sandboxes.Used {
		return sandboxes.Used{Sandbox: id, Owner: owner, Day: on, CPU: cpu, ByteSeconds: 0.5, SnapshotBytes: 7}
	}
	must(t, s.AddUsage(t.Context(), nil))
	must(t, s.AddUsage(t.Context(), []sandboxes.Used{use("a", "u1", day, time.Second), use("b", "u1", day, 2*time.Second), use("c", "u2", day, time.Hour)}))
	must(t, s.AddUsage(t.Context(), []sandboxes.Used{use("a", "u1", day, 250*time.Microsecond), use("a", "u1", day.AddDate(0, 0, 1), time.Minute)}))
	r.CPU, r.ByteSeconds, r.SnapshotBytes = time.Minute+time.Second+250*time.Microsecond, 1.5, 21
	wantSandbox(t, s, r)
	must(t, s.EndSandbox(t.Context(), "b", sandboxes.End{At: at}))
	must(t, s.AddSnapshot(t.Context(), sandboxes.Snapshot{ID: "s1", Owner: "u1", Bytes: 100, Taken: at}))
	must(t, s.AddSnapshot(t.Context(), sandboxes.Snapshot{ID: "s2", Owner: "u1", Bytes: 1, Taken: at, Removed: at}))
	got, err := s.Held(t.Context(), "u1", "", day)
	want := sandboxes.Held{Sandboxes: 1, DiskBytes: 5 << 30, Snapshots: 1, SnapshotBytes: 100, CPU: 3*time.Second + 250*time.Microsecond}
	if got != want || err != nil {
		t.Errorf("held %+v, %v; want %+v", got, err, want)
	}
	// A second token of the same owner.
	other := record("d", "u1", at, nil)
	other.Token = "t2"
	add(t, s, other)
	used := use("d", "u1", day, time.Minute)
	used.Token = "t2"
	must(t, s.AddUsage(t.Context(), []sandboxes.Used{used}))
	must(t, s.AddSnapshot(t.Context(), sandboxes.Snapshot{ID: "s3", Owner: "u1", Sandbox: "d", Bytes: 10, Taken: at}))
	got, err = s.Held(t.Context(), "u1", "t2", day)
	want = sandboxes.Held{Sandboxes: 1, DiskBytes: 5 << 30, Snapshots: 1, SnapshotBytes: 10, CPU: time.Minute}
	if got != want || err != nil {
		t.Errorf("the token holds %+v, %v; want %+v", got, err, want)
	}
	got, err = s.Held(t.Context(), "u1", "", day)
	want = sandboxes.Held{Sandboxes: 2, DiskBytes: 10 << 30, Snapshots: 2, SnapshotBytes: 110, CPU: time.Minute + 3*time.Second + 250*time.Microsecond}
	if got != want || err != nil {
		t.Errorf("the owner holds %+v, %v; want %+v", got, err, want)
	}
	if got, err := s.Held(t.Context(), "u3", "", day); got != (sandboxes.Held{}) || err != nil {
		t.Errorf("nobody holds %+v, %v", got, err)
	}
}

func ids(rows []sandboxes.Record) (list []string) {
	for _, r := range rows {
		list = append(list, r.ID)
	}
	return list
}

func listsAreFiltered(t *testing.T, s sandboxes.Store) {
	u1, none := "u1", ""
	add(t, s, record("a", "u1", at, map[string]string{"course": "1", "kind": "x"}))
	add(t, s, record("b", "u1", at.Add(time.Second), map[string]string{"course": "1"}))
	add(t, s, record("c", "u2", at.Add(2*time.Second), map[string]string{"course": "1", "kind": "x"}))
	other := record("d", "", at.Add(3*time.Second), nil)
	other.Node = "n2"
	add(t, s, other)
	must(t, s.EndSandbox(t.Context(), "b", sandboxes.End{At: at.Add(time.Minute)}))
	for name, tt := range map[string]struct {
		q    sandboxes.Query
		want []string
	}{
		"all":      {sandboxes.Query{}, []string{"d", "c", "b", "a"}},
		"owner":    {sandboxes.Query{Owner: &u1}, []string{"b", "a"}},
		"server":   {sandboxes.Query{Owner: &none}, []string{"d"}},
		"live":     {sandboxes.Query{Live: true}, []string{"d", "c", "a"}},
		"node":     {sandboxes.Query{Node: "n2"}, []string{"d"}},
		"label":    {sandboxes.Query{Labels: map[string]string{"course": "1"}}, []string{"c", "b", "a"}},
		"labels":   {sandboxes.Query{Labels: map[string]string{"course": "1", "kind": "x"}, Owner: &u1}, []string{"a"}},
		"no_label": {sandboxes.Query{Labels: map[string]string{"course": "'; DROP TABLE sandboxes; --"}}, nil},
		"time":     {sandboxes.Query{From: at.Add(time.Second), To: at.Add(3 * time.Second)}, []string{"c", "b"}},
		"first":    {sandboxes.Query{Limit: 2}, []string{"d", "c"}},
	} {
		rows, err := s.Sandboxes(t.Context(), tt.q)
		if d := cmp.Diff(tt.want, ids(rows)); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, d)
		}
	}
}

// pagesMeet has many sandboxes of the same moment: none may be left out between
// two pages, or be on both.
func pagesMeet(t *testing.T, s sandboxes.Store) {
	const n = 25
	for i := range n {
		add(t, s, record(fmt.Sprintf("s%02d", i), "u", at.Add(time.Duration(i/10)*time.Second), nil))
	}
	seen := map[string]int{}
	for q := (sandboxes.Query{Limit: 4}); ; {
		rows, err := s.Sandboxes(t.Context(), q)
		must(t, err)
		if len(rows) == 0 {
			break
		}
		for _, r := range rows {
			seen[r.ID]++
		}
		last := rows[len(rows)-1]
		q.Before, q.BeforeID = last.Created, last.ID
	}
	for id, times := range seen {
		if times != 1 {
			t.Errorf("%s was given %d times", id, times)
		}
	}
	if len(seen) != n {
		t.Errorf("%d of %d were given", len(seen), n)
	}
}

func snapshotsComeAndGo(t *testing.T, s sandboxes.Store) {
	u1 := "u1"
	a := sandboxes.Snapshot{
		ID: "a", Owner: "u1", Node: "n1", Name: "ready", Labels: map[string]string{"q": "1"}, Sandbox: "sb", Template: "base",
		Shape: sandbox.Shape{VCPUs: 1, Memory: 2, Disk: 3, Processes: 4}, Bytes: 99, Taken: at, Expires: at.Add(time.Hour),
	}
	b := sandboxes.Snapshot{ID: "b", Owner: "u1", Node: "n1", Sandbox: "sc", Taken: at.Add(time.Second)}
	must(t, s.AddSnapshot(t.Context(), a))
	must(t, s.AddSnapshot(t.Context(), b))
	wantKind(t, "the same ID again", s.AddSnapshot(t.Context(), a), fault.Conflict)
	got, err := s.Snapshot(t.Context(), "a")
	if d := cmp.Diff(a, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	for name, tt := range map[string]struct {
		q    sandboxes.Query
		want []sandboxes.Snapshot
	}{
		"owner":   {sandboxes.Query{Owner: &u1}, []sandboxes.Snapshot{b, a}},
		"sandbox": {sandboxes.Query{Sandbox: "sb"}, []sandboxes.Snapshot{a}},
		"label":   {sandboxes.Query{Labels: map[string]string{"q": "1"}, Live: true}, []sandboxes.Snapshot{a}},
		"before":  {sandboxes.Query{Before: b.Taken, BeforeID: "b"}, []sandboxes.Snapshot{a}},
	} {
		rows, err := s.Snapshots(t.Context(), tt.q)
		if d := cmp.Diff(tt.want, rows); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, d)
		}
	}
	must(t, s.EndSnapshot(t.Context(), "a", at.Add(time.Minute)))
	must(t, s.EndSnapshot(t.Context(), "a", at.Add(time.Hour)))
	_, err = s.Snapshot(t.Context(), "a")
	wantKind(t, "a removed snapshot", err, fault.NotFound)
	all, err := s.Snapshots(t.Context(), sandboxes.Query{Sandbox: "sb"})
	if err != nil || len(all) != 1 || !all[0].Removed.Equal(at.Add(time.Minute)) {
		t.Errorf("removed: %+v, %v", all, err)
	}
	if live, err := s.Snapshots(t.Context(), sandboxes.Query{Live: true}); err != nil || len(live) != 1 {
		t.Errorf("left: %+v, %v", live, err)
	}
}

func request(owner, key string) sandboxes.Request {
	return sandboxes.Request{Owner: owner, Key: key, Digest: "d", Node: "n1", Made: at}
}

func keysAreOnce(t *testing.T, s sandboxes.Store) {
	ctx := t.Context()
	first, err := s.Remember(ctx, request("u1", "k"))
	if first != nil || err != nil {
		t.Fatalf("a new key gave %+v, %v", first, err)
	}
	want := request("u1", "k")
	again := request("u1", "k")
	again.Digest, again.Node = "other", "n2"
	got, err := s.Remember(ctx, again)
	if d := cmp.Diff(&want, got); d != "" || err != nil {
		t.Errorf("under way: %v (-want +got):\n%s", err, d)
	}
	for _, other := range []sandboxes.Request{request("u2", "k"), request("u1", "l")} {
		if before, err := s.Remember(ctx, other); before != nil || err != nil {
			t.Errorf("%+v gave %+v, %v", other, before, err)
		}
	}
	must(t, s.Answered(ctx, "u1", "k", []byte(`{"a":1}`)))
	want.Answer = []byte(`{"a":1}`)
	got, err = s.Remember(ctx, again)
	if d := cmp.Diff(&want, got); d != "" || err != nil {
		t.Errorf("answered: %v (-want +got):\n%s", err, d)
	}
	must(t, s.Forget(ctx, "u1", "k"))
	if before, err := s.Remember(ctx, again); before != nil || err != nil {
		t.Errorf("forgotten: %+v, %v", before, err)
	}
}

func oldRequestsAreForgotten(t *testing.T, s sandboxes.Store) {
	ctx := t.Context()
	old := request("u", "old")
	old.Made = at.Add(-time.Hour)
	elsewhere := request("u", "elsewhere")
	elsewhere.Node = "n2"
	for _, r := range []sandboxes.Request{old, elsewhere, request("u", "under-way"), request("u", "answered")} {
		_, err := s.Remember(ctx, r)
		must(t, err)
	}
	must(t, s.Answered(ctx, "u", "answered", []byte("1")))
	must(t, s.Answered(ctx, "u", "old", []byte("1")))
	must(t, s.ForgetBefore(ctx, at.Add(-time.Minute), "n1"))
	for key, kept := range map[string]bool{"old": false, "elsewhere": true, "under-way": false, "answered": true} {
		before, err := s.Remember(ctx, request("u", key))
		if err != nil || (before != nil) != kept {
			t.Errorf("%s: %+v, %v; kept should be %v", key, before, err, kept)
		}
	}
}

func longAnswersShrink(t *testing.T, s sandboxes.Store) {
	ctx := t.Context()
	later := request("u", "later")
	later.Made = at.Add(time.Hour)
	for _, r := range []sandboxes.Request{request("u", "short"), request("u", "long"), later} {
		_, err := s.Remember(ctx, r)
		must(t, err)
	}
	must(t, s.Answered(ctx, "u", "short", []byte(`"12345678"`)))
	must(t, s.Answered(ctx, "u", "long", []byte(`"123456789"`)))
	must(t, s.Answered(ctx, "u", "later", []byte(`"123456789"`)))
	must(t, s.ShrinkAnswers(ctx, at.Add(time.Minute), 10, []byte(`"x"`)))
	for key, want := range map[string]string{"short": `"12345678"`, "long": `"x"`, "later": `"123456789"`} {
		before, err := s.Remember(ctx, request("u", key))
		if err != nil || before == nil || string(before.Answer) != want {
			t.Errorf("%s: %+v, %v; want %s", key, before, err, want)
		}
	}
}

func oneOfManyIsFirst(t *testing.T, s sandboxes.Store) {
	var mu sync.Mutex
	firsts := 0
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			before, err := s.Remember(context.WithoutCancel(t.Context()), request("u", "k"))
			if err != nil {
				t.Error(err)
			}
			if before == nil && err == nil {
				mu.Lock()
				defer mu.Unlock()
				firsts++
			}
		})
	}
	all.Wait()
	if firsts != 1 {
		t.Errorf("%d requests were the first", firsts)
	}
}
