package bytesize

import "testing"

func TestParse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want Size
	}{
		{"1KiB", 1024}, {"512MiB", 512 << 20}, {"2 GiB", 2 << 30}, {"1TB", 1e12}, {"0MB", 0},
	}
	for _, tt := range tests {
		got, err := Parse(tt.text)
		if err != nil || got != tt.want {
			t.Errorf("Parse(%q) = %d, %v, want %d", tt.text, got, err, tt.want)
		}
	}
	for _, bad := range []string{"", "512", "MiB", "-1MiB", "1.5GiB", "9999999999TiB", "1mib", "1 M iB"} {
		if got, err := Parse(bad); err == nil {
			t.Errorf("Parse(%q) = %d, want an error", bad, got)
		}
	}
}
