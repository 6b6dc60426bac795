package sandboxes_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
	"assay/internal/sandboxes"
)

// TestRetriedCreateMakesOne: many requests with one key, at once and later, make
// one sandbox.
func TestRetriedCreateMakesOne(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	ann := e.as("ann", account.Member)
	req := sandboxes.CreateRequest{Template: "base", Key: "k1"}
	ids := make([]string, 8)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			r, err := e.Create(ann, req)
			if err != nil {
				t.Error(err)
			}
			ids[i] = r.ID
		})
	}
	all.Wait()
	again, err := e.Create(ann, req)
	if err != nil || again.Template != "base" || again.Shape.Disk == 0 {
		t.Errorf("later: %+v, %v", again, err)
	}
	for _, id := range ids {
		if id != again.ID {
			t.Errorf("made %s and %s", id, again.ID)
		}
	}
	other := req
	other.Name = "other"
	if _, err := e.Create(ann, other); !errors.Is(err, sandboxes.ErrKeyReused) || !fault.Is(err, fault.Conflict) {
		t.Errorf("another request with the key: %v", err)
	}
	if r, err := e.Create(e.as("bob", account.Member), req); err != nil || r.ID == again.ID {
		t.Errorf("somebody else's key: %+v, %v", r, err)
	}
	// Keys outlive the server.
	must(t, e.Close())
	e.open()
	if r, err := e.Create(ann, req); err != nil || r.ID != again.ID {
		t.Errorf("after a restart: %+v, %v", r, err)
	}
	// What was refused may be tried again.
	bad := sandboxes.CreateRequest{Template: "unbuilt", Key: "k2"}
	_, err = e.Create(ann, bad)
	wantKind(t, "refused", err, fault.Conflict)
	bad.Template = "base"
	if _, err := e.Create(ann, bad); err != nil {
		t.Errorf("corrected: %v", err)
	}
}

// TestRetriedExecRunsOnce: the command appends a line, and the caller goes away
// in the middle.
func TestRetriedExecRunsOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	ann := e.as("ann", account.Member)
	r := e.create(ann, nil)
	slow := sandboxes.ExecRequest{Argv: []string{"probe", "tick", "3", "500ms"}, Key: "slow"}
	ctx, cancel := context.WithCancel(ann)
	e.store.remembered = func(string) { cancel() } // when it is sure to be carried out
	if _, err := e.Exec(ctx, r.ID, slow); !errors.Is(err, context.Canceled) {
		t.Fatalf("the caller that went away got %v", err)
	}
	first, err := e.Exec(ann, r.ID, slow) // attaches, or gets the answer
	if err != nil || first.Result.Exit.Cause != guest.Exited || strings.Count(string(first.Stdout), "\n") != 3 {
		t.Fatalf("%q, %+v, %v", first.Stdout, first.Result.Exit, err)
	}
	for range 2 {
		if _, err := e.Exec(ann, r.ID, sandboxes.ExecRequest{Argv: []string{"probe", "append", "/tmp/log", "line"}, Key: "append"}); err != nil {
			t.Fatal(err)
		}
	}
	read, err := e.Exec(ann, r.ID, sandboxes.ExecRequest{Argv: []string{"probe", "read", "/tmp/log"}})
	if err != nil || strings.Count(string(read.Stdout), "line") != 1 {
		t.Errorf("the log has %q, %v; want one line", read.Stdout, err)
	}
	log, err := e.Events(ann, r.ID)
	must(t, err)
	execs := 0
	for _, ev := range log {
		if ev.Kind == "exec" {
			execs++
		}
	}
	if execs != 3 {
		t.Errorf("%d commands ran, want 3", execs)
	}
	must(t, e.Kill(ann, r.ID))
	e.ended(ann, r.ID)
	again, err := e.Exec(ann, r.ID, slow)
	if err != nil || string(again.Stdout) != string(first.Stdout) || again.Result.Usage != first.Result.Usage {
		t.Errorf("after the end: %q %+v, %v; want %+v", again.Stdout, again.Result, err, first.Result)
	}
}

func TestCode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		exit sandbox.Exit
		want int
	}{
		{sandbox.Exit{Code: 0, Cause: guest.Exited}, 0},
		{sandbox.Exit{Code: 3, Cause: guest.Exited}, 3},
		{sandbox.Exit{Code: -1, Signal: 9, Cause: guest.WallLimit}, 124},
		{sandbox.Exit{Code: -1, Signal: 11, Cause: guest.Signaled}, 139},
		{sandbox.Exit{Code: -1, Signal: 9, Cause: guest.MemoryLimit}, 137},
		{sandbox.Exit{Code: -1, Cause: guest.MachineLost}, 137},
	} {
		if got := sandboxes.Code(tt.exit); got != tt.want {
			t.Errorf("%+v: %d, want %d", tt.exit, got, tt.want)
		}
	}
}

func TestTextKeepsCharacters(t *testing.T) {
	t.Parallel()
	const said = "aé漢🦊\n\xff\xfeß"
	for size := 1; size <= len(said); size++ {
		var pieces []string
		w := sandboxes.NewText(func(b []byte) error { pieces = append(pieces, string(b)); return nil })
		for rest := said; rest != ""; {
			n := min(size, len(rest))
			if _, err := w.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		must(t, w.Flush())
		if strings.Join(pieces, "") != said {
			t.Errorf("pieces of %d: %q", size, pieces)
		}
		for _, p := range pieces {
			if clean := strings.NewReplacer("\xff", "", "\xfe", "").Replace(p); strings.ToValidUTF8(clean, "?") != clean {
				t.Errorf("pieces of %d cut a character: %q", size, pieces)
			}
		}
	}
}
