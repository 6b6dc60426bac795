package app

import (
	"testing"
	"time"

	"assay/client"
	"assay/internal/account"
	"assay/internal/config"
	"assay/internal/fault"
	"assay/internal/judging"
	"assay/internal/work"
)

// states counts the jobs of judging by state.
func states(t *testing.T, s work.Store) map[work.State]int {
	t.Helper()
	counts, err := s.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[work.State]int{}
	for _, c := range counts {
		if c.Kind == judging.JobKind {
			got[c.State] = c.Jobs
		}
	}
	return got
}

// endSubmissions is how many submissions TestServerEndsWell has.
const endSubmissions = 5

// TestServerEndsWell has a server be asked to end while it judges: with time it
// finishes what runs, without it hands that back; in both cases the next one
// goes on, and no try is lost.
func TestServerEndsWell(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, b *backing) {
		dir := testData(t)
		begin := func(drain time.Duration) *rig {
			c := b.config()
			// No pause of the host must cost a lease, and with it a try.
			c.Jobs, c.Drain, c.Lease = 1, drain, patience
			return start(t, dir, c)
		}
		r := begin(patience)
		upload(t, r.as(t, "staff", account.Staff), "sum", sum(t, secretAnswer))
		token := tokenOf(t, r.Accounts, "alice", account.Member)
		connect := func() *client.ClientWithResponses {
			c, err := client.Connect(r.base, token)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		db := openDB(t, b, dir)
		var ids []string
		// Enough that some wait still, however late the end comes.
		for range endSubmissions {
			ids = append(ids, submit(t, connect(), slowSum).ID)
		}
		eventually(t, "one is judged", func() bool { return states(t, db.Work())[work.Running] == 1 })
		r.end(t)
		got := states(t, db.Work())
		if got[work.Running] != 0 || got[work.Done] == 0 || got[work.Queued] == 0 {
			t.Errorf("after an end with time the jobs are %v, want the one that ran to be done and others to wait", got)
		}

		r = begin(time.Nanosecond)
		var done int
		eventually(t, "one is judged", func() bool {
			got := states(t, db.Work())
			done = got[work.Done]
			return got[work.Running] == 1
		})
		r.end(t)
		if got := states(t, db.Work()); got[work.Running] != 0 || got[work.Done]+got[work.Queued] != endSubmissions || got[work.Done] > done+1 {
			t.Errorf("after an end without time the jobs are %v", got)
		}

		r = begin(patience)
		for _, id := range ids {
			if got := verdict(t, connect(), id).Run; got.Verdict != "AC" || got.Tries != 1 {
				t.Errorf("got %s at try %d", got.Verdict, got.Tries)
			}
		}
	})
}

// TestNameIsOneProcess has a server be started with the name of another one.
func TestNameIsOneProcess(t *testing.T) {
	t.Parallel()
	b := elsewhere(t)
	c := b.config()
	c.Node, c.Lease = "same", 2*time.Second
	first := start(t, testData(t), c)
	second := start(t, testData(t), c)
	select {
	case err := <-first.ended:
		if !fault.Is(err, fault.Conflict) {
			t.Errorf("the first one ended with %v", err)
		}
		first.ended <- nil
	case <-time.After(patience):
		t.Error("the first one goes on")
	}
	alice := second.as(t, "alice", account.Member)
	upload(t, second.as(t, "staff", account.Staff), "sum", sum(t, secretAnswer))
	if got := verdict(t, alice, submit(t, alice, rightSum).ID).Run; got.Verdict != "AC" {
		t.Errorf("the second one says %s (%s)", got.Verdict, got.Reason)
	}
}

// TestSecondNodeTakesOver has a node vanish with a job in its hands: its lease
// runs out, and another node judges.
func TestSecondNodeTakesOver(t *testing.T) {
	t.Parallel()
	b := elsewhere(t)
	node := func(name, role string, jobs int) config.Server {
		c := b.config()
		c.Node, c.Role, c.Jobs, c.Lease = name, role, jobs, 2*time.Second
		return c
	}
	one := start(t, testData(t), node("one", "all", 1))
	staff := one.as(t, "staff", account.Staff)
	upload(t, staff, "sum", sum(t, secretAnswer))
	alice := one.as(t, "alice", account.Member)
	// The one that vanishes is there for the store only: it claims, and says
	// nothing more.
	db := openDB(t, b, "")
	now := time.Now()
	if err := db.Work().Beat(t.Context(), work.Node{ID: "gone", Seen: now, Started: now}); err != nil {
		t.Fatal(err)
	}
	var first []client.Submission
	var lost work.Job
	for claimed := false; !claimed; {
		// The other one may be quicker: then there is more to come.
		first = append(first, submit(t, alice, slowSum), submit(t, alice, slowSum))
		now := time.Now()
		var err error
		lost, claimed, err = db.Work().Claim(t.Context(), work.Claim{Node: "gone", Kinds: []string{judging.JobKind}, Token: work.NewID(), Now: now, Until: now.Add(2 * time.Second)})
		if err != nil {
			t.Fatal(err)
		}
	}
	two := start(t, testData(t), node("two", "node", 2))
	for _, sub := range first {
		if got := verdict(t, alice, sub.ID).Run; got.Verdict != "AC" {
			t.Errorf("got %s (%s)", got.Verdict, got.Reason)
		}
	}
	// A node that had to pause for longer than this short lease costs a try more.
	if job, err := db.Work().Job(t.Context(), lost.ID); err != nil || job.State != work.Done || job.Tries < 1 {
		t.Errorf("the job that was lost: %+v, %v", job, err)
	}
	// Both nodes show, and share what comes.
	by := map[string]int{}
	for range 4 {
		var subs []client.Submission
		for range 4 {
			subs = append(subs, submit(t, alice, slowSum))
		}
		for _, sub := range subs {
			verdict(t, alice, sub.ID)
			r, err := staff.GetSubmissionWithResponse(t.Context(), sub.ID, nil)
			must(t, r, err)
			by[r.JSON200.Run.Node]++
		}
		if by["one"] > 0 && by["two"] > 0 {
			break
		}
	}
	if by["one"] == 0 || by["two"] == 0 {
		t.Errorf("who judged: %v, want both nodes", by)
	}
	// One that lives may look dead while the host is busy, the lost one never
	// lives again.
	eventually(t, "both nodes are seen to live", func() bool {
		nodes, err := one.db.Work().Nodes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		alive := map[string]bool{}
		for _, n := range nodes {
			alive[n.ID] = !n.Dead(time.Now(), 2*time.Second/heartbeat)
		}
		if alive["gone"] {
			t.Fatalf("who lives: %v", alive)
		}
		return alive["one"] && alive["two"]
	})
	two.end(t)
	if got := verdict(t, alice, submit(t, alice, rightSum).ID).Run; got.Verdict != "AC" {
		t.Errorf("after the second node has left: %s", got.Verdict)
	}
}
