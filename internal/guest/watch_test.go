package guest

import (
	"testing"

	"assay/internal/fault"
)

func TestWatchExcludes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, pattern, path string
		excludes, prunes    bool
	}{
		{"plain", "a", "a", true, true},
		{"below_plain", "a", "a/b/c", true, true},
		{"not_deeper", "a", "b/a", false, false},
		{"star", "*.tmp", "x.tmp", true, true},
		{"star_one_part", "*.tmp", "d/x.tmp", false, false},
		{"any_depth", "**/*.tmp", "d/e/x.tmp", true, true},
		{"any_depth_none", "**/*.tmp", "x.tmp", true, true},
		{"inside_not_itself", "node_modules/**", "node_modules", false, true},
		{"inside", "node_modules/**", "node_modules/a", true, true},
		{"inside_deep", "node_modules/**", "node_modules/a/b", true, true},
		{"inside_anywhere", "**/node_modules/**", "x/node_modules/a", true, true},
		{"inside_anywhere_itself", "**/node_modules/**", "x/node_modules", false, true},
		{"middle", "a/**/z", "a/z", true, true},
		{"middle_deep", "a/**/z", "a/b/c/z", true, true},
		{"all", "**", "x", true, true},
		{"other", "node_modules/**", "node_module", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := WatchSpec{Exclude: []string{tt.pattern}}
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			if got := s.Excludes(tt.path); got != tt.excludes {
				t.Errorf("%s excludes %s: %v, want %v", tt.pattern, tt.path, got, tt.excludes)
			}
			if got := s.Prunes(tt.path); got != tt.prunes {
				t.Errorf("%s prunes %s: %v, want %v", tt.pattern, tt.path, got, tt.prunes)
			}
		})
	}
}

func TestWatchSpecRefusesBadPatterns(t *testing.T) {
	t.Parallel()
	for _, p := range []string{"", "/abs", "[", "a/[b"} {
		if err := (WatchSpec{Exclude: []string{p}}).Check(); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", p, err)
		}
	}
	if err := (WatchSpec{Exclude: make([]string, maxExcludes+1)}).Check(); !fault.Is(err, fault.Invalid) {
		t.Errorf("too many patterns: %v", err)
	}
}
