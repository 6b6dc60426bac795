package problempkg

import (
	"strings"
	"testing"

	"assay/internal/fault"
)

func TestDeepYAMLIsRefusedBeforeItIsParsed(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"dashes":    "a: 1\n" + strings.Repeat("- ", 5000) + "x\n",
		"keys":      "a: 1\n" + strings.Repeat("? ", 5000) + "x\n",
		"indent":    "a: 1\n" + strings.Repeat(" ", 5000) + "x: 1\n",
		"brackets":  "a: " + strings.Repeat("[", 5000),
		"no_spaces": "a: 1\n" + strings.Repeat("-\t", 5000) + "x\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := parseMapping("problem.yaml", []byte(text)); !fault.Is(err, fault.Invalid) {
				t.Errorf("got %v, want it refused as invalid", err)
			}
		})
	}
}
