package bench

import (
	"os"
	"testing"

	"assay/internal/require"
)

func TestNativeRuns(t *testing.T) {
	t.Parallel()
	require.Tool(t, "gcc")
	require.Tool(t, "python3")
	speeds := map[string]speed{}
	for _, language := range StabilityLanguages {
		speeds[language] = speed{baseUS: 1, eachUS: 100} // some thousand rounds: a short program
	}
	n, err := newNativeRuns(t.Context(), speeds)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.run(t.Context(), 3, 2); err != nil {
		t.Fatal(err)
	}
	for _, language := range StabilityLanguages {
		if runs, p99 := n.spread(language); runs != 3 || p99 < 1 {
			t.Errorf("%s: %d runs, p99/p50 %v", language, runs, p99)
		}
	}
	if runs, p99 := n.spread("none"); runs != 0 || p99 != 0 {
		t.Errorf("of a language without programs: %d runs, %v", runs, p99)
	}
	if err := n.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(n.dir); !os.IsNotExist(err) {
		t.Errorf("the programs are left: %v", err)
	}
}
