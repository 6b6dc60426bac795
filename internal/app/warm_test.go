package app

import (
	"archive/tar"
	"bytes"
	"strings"
	"sync"
	"testing"

	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/sandbox"
)

// warmProgram says that it is ready, and then answers each line with its own
// process's number of starts, random bytes, and a file that came later.
const warmProgram = `
import os, sys
os.write(1, b"ready\n")
for line in sys.stdin:
    with open("/w/late.txt") as f:
        print(line.strip(), os.urandom(8).hex(), f.read().strip(), flush=True)
`

func warmOf(t *testing.T, program string) *judge.Warm {
	t.Helper()
	var tree bytes.Buffer
	w := tar.NewWriter(&tree)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "p.py", Mode: 0o644, Size: int64(len(program))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(program)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &judge.Warm{
		Dir: "/w", Tree: tree.Bytes(), Ready: []byte("ready\n"),
		Exec: sandbox.ExecSpec{Key: "warm", Argv: []string{"python3", "-u", "/w/p.py"}, Dir: "/", Isolated: true, Limits: sandbox.Limits{Memory: 64 << 20}},
	}
}

// TestWarmMachines: machines that begin in a warm state go on with its program,
// each for itself.
func TestWarmMachines(t *testing.T) {
	e := withJudge(t)
	warm := warmOf(t, warmProgram)
	var mu sync.Mutex
	said := map[string]bool{}
	var group sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		group.Go(func() {
			m, err := judgeMachines{e}.Create(t.Context(), judge.MachineRequest{Template: "base", Warm: warm})
			if err != nil {
				t.Error(err)
				return
			}
			defer func() {
				if err := m.Destroy(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			if err := m.WriteFile(t.Context(), "/w/late.txt", strings.NewReader("for "+name), 0o644); err != nil {
				t.Error(err)
				return
			}
			var out bytes.Buffer
			res, err := m.Exec(t.Context(), warm.Exec, strings.NewReader(name+"\n"), &out, nil)
			if err != nil || res.Exit.Code != 0 {
				t.Errorf("exit %+v, %v", res.Exit, err)
			}
			fields := strings.Fields(out.String())
			if len(fields) != 5 || fields[0] != "ready" || fields[1] != name || fields[4] != name {
				t.Errorf("%s: output %q", name, out.String())
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if said[fields[2]] {
				t.Errorf("two machines have the same random bytes %s", fields[2])
			}
			said[fields[2]] = true
		})
	}
	group.Wait()
	if n := len(e.warm.states); n != 1 {
		t.Errorf("%d warm states were made for one request", n)
	}
	snaps, err := e.Manager.Snapshots()
	if err != nil || len(snaps) != 1 {
		t.Errorf("%d snapshots, %v", len(snaps), err)
	}
}

// TestWarmProgramFails: what does not get ready is said, and kept by nobody.
func TestWarmProgramFails(t *testing.T) {
	e := withJudge(t)
	for name, program := range map[string]string{"ends": "import sys; sys.exit('no such thing')", "says something else": "print('hello')"} {
		_, err := judgeMachines{e}.Create(t.Context(), judge.MachineRequest{Template: "base", Warm: warmOf(t, program)})
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(e.warm.states) != 0 {
		t.Errorf("%d states are kept", len(e.warm.states))
	}
	if list := e.Manager.List(); len(list) != 0 {
		t.Errorf("%d machines live", len(list))
	}
}
