package app

import (
	"testing"

	"assay/internal/sandbox"
)

func TestMachinesGrowWithTheLimits(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for name, tt := range map[string]struct{ own, want, host, size int64 }{
		"fits":            {512, 256, 16384, 512},
		"exactly":         {512, 512, 16384, 512},
		"doubled":         {512, 600, 16384, 1024},
		"twice":           {512, 2048, 16384, 2048},
		"beyond":          {2048, 2240, 16384, 4096},
		"small_host":      {512, 2048, 3072, 1024},
		"smallest_host":   {512, 2048, 600, 512},
		"no_wish":         {512, 0, 16384, 512},
		"size_is_unknown": {0, 2048, 16384, 0},
	} {
		got := withMemory(sandbox.Template{Shape: sandbox.Shape{Memory: tt.own * mib}}, tt.want*mib, tt.host*mib)
		if got.Shape.Memory != tt.size*mib {
			t.Errorf("%s: %d MiB, want %d", name, got.Shape.Memory>>20, tt.size)
		}
	}
}
