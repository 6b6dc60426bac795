package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"assay/internal/judge"
)

func TestHostInfo(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		files map[string]string
		want  judge.HostInfo
	}{
		"bare_metal": {
			files: map[string]string{
				"proc/cpuinfo":              "processor\t: 0\nmodel name\t: Example CPU 9000 @ 3.00GHz\nmicrocode\t: 0x2b\nflags\t\t: fpu sse avx\n\nprocessor\t: 1\nmodel name\t: Other\n",
				"proc/sys/kernel/osrelease": "6.1.0-example\n",
				"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
				"sys/devices/system/cpu/intel_pstate/no_turbo":         "1\n",
				"sys/devices/system/cpu/smt/active":                    "0\n",
			},
			want: judge.HostInfo{CPU: "Example CPU 9000 @ 3.00GHz", Microcode: "0x2b", Kernel: "6.1.0-example", Governor: "performance", Turbo: "off", SMT: "off"},
		},
		"virtual": {
			files: map[string]string{
				"proc/cpuinfo":                         "model name\t: Example vCPU\nflags\t\t: fpu hypervisor\n",
				"sys/devices/system/cpu/cpufreq/boost": "1\n",
				"sys/devices/system/cpu/smt/active":    "1\n",
			},
			want: judge.HostInfo{CPU: "Example vCPU", Turbo: "on", SMT: "on", Virtual: true},
		},
		"nothing_to_read": {},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for file, text := range tt.files {
				path := filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := hostInfo(root)
			if got.Fingerprint == "" || got.Processors < 1 || got.Machine == "" {
				t.Errorf("hostInfo = %+v, want a fingerprint, processors and a machine", got)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(judge.HostInfo{}, "Fingerprint", "Processors", "Machine")); diff != "" {
				t.Errorf("hostInfo (-want +got):\n%s", diff)
			}
			if again := hostInfo(root); again != got {
				t.Errorf("the same host gave %+v and %+v", got, again)
			}
		})
	}
}
