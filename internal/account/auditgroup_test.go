package account

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestAuditIsWrittenInGroups: entries that come while the disk is busy are
// written together, each is written once, and who added it learns the outcome.
func TestAuditIsWrittenInGroups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		writes, seen := 0, map[string]int{}
		broken := errors.New("disk on fire")
		g := &auditGroup{write: func(_ context.Context, entries []Entry) error {
			time.Sleep(10 * time.Millisecond) // the disk
			mu.Lock()
			defer mu.Unlock()
			writes++
			if len(entries) > groupMost {
				t.Errorf("%d entries in one transaction", len(entries))
			}
			for _, e := range entries {
				seen[e.ID]++
				if e.ID == "bad" {
					return broken
				}
			}
			return nil
		}}
		const n = 500
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				if err := g.add(t.Context(), []Entry{{ID: fmt.Sprint(i)}}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if writes > 1+(n+groupMost-1)/groupMost {
			t.Errorf("%d writes for %d entries", writes, n)
		}
		for id, times := range seen {
			if times != 1 {
				t.Errorf("entry %s was written %d times", id, times)
			}
		}
		if len(seen) != n {
			t.Errorf("%d of %d entries were written", len(seen), n)
		}
		if err := g.add(t.Context(), []Entry{{ID: "bad"}}); !errors.Is(err, broken) {
			t.Errorf("got %v, want the failure", err)
		}
		if err := g.add(t.Context(), []Entry{{ID: "good"}}); err != nil {
			t.Errorf("after a failure: %v", err)
		}
	})
}

// TestAuditOutlivesAStoreThatHung: who waited for their turn
// meanwhile still has the time to write, even where the request has ended.
func TestAuditOutlivesAStoreThatHung(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		back := time.Now().Add(auditLimit - time.Second)
		kept := 0
		g := &auditGroup{write: func(ctx context.Context, entries []Entry) error {
			// As long as the store is gone nobody hears from it.
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Until(back) + 2*time.Second):
			}
			kept += len(entries)
			return nil
		}}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		var wg sync.WaitGroup
		failed := make([]error, 2)
		wg.Go(func() { failed[0] = g.add(t.Context(), []Entry{{ID: "first"}}) })
		synctest.Wait()
		wg.Go(func() { failed[1] = g.add(ended, []Entry{{ID: "second"}}) })
		wg.Wait()
		if !errors.Is(failed[0], context.DeadlineExceeded) || failed[1] != nil || kept != 1 {
			t.Errorf("the first got %v, the second %v, %d are kept", failed[0], failed[1], kept)
		}
	})
}
