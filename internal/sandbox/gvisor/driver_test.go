package gvisor

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"assay/internal/require"
	"assay/internal/sandbox"
	"assay/internal/sandbox/drivertest"
)

// setup gives the driver and the image its machines start from.
func setup(t *testing.T) drivertest.Config {
	t.Helper()
	require.Root(t)
	bin := require.Binaries(t)
	d, err := New(Options{BootBinary: filepath.Join(bin, "assay-boot"), CacheDir: t.TempDir(), DebugLog: debugLog})
	if err != nil {
		t.Fatal(err)
	}
	return drivertest.Config{
		Driver: d,
		Image:  testImage(t),
		Crash: func(m sandbox.Machine) {
			_ = unix.Kill(m.(*machine).cont.SandboxPid(), unix.SIGKILL)
		},
	}
}

// debugLog is where gVisor's own log goes while one looks for a mistake.
const debugLog = ""

// testImage gives the root filesystem for tests: the base template, with the
// guestd of this source.
func testImage(t *testing.T) string {
	t.Helper()
	image := os.Getenv("ASSAY_TEST_IMAGE")
	_, err := os.Stat(image)
	require.Thing(t, "image", err == nil, "ASSAY_TEST_IMAGE names no base image: run the tests with \"make test\"")
	return image
}

func TestDriver(t *testing.T) {
	drivertest.Run(t, setup(t))
}

func TestHostile(t *testing.T) {
	drivertest.RunHostile(t, setup(t), filepath.Join("..", "..", "..", "examples", "hostile"))
}
