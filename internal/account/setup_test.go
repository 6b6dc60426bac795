package account_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/sqlstore"
)

// cheap makes passwords cost nothing.
var cheap = account.HashCost{Memory: 64, Passes: 1, Threads: 1}

var caller = account.Caller{Address: "192.0.2.1", Agent: "Browser/1"}

const password = "correct horse battery"

// world is a service over a real store, with an admin.
type world struct {
	*account.Service
	t     *testing.T
	path  string
	cfg   account.Config
	store account.Store
	// root asks as the admin, nobody as nobody.
	root, nobody context.Context
	admin        account.User
}

func newWorld(t *testing.T, cfg account.Config) *world {
	t.Helper()
	if cfg.Hash == (account.HashCost{}) {
		cfg.Hash = cheap
	}
	w := &world{t: t, path: filepath.Join(t.TempDir(), "assay.db"), cfg: cfg, nobody: t.Context()}
	w.start()
	code, err := w.SetupCode(t.Context())
	if err != nil || code == "" {
		t.Fatalf("setup code %q, %v", code, err)
	}
	in, err := w.UseLink(t.Context(), code, account.NewUser{Login: "root", Name: "Root"}, password, caller)
	if err != nil {
		t.Fatal(err)
	}
	w.admin = in.User
	w.root = w.as(in.User)
	return w
}

// start is what a new start of the server does.
func (w *world) start() {
	w.t.Helper()
	db, err := sqlstore.Open(w.t.Context(), w.path)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := db.Close(); err != nil {
			w.t.Error(err)
		}
	})
	w.store = db.Accounts()
	if w.Service, err = account.New(w.store, w.cfg, slog.New(slog.DiscardHandler)); err != nil {
		w.t.Fatal(err)
	}
}

// as gives a context in which a user asks with a session.
func (w *world) as(u account.User) context.Context {
	return account.WithActor(w.t.Context(), account.Actor{User: u.ID, Name: u.Login, Role: u.Role})
}

// user makes one with a password.
func (w *world) user(login string, role account.Role) account.User {
	w.t.Helper()
	u, err := w.CreateUser(w.root, account.NewUser{Login: login, Role: role})
	if err != nil {
		w.t.Fatal(err)
	}
	code, _, err := w.CreateLink(w.root, u.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	in, err := w.UseLink(w.nobody, code, account.NewUser{}, password, caller)
	if err != nil {
		w.t.Fatal(err)
	}
	return in.User
}

func (w *world) token(ctx context.Context, n account.NewToken) (account.Token, string) {
	w.t.Helper()
	if n.Name == "" {
		n.Name = "ci"
	}
	if n.Scopes == nil {
		n.Scopes = account.Scopes()
	}
	tok, secret, err := w.CreateToken(ctx, n)
	if err != nil {
		w.t.Fatal(err)
	}
	return tok, secret
}

// asToken gives a context in which a token's secret asks.
func (w *world) asToken(secret string) context.Context {
	w.t.Helper()
	a, err := w.ByToken(w.t.Context(), secret)
	if err != nil {
		w.t.Fatal(err)
	}
	return account.WithActor(w.t.Context(), a)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind {
		t.Errorf("got %v (%s), want it to be %s", err, fault.KindOf(err), kind)
	}
}

// signedIn reports whether a session's secret works.
func (w *world) signedIn(secret string) bool {
	w.t.Helper()
	a, err := w.BySession(w.t.Context(), secret)
	if err != nil {
		w.t.Fatal(err)
	}
	return a.Known()
}

func (w *world) tokenWorks(secret string) bool {
	w.t.Helper()
	_, err := w.ByToken(w.t.Context(), secret)
	if err != nil && !fault.Is(err, fault.Unauthenticated) {
		w.t.Fatal(err)
	}
	return err == nil
}

// ptr is new(v) until it reads better.
func ptr[T any](v T) *T { return &v }

const day = 24 * time.Hour
