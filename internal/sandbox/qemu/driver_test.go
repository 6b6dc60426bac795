package qemu

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"assay/internal/fault"
	"assay/internal/require"
	"assay/internal/sandbox"
	"assay/internal/sandbox/drivertest"
)

// setup gives the driver and the image its machines start from.
func setup(t *testing.T) drivertest.Config {
	t.Helper()
	return setupOn(t, "")
}

// setupOn is setup with machines on a board.
func setupOn(t *testing.T, board string) drivertest.Config {
	t.Helper()
	require.Root(t)
	require.QEMU(t)
	bin := require.Binaries(t)
	d, err := New(Options{Guestd: filepath.Join(bin, "guestd"), BoxBinary: filepath.Join(bin, "assay-box"), CacheDir: t.TempDir(), Accel: TCG, Board: board})
	if fault.Is(err, fault.Unsupported) {
		require.Thing(t, "qemu", false, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	return drivertest.Config{
		Driver: d,
		Image:  testImage(t),
		Loose:  6,
		Beside: true,
		Crash:  func(m sandbox.Machine) { _ = m.(*machine).cmd.Process.Kill() },
	}
}

// testImage gives the root filesystem for tests: the base template, with the
// guestd of this source.
func testImage(t *testing.T) string {
	t.Helper()
	image := os.Getenv("ASSAY_TEST_IMAGE")
	_, err := os.Stat(image)
	require.Thing(t, "image", err == nil, "ASSAY_TEST_IMAGE names no base image: run the tests with \"make test\"")
	return image
}

// config is a new machine's.
func config(t *testing.T, cfg drivertest.Config) sandbox.MachineConfig {
	t.Helper()
	return sandbox.MachineConfig{
		ID: fmt.Sprintf("qemu-%d-%d", os.Getpid(), serial.Add(1)), Dir: t.TempDir(), Image: cfg.Image, Shape: drivertest.DefaultShape,
	}
}

var serial atomic.Int64

func TestDriver(t *testing.T) {
	drivertest.Run(t, setup(t))
}

func TestHostile(t *testing.T) {
	drivertest.RunHostile(t, setup(t), filepath.Join("..", "..", "..", "examples", "hostile"))
}
