package sandboxes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
	"assay/internal/sandbox/fake"
	"assay/internal/sandboxes"
	"assay/internal/sqlstore"
)

// env is a service over fake machines and a real store.
type env struct {
	*sandboxes.Service
	t       *testing.T
	driver  *fake.Driver
	manager *sandbox.Manager
	engine  sandbox.Options
	stop    func() // ends the manager's Run
	store   *failing
	opts    sandboxes.Options
}

// failing is a store that does not answer while it is told so, and tells what it
// was given.
type failing struct {
	sandboxes.Store
	mu   sync.Mutex
	down bool

	// remembered and adding, where they are set before anything is asked, are
	// called when a key was written, and before a row is.
	remembered func(key string)
	adding     func()
}

func (f *failing) Remember(ctx context.Context, r sandboxes.Request) (*sandboxes.Request, error) {
	before, err := f.Store.Remember(ctx, r)
	if f.remembered != nil {
		f.remembered(r.Key)
	}
	return before, err
}

func (f *failing) AddSandbox(ctx context.Context, r sandboxes.Record) error {
	if f.adding != nil {
		f.adding()
	}
	return f.Store.AddSandbox(ctx, r)
}

func (f *failing) set(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

func (f *failing) EndSandbox(ctx context.Context, id string, e sandboxes.End) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return fault.Errorf(fault.Unavailable, "the database does not answer")
	}
	return f.Store.EndSandbox(ctx, id, e)
}

// oneTemplate has the template "base" built, and "unbuilt" not.
type oneTemplate struct{ t sandbox.Template }

func (o oneTemplate) Template(_ context.Context, name string) (sandbox.Template, error) {
	switch name {
	case "base":
		return o.t, nil
	case "unbuilt":
		return sandbox.Template{}, fault.Errorf(fault.Conflict, "template unbuilt is not built")
	}
	return sandbox.Template{}, fault.Errorf(fault.NotFound, "there is no template %s", name)
}

func (o oneTemplate) Templates(context.Context) ([]sandboxes.Template, error) {
	return []sandboxes.Template{{Name: "base", Shape: o.t.Shape, Digest: o.t.Digest}, {Name: "unbuilt"}}, nil
}

func newEnv(t *testing.T, change func(*sandboxes.Options)) *env {
	t.Helper()
	dir := t.TempDir()
	db, err := sqlstore.Open(t.Context(), filepath.Join(dir, "assay.db"))
	if err != nil {
		t.Fatal(err)
	}
	e := &env{t: t, driver: fake.New(), store: &failing{Store: db.Sandboxes()}}
	template := sandbox.Template{
		Name: "base", Digest: "sha256:base", Image: filepath.Join(dir, "image"), Snapshots: filepath.Join(dir, "warm"),
		Shape: sandbox.Shape{VCPUs: 1, Memory: 64 << 20, Disk: 16 << 20, Processes: 32},
	}
	if err := os.WriteFile(template.Image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e.engine = sandbox.Options{Driver: e.driver, Dir: filepath.Join(dir, "engine"), CPUs: 2, Memory: 8 * 64 << 20, Keeper: "test"}
	e.opts = sandboxes.Options{Templates: oneTemplate{template}, Store: e.store, Node: "n1"}
	e.openEngine()
	if change != nil {
		change(&e.opts)
	}
	e.open()
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		e.stop()
		if err := errors.Join(e.manager.Close(), db.Close()); err != nil {
			t.Error(err)
		}
		if left := e.driver.Machines(); len(left) > 0 {
			t.Errorf("machines are left: %v", left)
		}
	})
	return e
}

// openEngine opens a manager and runs it.
func (e *env) openEngine() {
	e.t.Helper()
	m, err := sandbox.Open(e.t.Context(), e.engine)
	if err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(e.t.Context()))
	var ran sync.WaitGroup
	ran.Go(func() { _ = m.Run(ctx) })
	e.manager, e.opts.Machines = m, m
	e.stop = func() {
		cancel()
		ran.Wait()
	}
}

// restart ends service and engine, and opens both again.
func (e *env) restart() {
	e.t.Helper()
	must(e.t, e.Close())
	e.stop()
	must(e.t, e.manager.Close())
	e.openEngine()
	e.open()
}

func (e *env) open() {
	e.t.Helper()
	s, err := sandboxes.Open(e.t.Context(), e.opts)
	if err != nil {
		e.t.Fatal(err)
	}
	e.Service = s
}

// as is a context in which somebody asks.
func (e *env) as(user string, role account.Role) context.Context {
	return account.WithActor(e.t.Context(), account.Actor{User: user, Name: user, Role: role})
}

func (e *env) create(ctx context.Context, change func(*sandboxes.CreateRequest)) sandboxes.Record {
	e.t.Helper()
	req := sandboxes.CreateRequest{Template: "base"}
	if change != nil {
		change(&req)
	}
	r, err := e.Create(ctx, req)
	if err != nil {
		e.t.Fatal(err)
	}
	return r
}

// ended waits until the store knows of a sandbox's end.
func (e *env) ended(ctx context.Context, id string) sandboxes.Record {
	e.t.Helper()
	for {
		r, err := e.Get(ctx, id)
		if err != nil {
			e.t.Fatal(err)
		}
		if !r.Live() {
			return r
		}
		select {
		case <-e.t.Context().Done():
			e.t.Fatal("it did not end")
		case <-time.After(time.Millisecond):
		}
	}
}

func wantKind(t *testing.T, what string, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("%s: %v (%s), want %s", what, err, fault.KindOf(err), kind)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOthersSandboxesAreNotThere(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	ann, bob, root := e.as("ann", account.Member), e.as("bob", account.Staff), e.as("root", account.Admin)
	r := e.create(ann, func(c *sandboxes.CreateRequest) { c.Labels = map[string]string{"course": "1"} })
	snap, err := e.Snapshot(ann, r.ID, sandboxes.SnapshotRequest{})
	must(t, err)
	for what, call := range map[string]func(context.Context) error{
		"get":     func(ctx context.Context) error { _, err := e.Get(ctx, r.ID); return err },
		"kill":    func(ctx context.Context) error { return e.Kill(ctx, r.ID) },
		"pause":   func(ctx context.Context) error { _, err := e.Pause(ctx, r.ID); return err },
		"extend":  func(ctx context.Context) error { _, err := e.Extend(ctx, r.ID, time.Hour); return err },
		"events":  func(ctx context.Context) error { _, err := e.Events(ctx, r.ID); return err },
		"stat":    func(ctx context.Context) error { _, err := e.Stat(ctx, r.ID, "/"); return err },
		"port":    func(ctx context.Context) error { _, err := e.Dial(ctx, r.ID, 80); return err },
		"preview": func(ctx context.Context) error { _, err := e.MakePreview(ctx, r.ID, 80, 0); return err },
		"revoke":  func(ctx context.Context) error { return e.RevokePreviews(ctx, r.ID) },
		"terminal": func(ctx context.Context) error {
			_, err := e.Terminal(ctx, r.ID, guest.TerminalSpec{}, false)
			return err
		},
		"watch": func(ctx context.Context) error {
			_, err := e.Watch(ctx, r.ID, guest.WatchSpec{Dir: "/"}, 0)
			return err
		},
		"snapshot": func(ctx context.Context) error {
			_, err := e.Snapshot(ctx, r.ID, sandboxes.SnapshotRequest{})
			return err
		},
		"fork": func(ctx context.Context) error {
			_, err := e.Fork(ctx, r.ID, sandboxes.ForkRequest{Count: 1})
			return err
		},
		"exec": func(ctx context.Context) error {
			_, err := e.Exec(ctx, r.ID, sandboxes.ExecRequest{Argv: []string{"true"}})
			return err
		},
		"stream": func(ctx context.Context) error {
			_, err := e.Stream(ctx, r.ID, sandboxes.ExecRequest{Argv: []string{"true"}}, nil, nil)
			return err
		},
		"restore": func(ctx context.Context) error {
			_, err := e.Create(ctx, sandboxes.CreateRequest{Snapshot: snap.ID})
			return err
		},
		"fork_snapshot": func(ctx context.Context) error {
			_, err := e.ForkSnapshot(ctx, snap.ID, sandboxes.ForkRequest{Count: 1})
			return err
		},
		"get_snapshot":    func(ctx context.Context) error { _, err := e.GetSnapshot(ctx, snap.ID); return err },
		"remove_snapshot": func(ctx context.Context) error { return e.RemoveSnapshot(ctx, snap.ID) },
	} {
		err := call(bob)
		wantKind(t, what+" of another", err, fault.NotFound)
		wantKind(t, what+" by nobody", call(t.Context()), fault.Unauthenticated)
	}
	if rows, err := e.Sandboxes(bob, sandboxes.Query{}); err != nil || len(rows) != 0 {
		t.Errorf("bob sees %+v, %v", rows, err)
	}
	ann2 := "ann"
	_, err = e.Sandboxes(bob, sandboxes.Query{Owner: &ann2})
	wantKind(t, "list of another", err, fault.Denied)
	for who, ctx := range map[string]context.Context{"ann": ann, "root": root} {
		rows, err := e.Sandboxes(ctx, sandboxes.Query{Labels: map[string]string{"course": "1"}})
		if err != nil || len(rows) != 1 || rows[0].ID != r.ID || rows[0].Owner != "ann" {
			t.Errorf("%s sees %+v, %v", who, rows, err)
		}
	}
	must(t, e.Kill(root, r.ID))
	if got := e.ended(ann, r.ID); got.End.Why != "killed by root" || got.End.Cause != guest.Killed {
		t.Errorf("ended %+v", got.End)
	}
	must(t, e.Kill(ann, r.ID)) // again
	wantKind(t, "kill of none", e.Kill(ann, "none"), fault.NotFound)
	_, err = e.Exec(ann, r.ID, sandboxes.ExecRequest{Argv: []string{"true"}})
	wantKind(t, "exec after the end", err, fault.Conflict)
	if log, err := e.Events(ann, r.ID); err != nil || log[len(log)-1].Kind != "ended" {
		t.Errorf("events %+v, %v", log, err)
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	ann := e.as("ann", account.Member)
	many := map[string]string{}
	for i := range sandboxes.MaxLabels + 1 {
		many[strings.Repeat("x", i+1)] = ""
	}
	for name, tt := range map[string]struct {
		req  sandboxes.CreateRequest
		want fault.Kind
	}{
		"nothing":       {sandboxes.CreateRequest{}, fault.Invalid},
		"both":          {sandboxes.CreateRequest{Template: "base", Snapshot: "s"}, fault.Invalid},
		"path":          {sandboxes.CreateRequest{Template: "/etc/passwd"}, fault.Invalid},
		"parent":        {sandboxes.CreateRequest{Template: "../base"}, fault.Invalid},
		"no_template":   {sandboxes.CreateRequest{Template: "nothing"}, fault.NotFound},
		"unbuilt":       {sandboxes.CreateRequest{Template: "unbuilt"}, fault.Conflict},
		"no_snapshot":   {sandboxes.CreateRequest{Snapshot: "../x"}, fault.NotFound},
		"negative":      {sandboxes.CreateRequest{Template: "base", Terms: sandboxes.Terms{TTL: -1}}, fault.Invalid},
		"too_long":      {sandboxes.CreateRequest{Template: "base", Terms: sandboxes.Terms{TTL: 25 * time.Hour}}, fault.Invalid},
		"many_labels":   {sandboxes.CreateRequest{Template: "base", Terms: sandboxes.Terms{Labels: many}}, fault.Invalid},
		"label_no_name": {sandboxes.CreateRequest{Template: "base", Terms: sandboxes.Terms{Labels: map[string]string{"": "x"}}}, fault.Invalid},
		"no_text":       {sandboxes.CreateRequest{Template: "base", Terms: sandboxes.Terms{Name: "\xff"}}, fault.Invalid},
		"key":           {sandboxes.CreateRequest{Template: "base", Key: "a\nb"}, fault.Invalid},
	} {
		_, err := e.Create(ann, tt.req)
		wantKind(t, name, err, tt.want)
	}
	r := e.create(ann, nil)
	for name, req := range map[string]sandboxes.ExecRequest{
		"nothing":  {},
		"both":     {Shell: "true", Argv: []string{"true"}},
		"negative": {Shell: "true", Limits: sandbox.Limits{CPU: -1}},
		"output":   {Shell: "true", Limits: sandbox.Limits{Output: sandboxes.MaxOutput + 1}},
		"user":     {Shell: "true", User: "nobody"},
	} {
		_, err := e.Exec(ann, r.ID, req)
		wantKind(t, "exec: "+name, err, fault.Invalid)
	}
	for _, n := range []int{0, -1, sandbox.MaxFork + 1} {
		_, err := e.Fork(ann, r.ID, sandboxes.ForkRequest{Count: n})
		wantKind(t, "fork", err, fault.Invalid)
	}
	if rows, err := e.Sandboxes(ann, sandboxes.Query{}); err != nil || len(rows) != 1 {
		t.Errorf("%d sandboxes, %v; bad requests made some", len(rows), err)
	}
}

// TestQuotaHoldsUnderLoad: of many requests at once no more are served than the
// quota has room for.
func TestQuotaHoldsUnderLoad(t *testing.T) {
	t.Parallel()
	const most = 3
	e := newEnv(t, func(o *sandboxes.Options) {
		o.Quota = func(a account.Actor) sandboxes.Quota {
			if a.Role == account.Admin {
				return sandboxes.Quota{}
			}
			return sandboxes.Quota{Sandboxes: most, Snapshots: 1, DiskBytes: 1 << 30, SnapshotBytes: 1 << 30}
		}
	})
	ann := e.as("ann", account.Member)
	var mu sync.Mutex
	made := 0
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			_, err := e.Create(ann, sandboxes.CreateRequest{Template: "base"})
			if err != nil {
				wantKind(t, "create beyond the quota", err, fault.Limited)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			made++
		})
	}
	all.Wait()
	for made < most { // two that asked for the last place at once may both have been refused
		e.create(ann, nil)
		made++
	}
	rows, err := e.Sandboxes(ann, sandboxes.Query{Live: true})
	if err != nil || made > most || len(rows) != most {
		t.Fatalf("%d were made, %d are there, %v; want %d", made, len(rows), err, most)
	}
	_, err = e.Fork(ann, rows[0].ID, sandboxes.ForkRequest{Count: 1})
	wantKind(t, "fork beyond the quota", err, fault.Limited)
	e.create(e.as("root", account.Admin), nil)
	must(t, e.Kill(ann, rows[0].ID))
	e.ended(ann, rows[0].ID)
	r := e.create(ann, nil)
	snap, err := e.Snapshot(ann, r.ID, sandboxes.SnapshotRequest{})
	must(t, err)
	_, err = e.Snapshot(ann, r.ID, sandboxes.SnapshotRequest{})
	wantKind(t, "snapshot beyond the quota", err, fault.Limited)
	must(t, e.RemoveSnapshot(ann, snap.ID))
	_, err = e.Snapshot(ann, r.ID, sandboxes.SnapshotRequest{})
	must(t, err)
}

func TestEveryEndIsWritten(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	ann := e.as("ann", account.Member)
	crashed := e.create(ann, nil)
	e.driver.Crash(crashed.ID, guest.MemoryLimit)
	if got := e.ended(ann, crashed.ID); got.End.Cause != guest.MemoryLimit || got.End.Why != "machine died" {
		t.Errorf("a crash: %+v", got.End)
	}
	late := e.create(ann, nil)
	for ttl := 50 * time.Millisecond; ; ttl *= 2 {
		_, err := e.Extend(ann, late.ID, ttl)
		if err == nil {
			break
		}
		wantKind(t, "a deadline that passed before it was written", err, fault.Invalid)
	}
	if got := e.ended(ann, late.ID); got.End.Cause != guest.Killed || got.End.Why == "destroyed" || got.End.Why == "" {
		t.Errorf("a deadline: %+v", got.End)
	}
	open := e.create(ann, nil)
	must(t, e.Close())
	e.Service = nil
	e.open()
	if got := e.ended(ann, open.ID); got.End.Why != "server stopped" {
		t.Errorf("a stop: %+v", got.End)
	}
	// What a server that was killed had.
	lost := sandboxes.Record{ID: "lost", Owner: "ann", Node: "n1", Created: time.Now()}
	elsewhere := sandboxes.Record{ID: "elsewhere", Owner: "ann", Node: "n2", Created: time.Now()}
	must(t, e.store.AddSandbox(ann, lost))
	must(t, e.store.AddSandbox(ann, elsewhere))
	must(t, e.Close())
	e.open()
	if got := e.ended(ann, "lost"); got.End.Cause != guest.MachineLost {
		t.Errorf("a server that died: %+v", got.End)
	}
	if got, err := e.Get(ann, "elsewhere"); err != nil || !got.Live() {
		t.Errorf("another node's: %+v, %v", got.End, err)
	}
	_, err := e.Stat(ann, "elsewhere", "/")
	wantKind(t, "use of another node's", err, fault.Conflict)
}

// TestStoreIsRepaired: an end that the store did not take is written later.
func TestStoreIsRepaired(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	ann := e.as("ann", account.Member)
	r := e.create(ann, nil)
	ended, err := e.Ended(ann, r.ID)
	must(t, err)
	e.store.set(true)
	must(t, e.Kill(ann, r.ID))
	<-ended
	must(t, e.Close()) // waits until it was tried
	if got, err := e.store.Sandbox(ann, r.ID); err != nil || !got.Live() {
		t.Fatalf("the store took it: %+v, %v", got.End, err)
	}
	e.store.set(false)
	must(t, e.Repair(ann))
	if got := e.ended(ann, r.ID); got.End.Why != "killed by ann" {
		t.Errorf("repaired: %+v", got.End)
	}
}

func TestUsageIsKept(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *sandboxes.Options) {
		o.Quota = func(account.Actor) sandboxes.Quota { return sandboxes.Quota{CPUPerDay: 200 * time.Millisecond} }
	})
	ann := e.as("ann", account.Member)
	r := e.create(ann, nil)
	_, err := e.Snapshot(ann, r.ID, sandboxes.SnapshotRequest{})
	must(t, err)
	_, err = e.Exec(ann, r.ID, sandboxes.ExecRequest{Argv: []string{"probe", "spin", "150ms"}})
	must(t, err)
	must(t, e.Count(ann))
	_, err = e.Exec(ann, r.ID, sandboxes.ExecRequest{Argv: []string{"probe", "spin", "100ms"}})
	must(t, err)
	must(t, e.Count(ann)) // now it is too much
	got := e.ended(ann, r.ID)
	if got.End.Why != "the processor time of the day is used up" {
		t.Errorf("ended %+v", got.End)
	}
	if got.CPU < 250*time.Millisecond || got.CPU > 10*time.Second || got.ByteSeconds <= 0 {
		t.Errorf("used %v and %v byte seconds", got.CPU, got.ByteSeconds)
	}
	want := got.Shape.Memory
	if life := got.End.At.Sub(got.Created).Seconds(); got.ByteSeconds > float64(want)*life*1.01 || got.ByteSeconds < float64(want)*life*0.9 {
		t.Errorf("%v byte seconds in %v s of %d bytes", got.ByteSeconds, life, want)
	}
	_, held, err := e.MyQuota(ann)
	if err != nil || held.CPU != got.CPU || held.Snapshots != 1 {
		t.Errorf("held %+v, %v", held, err)
	}
	_, err = e.Create(ann, sandboxes.CreateRequest{Template: "base"})
	wantKind(t, "create without processor time", err, fault.Limited)
	e.create(e.as("bob", account.Member), nil)
}

// TestTokensHaveQuotasOfTheirOwn: one token's sandboxes do not count against
// another's, and both are within their owner's quota.
func TestTokensHaveQuotasOfTheirOwn(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *sandboxes.Options) {
		o.Quota = func(account.Actor) sandboxes.Quota { return sandboxes.Quota{Sandboxes: 3} }
		o.TokenQuota = func(a account.Actor) sandboxes.Quota {
			if a.Token == "free" {
				return sandboxes.Quota{}
			}
			return sandboxes.Quota{Sandboxes: 1, CPUPerDay: 100 * time.Millisecond}
		}
	})
	with := func(token string) context.Context {
		return account.WithActor(t.Context(), account.Actor{User: "ann", Name: "ann", Role: account.Member, Token: token})
	}
	first := e.create(with("a"), nil)
	_, err := e.Create(with("a"), sandboxes.CreateRequest{Template: "base"})
	wantKind(t, "a token's second", err, fault.Limited)
	second := e.create(with("b"), nil)
	e.create(with("free"), nil)
	_, err = e.Create(with("free"), sandboxes.CreateRequest{Template: "base"})
	wantKind(t, "the owner's fourth", err, fault.Limited)
	_, err = e.Exec(with("a"), first.ID, sandboxes.ExecRequest{Argv: []string{"probe", "spin", "150ms"}})
	must(t, err)
	must(t, e.Count(with("a")))
	if got := e.ended(with("a"), first.ID); got.End.Why != "the processor time of the day is used up" {
		t.Errorf("ended %+v", got.End)
	}
	if got, err := e.Get(with("b"), second.ID); err != nil || !got.Live() {
		t.Errorf("another token's: %+v, %v", got.End, err)
	}
}

// TestCloseEndsWhatIsBeingMade: a sandbox that is made while the service is being
// closed must not keep it open until the sandbox's deadline.
func TestCloseEndsWhatIsBeingMade(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	ann := e.as("ann", account.Member)
	closing := make(chan error, 1)
	service := e.Service
	var once sync.Once
	e.store.adding = func() {
		once.Do(func() { go func() { closing <- service.Close() }() })
		for { // until it is closed
			if _, err := service.Create(ann, sandboxes.CreateRequest{}); fault.Is(err, fault.Unavailable) {
				return
			}
		}
	}
	_, err := e.Create(ann, sandboxes.CreateRequest{Template: "base"})
	wantKind(t, "made while the server stops", err, fault.Unavailable)
	must(t, <-closing)
	rows, err := e.store.Sandboxes(ann, sandboxes.Query{})
	if err != nil || len(rows) != 1 || rows[0].Live() || rows[0].End.Why != "server stopped" {
		t.Errorf("the store has %+v, %v", rows, err)
	}
}

// TestWholePageSaysWhetherThereIsMore: who asks for one more than a page has, as
// doors do, is given it.
func TestWholePageSaysWhetherThereIsMore(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	ann := e.as("ann", account.Member)
	const n = sandboxes.MaxPage + 3
	for i := range n {
		r := sandboxes.Record{ID: fmt.Sprintf("s%03d", i), Owner: "ann", Node: "n2", Created: time.Unix(int64(i), 0)}
		must(t, e.store.AddSandbox(ann, r))
	}
	for limit, want := range map[int]int{sandboxes.MaxPage + 1: sandboxes.MaxPage + 1, sandboxes.MaxPage + 2: sandboxes.MaxPage, 0: sandboxes.MaxPage, 1: 1} {
		if rows, err := e.Sandboxes(ann, sandboxes.Query{Limit: limit}); err != nil || len(rows) != want {
			t.Errorf("asked for %d: %d rows, %v; want %d", limit, len(rows), err, want)
		}
	}
}
