package work_test

import (
	"testing"

	"assay/internal/work"
	"assay/internal/work/worktest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	worktest.Run(t, func(*testing.T) work.Store { return worktest.NewMemory() })
}
