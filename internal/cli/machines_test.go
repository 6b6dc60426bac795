package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"assay/internal/require"
)

// TestMachineScripts runs the scripts that need machines, with the real
// programs: "assay" in them is the built binary.
func TestMachineScripts(t *testing.T) {
	machineScripts(t, "testdata/machines")
}

// TestEmulatedScripts runs those that need QEMU. KVM is left alone: where it is
// there these would not be what they are for.
func TestEmulatedScripts(t *testing.T) {
	require.QEMU(t)
	machineScripts(t, "testdata/emulated")
}

func machineScripts(t *testing.T, dir string) {
	t.Helper()
	require.Root(t)
	bin := require.Binaries(t)
	shared := os.Getenv("ASSAY_TEST_DATA")
	require.Thing(t, "templates", shared != "", "ASSAY_TEST_DATA does not name a data directory with the base template: run make test")
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", bin+":"+e.Getenv("PATH"))
			e.Setenv("ASSAY_DATA_DIR", filepath.Join(e.WorkDir, "data"))
			e.Setenv("EXAMPLES", examples)
			if err := os.MkdirAll(filepath.Join(e.WorkDir, "data"), 0o700); err != nil {
				return err
			}
			return os.Symlink(filepath.Join(shared, "templates"), filepath.Join(e.WorkDir, "data", "templates"))
		},
	})
}
