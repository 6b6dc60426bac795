package supervisor

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"assay/internal/fault"
)

func TestSocketOfALongPath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 40))
	if err := makeDataDir(dir); err != nil {
		t.Fatal(err)
	}
	ln, err := Listen(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, socketName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v; want mode 0600", info, err)
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := ln.Accept()
		accepted <- c
	}()
	conn, err := dialSocket(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if c := <-accepted; c == nil {
		t.Error("nothing was accepted")
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v; want nothing", left, err)
	}
}

func TestOnlyOneListens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ln, err := Listen(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(dir, nil); !fault.Is(err, fault.Conflict) {
		t.Errorf("second Listen: %v; want a conflict", err)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	ln, err = Listen(dir, nil)
	if err != nil {
		t.Fatalf("Listen after Close: %v", err)
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
}

func TestListenReplacesWhatTheDeadLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// A killed supervisor leaves a lock that nobody holds and a socket on which
	// nobody listens.
	if err := os.WriteFile(filepath.Join(dir, lockName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, socketName), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	ln, err := Listen(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
}

// TestLockHasOneHolder takes and drops the lock from many goroutines: the file
// is removed each time, and still nobody shares it.
func TestLockHasOneHolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var holders, taken atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 300 {
				lock, err := takeLock(dir)
				if err != nil {
					t.Error(err)
					return
				}
				if lock == nil {
					continue
				}
				taken.Add(1)
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d hold the lock", n)
				}
				holders.Add(-1)
				if err := dropLock(dir, lock); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if taken.Load() == 0 {
		t.Error("nobody ever had the lock")
	}
	if _, err := os.Stat(filepath.Join(dir, lockName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("lock file after all: %v; want none", err)
	}
}

func TestStartThatFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := Connect(t.Context(), Start{DataDir: dir, Command: []string{"/bin/false"}})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.HintOf(err), logName) {
		t.Errorf("got %v (hint %q); want unavailable and the log as hint", err, fault.HintOf(err))
	}
	_, err = Connect(t.Context(), Start{DataDir: dir, Command: []string{
		"/bin/sh", "-c", `echo '{"error":{"kind":"unsupported","text":"no cgroups","hint":"mount them"}}' >&4`,
	}})
	if !fault.Is(err, fault.Unsupported) || fault.HintOf(err) != "mount them" {
		t.Errorf("got %v (hint %q); want what the supervisor said", err, fault.HintOf(err))
	}
}
