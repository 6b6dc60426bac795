package app

import (
	"path/filepath"
	"testing"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/sqlstore"
)

func TestNewServerToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token, err := NewServerToken(t.Context(), dir, "bench", "correct horse battery")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewServerToken(t.Context(), dir, "again", "correct horse battery"); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second one: %v", err)
	}
	db, err := sqlstore.Open(t.Context(), filepath.Join(dir, "assay.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	accounts, err := account.New(db.Accounts(), account.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := accounts.ByToken(t.Context(), token); err != nil || a.Role != account.Admin || a.Name != "bench" {
		t.Errorf("the token is %+v's, %v", a, err)
	}
}
