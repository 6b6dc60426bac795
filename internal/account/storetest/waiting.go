package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
)

func device(n string) account.Device {
	return account.Device{
		Hash: "code " + n, UserHash: "user code " + n, Client: "assay login on laptop", From: "192.0.2.1", Scopes: []account.Scope{account.ScopeJudge},
		State: account.DevicePending, Created: at, Expires: at.Add(10 * time.Minute), Interval: 5 * time.Second,
	}
}

func deviceIsAnsweredOnce(t *testing.T, s account.Store) {
	ctx := t.Context()
	jane := user(t, s, "jane", account.Member)
	want := device("1")
	must(t, s.CreateDevice(ctx, want, 10))
	got, err := s.DeviceByUserCode(ctx, want.UserHash)
	same(t, got, err, want)
	_, err = s.DeviceByUserCode(ctx, want.Hash)
	wantKind(t, err, fault.NotFound)
	wantKind(t, s.UpdateDevice(ctx, want.UserHash, func(*account.Device) (*account.Token, error) { return nil, nil }), fault.NotFound)

	refused := fault.Errorf(fault.Invalid, "no")
	wantKind(t, s.UpdateDevice(ctx, want.Hash, func(d *account.Device) (*account.Token, error) {
		d.State = account.DeviceApproved
		return nil, refused
	}), fault.Invalid)
	must(t, s.UpdateDevice(ctx, want.Hash, func(d *account.Device) (*account.Token, error) {
		same(t, *d, nil, want)
		d.State, d.User, d.Polled, d.Interval = account.DeviceApproved, jane.ID, at.Add(time.Second), 10*time.Second
		want = *d
		return nil, nil
	}))
	got, err = s.DeviceByUserCode(ctx, want.UserHash)
	same(t, got, err, want)

	// Many programs that ask at once get one token.
	var taken atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			err := s.UpdateDevice(ctx, want.Hash, func(d *account.Device) (*account.Token, error) {
				if d.State != account.DeviceApproved {
					return nil, refused
				}
				d.State = account.DeviceTaken
				tok := token(fmt.Sprint(i), jane.ID)
				return &tok, nil
			})
			switch {
			case err == nil:
				taken.Add(1)
			case !fault.Is(err, fault.Invalid):
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()
	all, err := s.TokensOf(ctx, jane.ID, "", 10)
	must(t, err)
	if taken.Load() != 1 || len(all) != 1 {
		t.Errorf("%d took it and there are %d tokens, want one", taken.Load(), len(all))
	}
}

func devicesAreBounded(t *testing.T, s account.Store) {
	ctx := t.Context()
	must(t, s.CreateDevice(ctx, device("1"), 2))
	clash := device("2")
	clash.UserHash = device("1").UserHash
	wantKind(t, s.CreateDevice(ctx, clash, 2), fault.Conflict)
	must(t, s.CreateDevice(ctx, device("2"), 2))
	wantKind(t, s.CreateDevice(ctx, device("3"), 2), fault.Exhausted)
	later := device("3")
	later.Created = at.Add(10 * time.Minute)
	must(t, s.CreateDevice(ctx, later, 2))
}

func link(n, user string) account.Link {
	return account.Link{Hash: "link " + n, User: user, Created: at, Expires: at.Add(24 * time.Hour), By: "usr_root"}
}

func linkWorksOnce(t *testing.T, s account.Store) {
	ctx := t.Context()
	user(t, s, "root", account.Admin)
	jane, john := user(t, s, "jane", account.Member), user(t, s, "john", account.Member)
	for _, l := range []account.Link{link("1", jane.ID), link("2", jane.ID), link("3", john.ID)} {
		must(t, s.CreateLink(ctx, l))
	}
	must(t, s.CreateSession(ctx, session("h1", jane.ID)))
	got, err := s.Link(ctx, "link 1")
	same(t, got, err, link("1", jane.ID))
	// The role changes while somebody chooses a password.
	stale := jane
	stale.Password, stale.Role = "$new", account.Admin
	must(t, s.UseLink(ctx, "link 1", stale))
	u, err := s.User(ctx, jane.ID)
	jane.Password = "$new"
	same(t, u, err, jane)
	for _, hash := range []string{"link 1", "link 2"} {
		wantKind(t, s.UseLink(ctx, hash, stale), fault.NotFound)
		_, err := s.Link(ctx, hash)
		wantKind(t, err, fault.NotFound)
	}
	_, _, err = s.Session(ctx, "h1")
	wantKind(t, err, fault.NotFound)
	if _, err := s.Link(ctx, "link 3"); err != nil {
		t.Errorf("the link of another user: %v", err)
	}
}

func oneFirstAdmin(t *testing.T, s account.Store) {
	ctx := t.Context()
	user(t, s, "taken", account.Member)
	const n = 4
	for i := range n + 1 {
		must(t, s.CreateLink(ctx, link(fmt.Sprint(i), "")))
	}
	admin := func(login string) account.User {
		return account.User{ID: "usr_" + login, Login: login, Role: account.Admin, Password: "$x", Created: at}
	}
	clash := admin("taken")
	clash.ID = "usr_new"
	wantKind(t, s.UseLink(ctx, "link 0", clash), fault.Conflict)
	if _, err := s.Link(ctx, "link 0"); err != nil {
		t.Errorf("a link that failed is used up: %v", err)
	}
	var made atomic.Int32
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			err := s.UseLink(ctx, fmt.Sprintf("link %d", i), admin(fmt.Sprintf("first%d", i)))
			switch {
			case err == nil:
				made.Add(1)
			case !fault.Is(err, fault.NotFound):
				t.Errorf("got %v, want nil or that the link is gone", err)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 {
		t.Errorf("%d first admins, want one", made.Load())
	}
	must(t, s.CreateLink(ctx, link("late", "")))
	wantKind(t, s.UseLink(ctx, "link late", admin("late")), fault.Conflict)
}

func flowIsTakenOnce(t *testing.T, s account.Store) {
	ctx := t.Context()
	want := account.Flow{StateHash: "h", Nonce: "n", Verifier: "v", Next: "/a?b=c", Expires: at}
	must(t, s.CreateFlow(ctx, want))
	got, err := s.TakeFlow(ctx, "h")
	same(t, got, err, want)
	_, err = s.TakeFlow(ctx, "h")
	wantKind(t, err, fault.NotFound)
}

func guessesAreNotLost(t *testing.T, s account.Store) {
	ctx := t.Context()
	const n = 16
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			must(t, s.UpdateGuesses(ctx, "key", func(g *account.Guess) error {
				g.Count++
				g.Last, g.Until = at, at.Add(time.Second)
				return nil
			}))
		})
	}
	wg.Wait()
	refused := fault.Errorf(fault.Invalid, "no")
	wantKind(t, s.UpdateGuesses(ctx, "key", func(g *account.Guess) error {
		*g = account.Guess{}
		return refused
	}), fault.Invalid)
	look := func(key string, want account.Guess) {
		t.Helper()
		must(t, s.UpdateGuesses(ctx, key, func(g *account.Guess) error {
			same(t, *g, nil, want)
			*g = account.Guess{}
			return nil
		}))
	}
	look("other", account.Guess{})
	look("key", account.Guess{Count: n, Last: at, Until: at.Add(time.Second)})
	look("key", account.Guess{})
}

func auditLog(t *testing.T, s account.Store) {
	ctx := t.Context()
	var all []account.Entry
	for i := range 6 {
		all = append(all, account.Entry{
			ID: fmt.Sprintf("aud_%d", i), At: at.Add(time.Duration(i) * time.Minute), Who: fmt.Sprintf("usr_%d", i%2), Name: "jane", Token: fmt.Sprintf("tok_%d", i%3),
			Action: []string{"POST /api/v1/users", "DELETE /api/v1/tokens/{token}"}[i%2], Thing: []account.Kind{account.UserThing, account.TokenThing}[i%2],
			Target: fmt.Sprintf("t%d", i), Detail: "ünïcode", Outcome: 200 + i, From: "192.0.2.1", Request: "R",
		})
	}
	must(t, s.AddAudit(ctx, all[:4]))
	must(t, s.AddAudit(ctx, all[4:]))
	pick := func(numbers ...int) (entries []account.Entry) {
		for _, n := range numbers {
			entries = append(entries, all[n])
		}
		return entries
	}
	for _, tt := range []struct {
		name string
		q    account.AuditQuery
		want []account.Entry
	}{
		{"all", account.AuditQuery{Limit: 10}, pick(5, 4, 3, 2, 1, 0)},
		{"page", account.AuditQuery{Limit: 2, Before: "aud_4"}, pick(3, 2)},
		{"who", account.AuditQuery{Limit: 10, Who: "usr_1"}, pick(5, 3, 1)},
		{"thing", account.AuditQuery{Limit: 10, Thing: "user"}, pick(4, 2, 0)},
		{"target", account.AuditQuery{Limit: 10, Target: "t3"}, pick(3)},
		{"token", account.AuditQuery{Limit: 10, Token: "tok_2"}, pick(5, 2)},
		{"action", account.AuditQuery{Limit: 10, Action: "DELETE "}, pick(5, 3, 1)},
		{"no_pattern", account.AuditQuery{Limit: 10, Action: "%"}, nil},
		{"time", account.AuditQuery{Limit: 10, Since: at.Add(time.Minute), Until: at.Add(3 * time.Minute)}, pick(2, 1)},
		{"two", account.AuditQuery{Limit: 10, Who: "usr_0", Token: "tok_1"}, pick(4)},
	} {
		got, err := s.Audit(ctx, tt.q)
		t.Run(tt.name, func(t *testing.T) { same(t, got, err, tt.want) })
	}
}

func sweep(t *testing.T, s account.Store) {
	ctx := t.Context()
	jane := user(t, s, "jane", account.Member)
	idle, old := session("idle", jane.ID), session("old", jane.ID)
	idle.Idle = at
	old.Expires = at
	for _, ses := range []account.Session{idle, old, session("live", jane.ID)} {
		must(t, s.CreateSession(ctx, ses))
	}
	gone := device("1")
	gone.Expires = at
	must(t, s.CreateDevice(ctx, gone, 10))
	must(t, s.CreateDevice(ctx, device("2"), 10))
	late := link("1", jane.ID)
	late.Expires = at
	must(t, s.CreateLink(ctx, late))
	must(t, s.CreateLink(ctx, link("2", jane.ID)))
	must(t, s.CreateFlow(ctx, account.Flow{StateHash: "1", Expires: at}))
	must(t, s.CreateFlow(ctx, account.Flow{StateHash: "2", Expires: at.Add(time.Hour)}))
	for key, last := range map[string]time.Time{"old": at.Add(-24 * time.Hour), "new": at} {
		must(t, s.UpdateGuesses(ctx, key, func(g *account.Guess) error {
			*g = account.Guess{Count: 3, Last: last}
			return nil
		}))
	}
	expired := token("1", jane.ID)
	expired.Expires = at
	must(t, s.CreateToken(ctx, expired))

	must(t, s.Sweep(ctx, at.Add(time.Second)))

	live, err := s.SessionsOf(ctx, jane.ID)
	same(t, live, err, []account.Session{session("live", jane.ID)})
	_, err = s.DeviceByUserCode(ctx, gone.UserHash)
	wantKind(t, err, fault.NotFound)
	_, err = s.DeviceByUserCode(ctx, device("2").UserHash)
	must(t, err)
	_, err = s.Link(ctx, "link 1")
	wantKind(t, err, fault.NotFound)
	_, err = s.Link(ctx, "link 2")
	must(t, err)
	_, err = s.TakeFlow(ctx, "1")
	wantKind(t, err, fault.NotFound)
	_, err = s.TakeFlow(ctx, "2")
	must(t, err)
	for key, want := range map[string]int{"old": 0, "new": 3} {
		must(t, s.UpdateGuesses(ctx, key, func(g *account.Guess) error {
			if g.Count != want {
				t.Errorf("%s guesses are %d, want %d", key, g.Count, want)
			}
			return nil
		}))
	}
	if _, err := s.Token(ctx, expired.ID); err != nil {
		t.Errorf("a token was swept: %v", err)
	}
}
