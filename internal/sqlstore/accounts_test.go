package sqlstore

import (
	"testing"

	"assay/internal/account"
	"assay/internal/account/storetest"
)

func TestAccounts(t *testing.T) {
	t.Parallel()
	suiteOnBoth(t, storetest.Run, func(t *testing.T, open func(t *testing.T) *DB) account.Store { return open(t).Accounts() })
}
