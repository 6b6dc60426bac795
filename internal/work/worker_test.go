package work_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"assay/internal/fault"
	"assay/internal/work"
	"assay/internal/work/worktest"
)

// handler does jobs of this test and notes what happened.
type handler struct {
	store work.Store
	run   func(ctx context.Context, j work.Job) error

	mu       sync.Mutex
	ran      []string
	gaveUp   []work.Job
	now, max int
}

func (h *handler) Run(ctx context.Context, j work.Job) error {
	h.mu.Lock()
	h.ran = append(h.ran, j.Ref)
	h.now++
	h.max = max(h.max, h.now)
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.now--
		h.mu.Unlock()
	}()
	if h.run != nil {
		if err := h.run(ctx, j); err != nil {
			return err
		}
	}
	return h.store.Finish(ctx, j.ID, j.Token, work.End{State: work.Done, At: time.Now()})
}

func (h *handler) GiveUp(ctx context.Context, j work.Job) error {
	h.mu.Lock()
	h.gaveUp = append(h.gaveUp, j)
	first := len(h.gaveUp) == 1
	h.mu.Unlock()
	if first {
		return errors.New("once it fails")
	}
	return h.store.Finish(ctx, j.ID, j.Token, work.End{State: work.Failed, Reason: j.Reason, At: time.Now()})
}

func (h *handler) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ran)
}

func newWorker(m *worktest.Memory, node string, h work.Handler) work.Worker {
	return work.Worker{Store: m, Wakes: m, Node: node, Handlers: map[string]work.Handler{"judge": h}, Capacity: 2}
}

// start runs a worker, or a heart; stop ends it and waits for it.
func start(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func enqueue(t *testing.T, m *worktest.Memory, refs ...string) {
	t.Helper()
	for i, ref := range refs {
		if err := m.Enqueue(t.Context(), work.Job{ID: ref, Kind: "judge", Ref: ref, Created: time.Now().Add(time.Duration(i))}); err != nil {
			t.Fatal(err)
		}
	}
}

func job(t *testing.T, m *worktest.Memory, id string) work.Job {
	t.Helper()
	j, err := m.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func sleep(d time.Duration) func(context.Context, work.Job) error {
	return func(ctx context.Context, _ work.Job) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(d):
			return nil
		}
	}
}

func TestWorkerFillsItsCapacityInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := worktest.NewMemory()
		h := &handler{store: m, run: sleep(10 * time.Second)}
		w := newWorker(m, "n", h)
		enqueue(t, m, "a", "b", "c", "d", "e")
		begin := time.Now()
		stop := start(t, w.Run)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		// Two at a time: nobody waited for a poll.
		for i, id := range []string{"a", "b", "c", "d", "e"} {
			want := time.Duration(i/2+1) * 10 * time.Second
			if j := job(t, m, id); j.State != work.Done || j.Ended.Sub(begin) != want {
				t.Errorf("%s is %s after %s, want done after %s", id, j.State, j.Ended.Sub(begin), want)
			}
		}
		if !slices.IsSorted([]string{h.ran[0], h.ran[2], h.ran[4]}) || h.max != 2 {
			t.Errorf("ran %v, %d at once", h.ran, h.max)
		}
		stop()
	})
}

func TestWorkerIsWokenOrLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := worktest.NewMemory()
		w := newWorker(m, "n", &handler{store: m})
		stop := start(t, w.Run)
		defer stop()
		synctest.Wait()
		for _, tt := range []struct {
			id   string
			wake bool
			want time.Duration
		}{{"woken", true, 0}, {"lost", false, 5 * time.Second}} {
			begin := time.Now()
			enqueue(t, m, tt.id)
			if tt.wake {
				m.Wake("judge")
			}
			time.Sleep(6 * time.Second)
			if j := job(t, m, tt.id); j.State != work.Done || j.Ended.Sub(begin) > tt.want {
				t.Errorf("%s: %s after %s, want done within %s", tt.id, j.State, j.Ended.Sub(begin), tt.want)
			}
		}
	})
}

func TestLongJobKeepsItsLeaseThroughAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := worktest.NewMemory()
		h := &handler{store: m, run: sleep(10 * time.Minute)}
		one, two := newWorker(m, "n1", h), newWorker(m, "n2", h)
		enqueue(t, m, "a")
		stopOne, stopTwo := start(t, one.Run), start(t, two.Run)
		for range 8 {
			time.Sleep(40 * time.Second)
			m.SetGone(true)
			time.Sleep(30 * time.Second)
			m.SetGone(false)
		}
		time.Sleep(2 * time.Minute)
		if j := job(t, m, "a"); j.State != work.Done || j.Tries != 0 || h.count() != 1 {
			t.Errorf("%+v after %d runs", j, h.count())
		}
		stopOne()
		stopTwo()
	})
}

// TestLostLease has a worker that cannot reach the store for longer than its
// lease: it stops before anybody else begins.
func TestLostLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := worktest.NewMemory()
		var cause error
		h := &handler{store: m, run: func(ctx context.Context, j work.Job) error {
			err := sleep(3*time.Minute)(ctx, j)
			if err != nil {
				cause = err
			}
			return err
		}}
		w := newWorker(m, "n", h)
		enqueue(t, m, "a")
		stop := start(t, w.Run)
		time.Sleep(time.Second)
		m.SetGone(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if !errors.Is(cause, work.ErrLost) {
			t.Errorf("the job ended because of %v", cause)
		}
		m.SetGone(false)
		time.Sleep(4 * time.Minute)
		if j := job(t, m, "a"); j.State != work.Done || j.Tries != 1 || h.count() != 2 {
			t.Errorf("%+v after %d runs", j, h.count())
		}
		stop()
	})
}

func TestCancelledJobEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := worktest.NewMemory()
		h := &handler{store: m, run: sleep(time.Hour)}
		w := newWorker(m, "n", h)
		enqueue(t, m, "a", "b", "c")
		stop := start(t, w.Run)
		synctest.Wait()
		if err := m.Cancel(t.Context(), "a", time.Now(), "not needed"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(21 * time.Second)
		if h.count() != 3 || job(t, m, "a").Reason != "not needed" {
			t.Errorf("%d began, %+v", h.count(), job(t, m, "a"))
		}
		stop()
	})
}

func TestTriedTooOftenIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := worktest.NewMemory()
		h := &handler{store: m}
		h.run = func(context.Context, work.Job) error {
			if h.count()%2 == 0 {
				panic("broken")
			}
			return errors.New("no machine")
		}
		w := newWorker(m, "n", h)
		w.MaxTries = 4
		enqueue(t, m, "a")
		stop := start(t, w.Run)
		time.Sleep(10 * time.Minute)
		j := job(t, m, "a")
		// Giving up failed once, too.
		if j.State != work.Failed || h.count() != 4 || len(h.gaveUp) != 2 || !strings.Contains(h.gaveUp[0].Reason, "broken") || h.gaveUp[1].Reason != "once it fails" {
			t.Errorf("%+v after %d runs, given up %v", j, h.count(), h.gaveUp)
		}
		stop()
	})
}

// TestOutageCostsNoTry has something be gone for longer than all tries take.
func TestOutageCostsNoTry(t *testing.T) {
	t.Parallel()
	for _, kind := range []fault.Kind{fault.Unavailable, fault.Exhausted} {
		synctest.Test(t, func(t *testing.T) {
			m := worktest.NewMemory()
			back := time.Now().Add(20 * time.Minute)
			h := &handler{store: m, run: func(context.Context, work.Job) error {
				if time.Now().Before(back) {
					return fault.Errorf(kind, "the disk is full")
				}
				return nil
			}}
			w := newWorker(m, "n", h)
			enqueue(t, m, "a")
			stop := start(t, w.Run)
			time.Sleep(10 * time.Minute)
			if j := job(t, m, "a"); j.State != work.Queued && j.State != work.Running || j.Tries != 0 {
				t.Errorf("%s: during the outage it is %+v", kind, j)
			}
			time.Sleep(10*time.Minute + 15*time.Second)
			if j := job(t, m, "a"); j.State != work.Done || j.Tries != 0 || len(h.gaveUp) != 0 {
				t.Errorf("%s: after the outage it is %+v", kind, j)
			}
			stop()
		})
	}
}

// TestNodeThatIsNotReadyTakesNothing leaves jobs to others meanwhile.
func TestNodeThatIsNotReadyTakesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := worktest.NewMemory()
		h := &handler{store: m}
		begin := time.Now()
		w := newWorker(m, "n", h)
		w.Ready = func() error {
			if time.Since(begin) < time.Minute {
				return errors.New("the disk is full")
			}
			return nil
		}
		enqueue(t, m, "a")
		stop := start(t, w.Run)
		time.Sleep(50 * time.Second)
		if j := job(t, m, "a"); j.State != work.Queued || j.Tries != 0 || h.count() != 0 {
			t.Errorf("it took %+v", j)
		}
		time.Sleep(20 * time.Second)
		if j := job(t, m, "a"); j.State != work.Done {
			t.Errorf("then it is %+v", j)
		}
		stop()
	})
}

// TestOutageForEverIsGivenUp has a job be the reason of its outage.
func TestOutageForEverIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := worktest.NewMemory()
		h := &handler{store: m, run: func(context.Context, work.Job) error { return fault.Errorf(fault.Exhausted, "too large a machine") }}
		w := newWorker(m, "n", h)
		enqueue(t, m, "a")
		stop := start(t, w.Run)
		time.Sleep(2 * time.Hour)
		if j := job(t, m, "a"); j.State != work.Failed || j.Tries < 5 {
			t.Errorf("it is %+v", j)
		}
		stop()
	})
}

func TestStopWaitsAndGivesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := worktest.NewMemory()
		h := &handler{store: m, run: func(ctx context.Context, j work.Job) error {
			if j.Ref == "short" {
				return sleep(time.Minute)(ctx, j)
			}
			return sleep(time.Hour)(ctx, j)
		}}
		w := newWorker(m, "n", h)
		w.Grace = 2 * time.Minute
		enqueue(t, m, "short", "long", "later")
		stop := start(t, w.Run)
		time.Sleep(time.Second)
		begin := time.Now()
		stop()
		if took := time.Since(begin); took != w.Grace {
			t.Errorf("it took %s to stop, want %s", took, w.Grace)
		}
		for id, want := range map[string]work.State{"short": work.Done, "long": work.Queued, "later": work.Queued} {
			if j := job(t, m, id); j.State != want || j.Tries != 0 || j.Node != "" && want == work.Queued {
				t.Errorf("%+v, want it to be %s", j, want)
			}
		}
	})
}

func newHeart(m *worktest.Memory, node string) work.Heart {
	return work.Heart{Store: m, Wakes: m, Node: work.Node{ID: node, Capacity: 2}}
}

// claimAs has a node hold a job without a worker, as if it had been killed.
func claimAs(t *testing.T, m *worktest.Memory, node string) {
	t.Helper()
	_, ok, err := m.Claim(t.Context(), work.Claim{Node: node, Kinds: []string{"judge"}, Token: node, Now: time.Now(), Until: time.Now().Add(time.Hour)})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
}

func TestDeadNodeLosesItsJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := worktest.NewMemory()
		one := newHeart(m, "n1")
		stop := start(t, one.Run)
		time.Sleep(time.Minute)
		if err := m.Beat(t.Context(), work.Node{ID: "n2", Seen: time.Now()}); err != nil {
			t.Fatal(err)
		}
		enqueue(t, m, "a")
		claimAs(t, m, "n2")
		time.Sleep(15 * time.Second)
		if j := job(t, m, "a"); j.State != work.Running {
			t.Errorf("too early: %+v", j)
		}
		time.Sleep(15 * time.Second)
		if j := job(t, m, "a"); j.State != work.Queued || j.Tries != 1 {
			t.Errorf("the job of a dead node: %+v", j)
		}
		nodes, err := m.Nodes(t.Context())
		if err != nil || len(nodes) != 2 || nodes[0].Dead(time.Now(), 5*time.Second) || !nodes[1].Dead(time.Now(), 5*time.Second) {
			t.Errorf("nodes are %+v, %v", nodes, err)
		}
		stop()
		if nodes, err = m.Nodes(t.Context()); err != nil || len(nodes) != 1 {
			t.Errorf("after its end nodes are %+v, %v", nodes, err)
		}
	})
}

func TestStartedAnewGivesItsOldJobsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := worktest.NewMemory()
		enqueue(t, m, "a")
		claimAs(t, m, "n1")
		one := newHeart(m, "n1")
		begun := 0
		one.Begun = func() {
			begun++
			if j := job(t, m, "a"); j.State != work.Queued || j.Tries != 1 {
				t.Errorf("got %+v", j)
			}
		}
		stop := start(t, one.Run)
		synctest.Wait()
		claimAs(t, m, "n1")
		time.Sleep(10 * time.Minute)
		if j := job(t, m, "a"); j.State != work.Running {
			t.Errorf("a living node lost its job: %+v", j)
		}
		stop()
		if begun != 1 {
			t.Errorf("it began %d times", begun)
		}
	})
}

// TestTwoProcessesAreNotOneNode: the one that was started first ends, and leaves
// the row to the other.
func TestTwoProcessesAreNotOneNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := worktest.NewMemory()
		first, second := newHeart(m, "n1"), newHeart(m, "n1")
		second.Node.Capacity = 7
		ended := make(chan error, 1)
		go func() { ended <- first.Run(t.Context()) }()
		time.Sleep(7 * time.Second)
		stop := start(t, second.Run)
		if err := <-ended; !fault.Is(err, fault.Conflict) || fault.HintOf(err) == "" {
			t.Errorf("the first one ended with %v", err)
		}
		time.Sleep(time.Minute)
		if nodes, err := m.Nodes(t.Context()); err != nil || len(nodes) != 1 || nodes[0].Capacity != 7 || nodes[0].Dead(time.Now(), 5*time.Second) {
			t.Errorf("nodes are %+v, %v", nodes, err)
		}
		stop()
	})
}

// TestOutageBuriesNobody has two nodes whose store is gone for longer than a node
// may be silent.
func TestOutageBuriesNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := worktest.NewMemory()
		var stops []func()
		for i := range 2 {
			h := newHeart(m, fmt.Sprintf("n%d", i))
			stops = append(stops, start(t, h.Run))
			// They beat at different times.
			time.Sleep(2 * time.Second)
		}
		enqueue(t, m, "a", "b")
		claimAs(t, m, "n0")
		claimAs(t, m, "n1")
		for range 3 {
			time.Sleep(time.Minute)
			m.SetGone(true)
			time.Sleep(45 * time.Second)
			m.SetGone(false)
		}
		time.Sleep(time.Minute)
		for _, id := range []string{"a", "b"} {
			if j := job(t, m, id); j.State != work.Running || j.Tries != 0 {
				t.Errorf("got %+v", j)
			}
		}
		for _, stop := range stops {
			stop()
		}
	})
}

func TestWorkerNeedsSomethingToDo(t *testing.T) {
	t.Parallel()
	w := work.Worker{Store: worktest.NewMemory(), Capacity: 1}
	if err := w.Run(t.Context()); !fault.Is(err, fault.Invalid) {
		t.Errorf("got %v", err)
	}
}

func TestBeatsTellTheLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := worktest.NewMemory()
		h := newHeart(m, "n1")
		count := 0
		h.Load = func() work.Load {
			count++
			return work.Load{Sandboxes: count, Memory: 100, Held: 7}
		}
		stop := start(t, h.Run)
		time.Sleep(12 * time.Second)
		nodes, err := m.Nodes(t.Context())
		if err != nil || len(nodes) != 1 || nodes[0].Load != (work.Load{Sandboxes: 3, Memory: 100, Held: 7}) {
			t.Errorf("nodes are %+v, %v", nodes, err)
		}
		stop()
	})
}

// deaf wakes are those of a bus that takes one kind only.
type deaf struct {
	work.Wakes
	kind string
}

func (d deaf) Waits(kind string) (<-chan struct{}, func(), error) {
	if kind != d.kind {
		return nil, nil, fault.Errorf(fault.Invalid, "%q is no kind of work", kind)
	}
	return d.Wakes.Waits(kind)
}

// TestKindThatCannotBeWaitedForEndsTheWorker: it says so at once, whichever kind
// comes first.
func TestKindThatCannotBeWaitedForEndsTheWorker(t *testing.T) {
	t.Parallel()
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			m := worktest.NewMemory()
			h := &handler{store: m}
			w := newWorker(m, "n", h)
			w.Wakes, w.Handlers = deaf{m, "judge"}, map[string]work.Handler{"judge": h, "grade": h}
			if err := w.Run(t.Context()); !fault.Is(err, fault.Invalid) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// hanging is a store whose first renewal gets no answer.
type hanging struct {
	*worktest.Memory
	renewals atomic.Int32
}

func (h *hanging) Renew(ctx context.Context, id, token string, until time.Time) error {
	if h.renewals.Add(1) == 1 {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.Memory.Renew(ctx, id, token, until)
}

// TestRenewalThatHangsIsAskedAgain: a connection that is dead and does not show
// it costs no lease.
func TestRenewalThatHangsIsAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := worktest.NewMemory()
		h := &handler{store: m, run: sleep(5 * time.Minute)}
		w := newWorker(m, "n", h)
		w.Store = &hanging{Memory: m}
		enqueue(t, m, "a")
		stop := start(t, w.Run)
		time.Sleep(6 * time.Minute)
		if j := job(t, m, "a"); j.State != work.Done || j.Tries != 0 || h.count() != 1 {
			t.Errorf("%+v after %d runs", j, h.count())
		}
		stop()
	})
}
