package app

import (
	"net/http"
	"path/filepath"
	"testing"

	"assay/client"
	"assay/internal/account"
	"assay/internal/require"
)

// TestServerAdopts: a persistent sandbox is there after its server was killed,
// and after it was stopped, with its owner and its account; its end is an end.
func TestServerAdopts(t *testing.T) {
	t.Parallel()
	onAllStores(t, serverAdopts)
}

func serverAdopts(t *testing.T, b *backing) {
	bin := require.Binaries(t)
	dir := testData(t)
	before := map[string]bool{}
	for _, l := range leftovers(t, dir) {
		before[l] = true
	}
	db := openDB(t, b, dir)
	accounts, err := account.New(db.Accounts(), account.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	server := &process{program: filepath.Join(bin, "assay"), dir: dir, listen: freeAddress(t), b: b}
	t.Cleanup(server.kill)
	base := "http://" + server.listen
	begin := func() {
		t.Helper()
		server.start(t)
		eventually(t, "the server answers", func() bool { return answers(t, base) })
	}
	begin()
	alice := as(t, accounts, base, "alice", account.Member)
	create := func(persistent bool) client.Sandbox {
		t.Helper()
		a, err := alice.CreateSandboxWithResponse(t.Context(), nil, client.SandboxCreate{Template: "base", Persistent: persistent})
		must(t, a, err)
		return *a.JSON201
	}
	get := func(id string) client.Sandbox {
		t.Helper()
		a, err := alice.GetSandboxWithResponse(t.Context(), id)
		must(t, a, err)
		return *a.JSON200
	}
	run := func(id, command string) string {
		t.Helper()
		a, err := alice.ExecSandboxWithResponse(t.Context(), id, nil, client.Exec{Command: command})
		must(t, a, err)
		return a.JSON200.Stdout
	}
	kept, other := create(true), create(false)
	if !kept.Persistent || other.Persistent {
		t.Errorf("persistent %v, another %v", kept.Persistent, other.Persistent)
	}
	run(kept.ID, "echo hello >/tmp/note; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	used := get(kept.ID).Usage.CPUUs
	for _, end := range []func(){server.kill, func() { server.end(t) }} {
		end()
		begin()
		got := get(kept.ID)
		if got.State != client.SandboxStateRunning || !got.Persistent || got.DeadlineAt.Sub(kept.DeadlineAt).Abs() > 1e6 {
			t.Errorf("after a restart %+v, made as %+v", got, kept)
		}
		if got.Usage.CPUUs < used {
			t.Errorf("it has used %d, and %d before the restart", got.Usage.CPUUs, used)
		}
		used = got.Usage.CPUUs
		if said := run(kept.ID, "cat /tmp/note"); said != "hello\n" {
			t.Errorf("the file says %q", said)
		}
		if state := get(other.ID).State; state != client.SandboxStateEnded {
			t.Errorf("the one that is not persistent is %s", state)
		}
	}
	if a, err := alice.KillSandboxWithResponse(t.Context(), kept.ID); err != nil || a.StatusCode() != http.StatusNoContent {
		t.Errorf("kill: %v, %v", a, err)
	}
	// The account is what the machine used, once: not twice after two restarts.
	end := get(kept.ID)
	if end.State != client.SandboxStateEnded || end.Usage.CPUUs < used || end.Usage.CPUUs > 2*used+1_000_000 {
		t.Errorf("at the end %+v, it had used %d", end, used)
	}
	server.end(t)
	for _, l := range leftovers(t, dir) {
		if !before[l] {
			t.Errorf("left behind: %s", l)
		}
	}
}
