package judge

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestKeepScript runs the script with folders of the test in place of the
// machine's.
func TestKeepScript(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		prepare func(build string) error
		code    int
	}{
		"regular": {func(b string) error { return os.WriteFile(b+"/program", []byte("x"), 0o644) }, 0},
		"missing": {func(string) error { return nil }, keepRefused},
		"link":    {func(b string) error { return os.Symlink("/etc/passwd", b+"/program") }, keepRefused},
		"folder":  {func(b string) error { return os.Mkdir(b+"/program", 0o755) }, keepRefused},
		"fifo":    {func(b string) error { return syscall.Mkfifo(b+"/program", 0o644) }, keepRefused},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			build, prog := t.TempDir(), t.TempDir()
			if err := tt.prepare(build); err != nil {
				t.Fatal(err)
			}
			script := strings.NewReplacer(buildDir, build, progDir, prog).Replace(keepScript)
			err := exec.CommandContext(t.Context(), "/bin/sh", "-c", script, "keep", "program").Run()
			code := 0
			if e, ok := errors.AsType[*exec.ExitError](err); ok {
				code = e.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			info, statErr := os.Lstat(filepath.Join(prog, "program"))
			if code != tt.code || (statErr == nil) != (tt.code == 0) {
				t.Fatalf("exit code %d, file %v, want %d", code, statErr, tt.code)
			}
			if tt.code == 0 && info.Mode() != 0o555 {
				t.Errorf("mode %v, want 0555", info.Mode())
			}
		})
	}
}
