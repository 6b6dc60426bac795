package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLockOfTheDead: a child that a killed manager was just starting holds the
// manager's lock for a moment more; a start that comes then must wait for it,
// and not take the manager for alive.
func TestLockOfTheDead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), lockName)
	f, err := lockFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockFile(t.Context(), path); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Fatalf("the lock of one who lives: %v", err)
	}
	// Another process holds it now, for a while, and the one that is written
	// down has ended.
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("1234567890 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sleep", "0.3")
	child.ExtraFiles = []*os.File{f}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := lockFile(t.Context(), path)
	if err != nil {
		t.Fatalf("the lock of one who is gone: %v", err)
	}
	defer again.Close()
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if stamp := processStamp(gone.Process.Pid); stamp != "" {
		t.Errorf("a process that has ended has the stamp %q", stamp)
	}
	if !holderLives(again) {
		t.Error("this process does not live")
	}
}
