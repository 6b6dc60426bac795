package cgroup

import (
	"maps"
	"path/filepath"
	"testing"
	"time"
)

func TestWaited(t *testing.T) {
	t.Parallel()
	const text = "some avg10=0.00 avg60=0.10 avg300=0.00 total=1234567\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n"
	v1 := maps.Clone(v1Files)
	v1["unified/cpu.pressure"] = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"
	for name, files := range map[string]map[string]string{"v1": v1, "v2": v2Files} {
		root := tree(t, files)
		tr, err := find(root)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(root, parent, "m")
		if name == "v1" {
			dir = filepath.Join(root, unified, parent, "m")
		}
		if got := tr.At("m").Waited(); got != 0 {
			t.Errorf("%s: a group that is not there waited %v", name, got)
		}
		put(t, filepath.Join(dir, "cpu.pressure"), text)
		if got := tr.At("m").Waited(); got != 1234567*time.Microsecond {
			t.Errorf("%s: waited %v", name, got)
		}
	}
	if got := None().At("m").Waited(); got != 0 {
		t.Errorf("without cgroups: %v", got)
	}
}
