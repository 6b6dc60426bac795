package app

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"assay/internal/guest"
	"assay/internal/sandbox"
)

// keepingEngine has one persistent sandbox that counts, with a command that its
// caller waits for, and one that is not persistent.
func keepingEngine(dir string) error {
	ctx := context.Background()
	e, err := OpenEngine(ctx, Config{DataDir: dir, BinDir: os.Getenv("ASSAY_BIN"), Keeper: crashKeeper})
	if err != nil {
		return err
	}
	t, err := e.Template(ctx, "base", nil)
	if err != nil {
		return err
	}
	if _, err := e.Manager.Create(ctx, sandbox.Spec{Template: &t}); err != nil {
		return err
	}
	s, err := e.Manager.Create(ctx, sandbox.Spec{Template: &t, Persistent: true, Metadata: map[string]string{"k": "v"}})
	if err != nil {
		return err
	}
	const count = `n=0; while :; do n=$((n+1)); echo $n >/tmp/new; mv /tmp/new /tmp/count; echo $n; sleep 0.02; done`
	said := lineTeller{said: make(chan struct{})}
	failed := make(chan error, 1)
	go func() {
		_, err := s.Exec(ctx, sandbox.ExecSpec{Argv: []string{"/bin/sh", "-c", count}}, guest.IO{Stdout: &said})
		failed <- err
	}()
	select {
	case <-said.said:
	case err := <-failed:
		return fmt.Errorf("the counter ended: %w", err)
	}
	fmt.Println(s.Info().ID)
	return <-failed
}

// lineTeller says when the first bytes have come.
type lineTeller struct {
	said chan struct{}
	done bool
}

func (l *lineTeller) Write(p []byte) (int, error) {
	if !l.done {
		l.done = true
		close(l.said)
	}
	return len(p), nil
}

// TestAdoptedAfterKill: kill -9 in the middle of a command. The next engine has
// the persistent sandbox as it was, and its program goes on; all else is gone.
func TestAdoptedAfterKill(t *testing.T) {
	dir := testData(t)
	before := map[string]bool{}
	for _, l := range leftovers(t, dir) {
		before[l] = true
	}
	child, id := startChild(t, dir, keepOne)
	if id == "" {
		t.Fatal("the child has no sandbox")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	open := func(keeper string) *Engine {
		t.Helper()
		e, err := OpenEngine(t.Context(), Config{DataDir: dir, BinDir: os.Getenv("ASSAY_BIN"), Keeper: keeper})
		if err != nil {
			t.Fatalf("open after the crash: %v", err)
		}
		return e
	}
	closed := func(e *Engine) {
		t.Helper()
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	passer := open("") // another command of the same data directory
	if r, a := passer.Manager.Reclaimed(), passer.Manager.Adopted(); r != 1 || a != 0 {
		t.Errorf("who adopts nothing reclaimed %d and adopted %d", r, a)
	}
	closed(passer)

	count, cpu := 0, time.Duration(0)
	for round := range 2 { // after the kill, and after an orderly end
		e := open(crashKeeper)
		if e.Manager.Adopted() != 1 {
			t.Fatalf("round %d: adopted %d", round, e.Manager.Adopted())
		}
		s, err := e.Manager.Get(id)
		if err != nil {
			t.Fatal(err)
		}
		if s.Info().Metadata["k"] != "v" || !s.Info().Persistent {
			t.Errorf("round %d: %+v", round, s.Info())
		}
		first := counted(t, s)
		if first < count {
			t.Errorf("round %d: the counter stands at %d, it was at %d", round, first, count)
		}
		for count = first; count <= first; count = counted(t, s) { // it goes on
			if t.Context().Err() != nil {
				t.Fatal("the counter stands still")
			}
		}
		used := s.Usage().CPU
		if used < cpu || used == 0 {
			t.Errorf("round %d: %v of CPU were used, %v before", round, used, cpu)
		}
		cpu = used
		if round == 1 {
			if err := s.Destroy(); err != nil {
				t.Error(err)
			}
		}
		closed(e)
	}
	for _, l := range leftovers(t, dir) {
		if !before[l] {
			t.Errorf("left behind: %s", l)
		}
	}
}

// counted reads the counter in a sandbox.
func counted(t *testing.T, s *sandbox.Sandbox) int {
	t.Helper()
	var out bytes.Buffer
	res, err := s.Exec(t.Context(), sandbox.ExecSpec{Argv: []string{"cat", "/tmp/count"}, Limits: sandbox.Limits{Wall: time.Minute}}, guest.IO{Stdout: &out})
	if err != nil || res.Exit.Code != 0 {
		t.Fatalf("read the counter: %+v, %v", res.Exit, err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
