package gvisor

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"assay/internal/fault"
	"assay/internal/guest"
)

// collect reads events until stop says so.
func collect(t *testing.T, w *guest.Watch, stop func(map[string]guest.Event) bool) map[string]guest.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), guestPatience)
	defer cancel()
	got := map[string]guest.Event{}
	for last := w.Last(); !stop(got); {
		e, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("%v after %d paths", err, len(got))
		}
		// An overflow stands for all that was lost, once more if this reader is slow.
		if e.Seq != last+1 && e.Op != guest.EventOverflow {
			t.Errorf("event %d follows %d", e.Seq, last)
		}
		last = e.Seq
		// What was created in one window may be modified in the next.
		before := got[e.Path]
		if e.Count += before.Count; before.Op == guest.EventCreated && e.Op == guest.EventModified {
			e.Op = guest.EventCreated
		}
		got[e.Path] = e
	}
	return got
}

func seen(paths ...string) func(map[string]guest.Event) bool {
	return func(got map[string]guest.Event) bool {
		for _, p := range paths {
			if _, ok := got[p]; !ok {
				return false
			}
		}
		return true
	}
}

func TestWatch(t *testing.T) {
	b := newBox(t)
	b.sh("mkdir -p /home/user/w/sub/deep /home/user/w/node_modules/m /home/user/elsewhere")
	w, err := b.Client.Watch(b.ctx, guest.WatchSpec{Dir: "/home/user/w", Exclude: []string{"node_modules/**", "*.tmp", "**/skip"}})
	if err != nil {
		t.Fatal(err)
	}
	b.sh(`cd /home/user/w
		echo x > node_modules/m/f; echo x > a.tmp; mkdir sub/skip; echo x > sub/skip/f
		for i in $(seq 200); do echo $i > sub/f$i; done
		mkdir -p new/er; echo x > new/er/f; echo last > last`)
	got := collect(t, w, seen("last"))
	for i := range 200 {
		if e := got[fmt.Sprintf("sub/f%d", i+1)]; e.Op != guest.EventCreated || e.Type != guest.TypeFile || e.Count < 2 {
			t.Errorf("sub/f%d: %+v", i+1, e)
		}
	}
	for _, p := range []string{"new", "new/er", "new/er/f"} {
		if got[p].Op != guest.EventCreated {
			t.Errorf("%s: %+v", p, got[p])
		}
	}
	for p := range got {
		if strings.HasPrefix(p, "node_modules/") || strings.HasSuffix(p, ".tmp") || strings.Contains(p, "skip") {
			t.Errorf("excluded: %s", p)
		}
	}

	// The host's own writing shows once, under its name.
	b.write("/home/user/w/host", "x")
	got = collect(t, w, seen("host"))
	if len(got) != 1 || got["host"].Op != guest.EventCreated {
		t.Errorf("the host's write: %+v", got)
	}

	// Renames: the new paths are watched, the old ones are not.
	b.sh(`cd /home/user/w; mv new moved; rm last; chmod 600 sub/f1; mv sub/deep ../elsewhere/; mv sub/f2 sub/g2`)
	got = collect(t, w, seen("new", "moved", "moved/er/f", "last", "sub/f1", "sub/deep", "sub/f2", "sub/g2"))
	for p, op := range map[string]guest.EventOp{
		"new": guest.EventRemoved, "moved": guest.EventCreated, "last": guest.EventRemoved, "sub/f1": guest.EventModified,
		"sub/deep": guest.EventRemoved, "sub/f2": guest.EventRemoved, "sub/g2": guest.EventCreated,
	} {
		if got[p].Op != op {
			t.Errorf("%s: %+v, want %s", p, got[p], op)
		}
	}

	// A broken session loses nothing; a detached watch goes on.
	b.Break()
	b.sh(`cd /home/user/w; echo x >> ../elsewhere/deep/unseen; echo x > moved/er/g; echo x > broken`)
	got = collect(t, w, seen("moved/er/g", "broken"))
	if len(got) != 2 {
		t.Errorf("after a rename: %+v", got)
	}
	last := w.Last()
	w.Detach()
	b.sh("echo x > /home/user/w/detached")
	w, err = b.AttachWatch(b.ctx, w.ID(), last)
	if err != nil {
		t.Fatal(err)
	}
	collect(t, w, seen("detached"))

	// More events than are kept, while nobody reads.
	last = w.Last()
	w.Detach()
	b.sh(`cd /home/user/w; mkdir many; for n in 1 2 3; do seq -f "many/$n-%g" 2000 | xargs touch; sleep 0.2; done; touch end`)
	w, err = b.AttachWatch(b.ctx, w.ID(), last)
	if err != nil {
		t.Fatal(err)
	}
	e, err := w.Next(b.ctx)
	if err != nil || e.Op != guest.EventOverflow || e.Reason == "" {
		t.Errorf("%+v, %v", e, err)
	}
	collect(t, w, seen("end"))
	if err := w.Close(b.ctx); err != nil {
		t.Error(err)
	}
	if _, err := b.AttachWatch(b.ctx, w.ID(), 0); !fault.Is(err, fault.NotFound) {
		t.Errorf("a closed watch: %v", err)
	}
	if _, err := b.Client.Watch(b.ctx, guest.WatchSpec{Dir: "/home/user/none"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("a directory that is not there: %v", err)
	}
}
