package pandastack

import (
	"slices"
	"testing"
)

// FuzzListening: the tables come from the sandbox, which may write what it wants.
func FuzzListening(f *testing.F) {
	f.Add("  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A 0\n")
	f.Add("0: :: : 0A\n0: FFFF :0 0A")
	f.Add("a b c 0A")
	f.Fuzz(func(t *testing.T, tables string) {
		ports := listening(tables)
		for _, p := range ports {
			if p < 1 || p > 65535 {
				t.Errorf("port %d", p)
			}
		}
		if !slices.IsSorted(ports) {
			t.Errorf("ports are not in order: %v", ports)
		}
	})
}
