package cli

import (
	"strings"
	"testing"

	"assay/internal/fault"
)

func TestSettingsThatCannotBeReadAreRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"no_value":  {"listen:\n", "listen has no value"},
		"inside":    {"quota:\n  disk: 1G\n", "quota has settings inside"},
		"no_yaml":   {"listen: [", "read settings"},
		"too_large": {"listen: x # " + strings.Repeat("x", maxConfig), "more than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readConfig(strings.NewReader(tt.text))
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.want) || fault.HintOf(err) == "" {
				t.Errorf("got %v (hint %q), want %q and a hint", err, fault.HintOf(err), tt.want)
			}
		})
	}
}
