package tagged

import (
	"os/exec"
	"path/filepath"
	"testing"

	"assay/internal/require"
)

// TestPythonCodec runs the tests of tagged.py.
func TestPythonCodec(t *testing.T) {
	t.Parallel()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), require.Tool(t, "python3"), "-B", "testdata/codec_test.py")
	cmd.Env = []string{"PYTHONPATH=" + here, "PYTHONDONTWRITEBYTECODE=1", "LANG=C.UTF-8"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
