package bus_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/bus"
	"assay/internal/fault"
	"assay/internal/require"
)

// TestFullDiskIsSurvived fills the disk under an embedded server, which gives its
// files up then, and makes room again.
func TestFullDiskIsSurvived(t *testing.T) {
	t.Parallel()
	require.Root(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		require.Thing(t, "mount", false, "this root may not mount: "+err.Error())
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	b, err := bus.OpenEmbedded(t.Context(), filepath.Join(dir, "events"))
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, b)
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	// Until now the files had room.
	data := make([]byte, bus.MaxData)
	for err == nil && ctx.Err() == nil {
		_, err = b.Publish(ctx, "x", data)
	}
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("publish on a full disk: %v (%s)", err, fault.KindOf(err))
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err = b.Publish(ctx, "x", []byte("again")); err == nil || ctx.Err() != nil {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	if err != nil {
		t.Errorf("publish when there is room again: %v", err)
	}
}
