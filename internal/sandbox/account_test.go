package sandbox_test

import (
	"testing"
	"testing/synctest"
	"time"

	"assay/internal/fault"
)

// TestAccountOutlivesTheMachine: what a sandbox used, why it ended and its log
// are known after its end.
func TestAccountOutlivesTheMachine(t *testing.T) {
	bubble(t, nil, func(e *env) {
		s := e.create(nil)
		id := s.Info().ID
		if why := s.EndReason(); why != "" {
			e.t.Errorf("a live sandbox ended because %q", why)
		}
		run1(e.t, s, "probe", "spin", "2s")
		if err := s.Destroy(); err != nil {
			e.t.Fatal(err)
		}
		if got := s.Usage().CPU; got < 2*time.Second {
			e.t.Errorf("used %v, want 2s at least", got)
		}
		if why := s.EndReason(); why != "destroyed" {
			e.t.Errorf("ended because %q", why)
		}
		log, err := e.Events(id)
		if err != nil || len(log) != 3 || log[2].Kind != "ended" {
			e.t.Errorf("log %+v, %v", log, err)
		}
		for _, none := range []string{"", "nobody", "../run/lock", "."} {
			_, err := e.Events(none)
			wantKind(e.t, "events of "+none, err, fault.NotFound)
		}
	})
}

func TestIdleLimitCanBeChanged(t *testing.T) {
	bubble(t, nil, func(e *env) {
		s := e.create(nil)
		wantKind(e.t, "a negative limit", s.SetIdleLimit(-1), fault.Invalid)
		must(e.t, s.SetIdleLimit(10*time.Second))
		time.Sleep(9 * time.Second)
		must(e.t, s.SetIdleLimit(time.Minute)) // is a use, too
		time.Sleep(50 * time.Second)
		must(e.t, s.SetIdleLimit(0))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if why := s.EndReason(); why != "" {
			e.t.Fatalf("it ended: %s", why)
		}
		must(e.t, s.SetIdleLimit(time.Second))
		<-s.Ended()
		wantKind(e.t, "after its end", s.SetIdleLimit(time.Second), fault.Conflict)
	})
}
