package sqlstore

import (
	"testing"

	"assay/internal/sandboxes"
	"assay/internal/sandboxes/storetest"
)

func TestSandboxes(t *testing.T) {
	t.Parallel()
	suiteOnBoth(t, storetest.Run, func(t *testing.T, open func(t *testing.T) *DB) sandboxes.Store { return open(t).Sandboxes() })
}
