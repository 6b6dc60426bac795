package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
	"assay/internal/sandbox/fake"
)

func TestCreate(t *testing.T) {
	bubble(t, nil, func(e *env) {
		meta := map[string]string{"for": "test"}
		spec := e.spec()
		spec.Metadata, spec.IdleLimit = meta, time.Hour
		s, err := e.Create(e.t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		meta["for"] = "changed later"
		i := s.Info()
		if i.BootMode != sandbox.BootSnapshot || i.Template != "base" || i.TemplateDigest != "sha256:base" || i.Driver != "fake" ||
			i.Shape != shape || i.Metadata["for"] != "test" || !i.Deadline.Equal(i.Created.Add(sandbox.DefaultDeadline)) {
			t.Errorf("info %+v", i)
		}
		if res := run1(e.t, s, "true"); res.Exit.Cause != guest.Exited || res.Exit.Code != 0 {
			t.Errorf("exec: %+v", res.Exit)
		}
		cold := e.create(func(s *sandbox.Spec) { s.Cold = true })
		if mode := cold.Info().BootMode; mode != sandbox.BootCold {
			t.Errorf("boot mode %q, want cold", mode)
		}
		// Two machines of one snapshot are no twins, and generations grow.
		a, b := identity(e.t, s), identity(e.t, e.create(nil))
		if a[0] == b[0] || a[1] == b[1] {
			t.Errorf("identities %v and %v", a, b)
		}
		if s.Guest() == nil || len(e.List()) != 3 {
			t.Errorf("%d sandboxes, want 3", len(e.List()))
		}
	})
}

// identity is a sandbox's host name and machine ID.
func identity(t *testing.T, s *sandbox.Sandbox) []string {
	t.Helper()
	var out strings.Builder
	if _, err := s.Exec(t.Context(), sandbox.ExecSpec{Argv: []string{"probe", "identity"}}, guest.IO{Stdout: &out}); err != nil {
		t.Error(err)
	}
	f := strings.Fields(out.String())
	if len(f) != 2 {
		t.Fatalf("identity %q", out.String())
	}
	return f
}

func TestCreateRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		spec func(e *env) sandbox.Spec
		kind fault.Kind
	}{
		{"nothing", func(*env) sandbox.Spec { return sandbox.Spec{} }, fault.Invalid},
		{"template-and-snapshot", func(e *env) sandbox.Spec { s := e.spec(); s.Snapshot = "x"; return s }, fault.Invalid},
		{"cold-snapshot", func(*env) sandbox.Spec { return sandbox.Spec{Snapshot: "x", Cold: true} }, fault.Invalid},
		{"deadline-passed", func(e *env) sandbox.Spec { s := e.spec(); s.Deadline = time.Now(); return s }, fault.Invalid},
		{"negative-idle-limit", func(e *env) sandbox.Spec { s := e.spec(); s.IdleLimit = -1; return s }, fault.Invalid},
		{"unknown-snapshot", func(*env) sandbox.Spec { return sandbox.Spec{Snapshot: "nope"} }, fault.NotFound},
		{"no-image", func(e *env) sandbox.Spec { e.template.Image += ".gone"; return e.spec() }, fault.NotFound},
		{"no-image-cold", func(e *env) sandbox.Spec { e.template.Image += ".gone"; s := e.spec(); s.Cold = true; return s }, fault.NotFound},
		{"no-processors", func(e *env) sandbox.Spec { e.template.Shape.VCPUs = 0; return e.spec() }, fault.Invalid},
		{"negative-memory", func(e *env) sandbox.Spec { e.template.Shape.Memory = -1; return e.spec() }, fault.Invalid},
		{"never-fits", func(e *env) sandbox.Spec { e.template.Shape.Memory = memory + 1; return e.spec() }, fault.Exhausted},
		{"never-fits-dedicated", func(e *env) sandbox.Spec {
			e.template.Shape.VCPUs = 3
			s := e.spec()
			s.Dedicated, s.Cold = true, true
			return s
		}, fault.Exhausted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(e *env) {
				_, err := e.Create(e.t.Context(), tt.spec(e))
				wantKind(e.t, "create", err, tt.kind)
				if n := e.driver.boots.Load(); n > 0 {
					t.Errorf("%d machines were booted for nothing", n)
				}
				e.bare()
			})
		})
	}
}

// TestCreateFails fails at each step; nothing may be left, and the next create
// must work.
func TestCreateFails(t *testing.T) {
	broken := func(string) error { return fault.Errorf(fault.Exhausted, "full: %w", errBroken) }
	for _, tt := range []struct {
		name   string
		cold   bool
		faults fake.Faults
		prep   func(e *env) (undo func())
		kind   fault.Kind
		within time.Duration
	}{
		{name: "boot", cold: true, faults: fake.Faults{Boot: broken}, kind: fault.Exhausted},
		{name: "restore", faults: fake.Faults{Restore: broken}, kind: fault.Exhausted},
		{name: "boot-hangs", cold: true, faults: fake.Faults{BootTime: time.Hour}, kind: fault.Unavailable, within: sandbox.StartWait},
		{name: "guestd-silent", faults: fake.Faults{Silent: func(string) bool { return true }}, kind: fault.Unavailable, within: sandbox.AnswerWait},
		{name: "journal", prep: func(e *env) func() {
			must(e.t, os.Rename(e.JournalDir(), e.JournalDir()+".away"))
			return func() { must(e.t, os.Rename(e.JournalDir()+".away", e.JournalDir())) }
		}, kind: fault.Internal},
		{name: "event-log", prep: func(e *env) func() {
			dir := filepath.Join(e.opts.Dir, "events")
			must(e.t, os.Remove(dir))
			return func() { must(e.t, os.Mkdir(dir, 0o700)) }
		}, kind: fault.Internal},
		{name: "identify", prep: func(e *env) func() {
			e.driver.set(func() { e.driver.link = func(m sandbox.Machine) sandbox.Machine { return newStubborn(m, refuses) } })
			return func() { e.driver.set(func() { e.driver.link = nil }) }
		}, kind: fault.Exhausted},
		{name: "version", prep: func(e *env) func() {
			e.driver.set(func() { e.driver.link = func(m sandbox.Machine) sandbox.Machine { return newStubborn(m, elsewhere) } })
			return func() { e.driver.set(func() { e.driver.link = nil }) }
		}, kind: fault.Conflict},
		{name: "machine-dies", prep: func(e *env) func() {
			e.driver.set(func() {
				e.driver.link = func(m sandbox.Machine) sandbox.Machine {
					for _, id := range e.driver.Machines() {
						e.driver.Crash(id, guest.MachineLost)
					}
					return m
				}
			})
			return func() { e.driver.set(func() { e.driver.link = nil }) }
		}, kind: fault.Unavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(e *env) {
				if _, err := e.Prepare(e.t.Context(), e.template); err != nil {
					t.Fatal(err)
				}
				undo := func() {}
				if tt.prep != nil {
					undo = tt.prep(e)
				}
				e.driver.SetFaults(tt.faults)
				spec := e.spec()
				spec.Cold, spec.Dedicated = tt.cold, true
				began := time.Now()
				_, err := e.Create(e.t.Context(), spec)
				wantKind(e.t, "create", err, tt.kind)
				if took := time.Since(began); took != tt.within {
					t.Errorf("failed after %v, want %v", took, tt.within)
				}
				undo()
				e.driver.SetFaults(fake.Faults{})
				e.bare()
				if err := e.create(func(s *sandbox.Spec) { s.Cold, s.Dedicated = tt.cold, true }).Destroy(); err != nil {
					t.Error(err)
				}
				e.bare()
			})
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stubborn is a machine with a guestd of its own.
type stubborn struct {
	sandbox.Machine
	host net.Conn
	door sync.WaitGroup
}

// What is wrong with such a guestd.
const (
	refuses   = iota // to have an identity
	elsewhere        // speaks another version
	mute             // answers nothing after its first session
)

func newStubborn(m sandbox.Machine, how int) sandbox.Machine {
	host, inside := net.Pipe()
	s := &stubborn{Machine: m, host: host}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+guest.PathHello, func(w http.ResponseWriter, _ *http.Request) {
		h := guest.Hello{Version: guest.Version}
		if how == elsewhere {
			h.Version++
		}
		_ = json.NewEncoder(w).Encode(h)
	})
	mux.HandleFunc("POST "+guest.PathIdentity, func(w http.ResponseWriter, _ *http.Request) {
		if how == refuses {
			guest.WriteFault(w, fault.Errorf(fault.Exhausted, "no room for an identity"))
		}
	})
	s.door.Go(func() {
		for asked := false; ; {
			session, err := guest.Accept(inside, asked)
			if err != nil {
				return
			}
			if asked = guest.Serve(session, mux); how == mute {
				_, _ = io.Copy(io.Discard, inside)
				return
			}
		}
	})
	return s
}

func (s *stubborn) Link() net.Conn { return s.host }

func (s *stubborn) Destroy(ctx context.Context) error {
	_ = s.host.Close()
	s.door.Wait()
	return s.Machine.Destroy(ctx)
}

func TestCreateCancelled(t *testing.T) {
	for _, tt := range []struct {
		name string
		full bool
		f    fake.Faults
	}{
		{"waiting-for-room", true, fake.Faults{}},
		{"restoring", false, fake.Faults{RestoreTime: time.Minute}},
		{"waiting-for-guestd", false, fake.Faults{Silent: func(string) bool { return true }}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(e *env) {
				var holders []*sandbox.Sandbox
				if tt.full {
					for range 2 {
						holders = append(holders, e.create(func(s *sandbox.Spec) { s.Dedicated = true }))
					}
				}
				_, err := e.Prepare(e.t.Context(), e.template)
				must(e.t, err)
				e.driver.SetFaults(tt.f)
				ctx, cancel := context.WithTimeoutCause(e.t.Context(), time.Second, errBroken)
				defer cancel()
				began := time.Now()
				spec := e.spec()
				spec.Dedicated = true
				if _, err := e.Create(ctx, spec); !errors.Is(err, errBroken) {
					t.Errorf("create: %v, want the context's cause", err)
				}
				if took := time.Since(began); took != time.Second {
					t.Errorf("left after %v", took)
				}
				for _, s := range holders {
					must(e.t, s.Destroy())
				}
				e.bare()
			})
		})
	}
}

// TestCreateQueue: who waits is told the place, comes in order, and gives up at
// the deadline of the sandbox.
func TestCreateQueue(t *testing.T) {
	bubble(t, nil, func(e *env) {
		var first []*sandbox.Sandbox
		for range 2 {
			first = append(first, e.create(func(s *sandbox.Spec) { s.Dedicated = true }))
		}
		var mu sync.Mutex
		var order []int
		places := map[int][]int{}
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Go(func() {
				spec := e.spec()
				spec.Dedicated = true
				spec.Queued = func(place int) {
					mu.Lock()
					defer mu.Unlock()
					places[i] = append(places[i], place)
				}
				_, err := e.Create(context.Background(), spec)
				if err != nil {
					e.t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
			synctest.Wait()
		}
		began := time.Now()
		spec := e.spec()
		spec.Dedicated, spec.Deadline = true, began.Add(time.Minute)
		_, err := e.Create(e.t.Context(), spec)
		wantKind(e.t, "create until its deadline", err, fault.Exhausted)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("gave up after %v", took)
		}
		for _, s := range first {
			must(e.t, s.Destroy())
			synctest.Wait()
		}
		wg.Wait()
		if !slices.Equal(order, []int{0, 1}) || !slices.Equal(places[0], []int{1}) || !slices.Equal(places[1], []int{2, 1}) {
			t.Errorf("order %v, places %v", order, places)
		}
	})
}
