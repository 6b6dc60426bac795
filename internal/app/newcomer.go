package app

import (
	"context"
	"errors"
	"path/filepath"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/sqlstore"
)

// NewServerToken makes the first admin of a data directory that no server has
// used yet, and gives a token of theirs with all scopes. The account has no use
// beyond that: its password is told to nobody.
func NewServerToken(ctx context.Context, dataDir, login, password string) (token string, err error) {
	db, err := sqlstore.Open(ctx, filepath.Join(dataDir, "assay.db"))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	accounts, err := account.New(db.Accounts(), account.Config{}, nil)
	if err != nil {
		return "", err
	}
	code, err := accounts.SetupCode(ctx)
	if err != nil {
		return "", err
	}
	if code == "" {
		return "", fault.Errorf(fault.Conflict, "the server in %s has an admin already", dataDir)
	}
	in, err := accounts.UseLink(ctx, code, account.NewUser{Login: login}, password, account.Caller{Agent: "assay"})
	if err != nil {
		return "", err
	}
	actor, err := accounts.BySession(ctx, in.Secret)
	if err != nil {
		return "", err
	}
	_, token, err = accounts.CreateToken(account.WithActor(ctx, actor), account.NewToken{Name: login, Scopes: account.Scopes()})
	return token, err
}
