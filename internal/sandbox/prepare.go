package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
)

// snapshotKey names everything a snapshot of a template depends on.
func snapshotKey(t Template, identity string) string {
	h := sha256.New()
	_ = json.NewEncoder(h).Encode([]any{t.Digest, t.Shape, t.Warm, identity, guest.Version}) // a hash takes everything
	return hex.EncodeToString(h.Sum(nil))[:32]
}

// Prepare makes sure that this host has a snapshot of the template, warm, for
// this driver, and gives its directory. Only the first call, in whichever
// process, boots and warms a machine; others wait for it. The pool keeps
// machines of the template from then on.
func (m *Manager) Prepare(ctx context.Context, t Template) (string, error) {
	if err := t.check(); err != nil {
		return "", err
	}
	dir := filepath.Join(t.Snapshots, snapshotKey(t, m.driver.Identity()))
	src := source{template: t.Digest, name: t.Name, image: t.Image, shape: t.Shape, pooled: true}
	if err := os.MkdirAll(t.Snapshots, 0o700); err != nil {
		return "", fault.Errorf(fault.Internal, "prepare template %s: %w", t.Name, err)
	}
	if _, err := os.Stat(dir); err != nil {
		unlock, err := lockWait(ctx, dir+".lock")
		if err != nil {
			return "", fault.Errorf(fault.Internal, "prepare template %s: %w", t.Name, err)
		}
		defer unlock()
		if _, err := os.Stat(dir); err != nil {
			if err := m.freeze(ctx, src, t.Warm, dir); err != nil {
				return "", fmt.Errorf("prepare template %s: %w", t.Name, err)
			}
		}
	}
	src.snapshot = dir
	if m.pool.size > 0 {
		m.pool.want(src)
	}
	return dir, nil
}

// Prepared reports whether this host has a snapshot of the template.
func (m *Manager) Prepared(t Template) bool {
	_, err := os.Stat(filepath.Join(t.Snapshots, snapshotKey(t, m.driver.Identity())))
	return err == nil
}

// freeze boots a machine, warms it and snapshots it into dir.
func (m *Manager) freeze(ctx context.Context, src source, warm []string, dir string) error {
	b, err := m.make(ctx, src)
	if err != nil {
		return err
	}
	defer m.discard(b)
	for _, cmd := range warm {
		tail := &tailBuffer{}
		res, err := b.client.Run(ctx, ExecSpec{
			Argv: []string{"/bin/sh", "-c", cmd}, Limits: Limits{Wall: warmWall}, KeepOutput: true,
		}, guest.IO{Stdout: tail, Stderr: tail})
		if err != nil {
			return m.explain(b, err)
		}
		if res.Exit.Cause != guest.Exited || res.Exit.Code != 0 {
			return fault.Errorf(fault.Invalid, "warm-up command %q ended with %s, code %d: %s", cmd, res.Exit.Cause, res.Exit.Code, tail.b).
				WithHint("mend the command in the template's definition")
		}
	}
	return m.checkpoint(ctx, b, dir)
}

// warmWall bounds one warm-up command.
const warmWall = 5 * 60 * 1e9

// checkpoint snapshots a machine into dir, which appears whole or not at all.
func (m *Manager) checkpoint(ctx context.Context, b *body, dir string) error {
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".snapshot-")
	if err != nil {
		return fault.Errorf(fault.Internal, "snapshot machine %s: %w", b.id, err)
	}
	err = b.client.Between(ctx, func(ctx context.Context) error { return b.machine.Snapshot(ctx, tmp) })
	if err == nil {
		err = os.Rename(tmp, dir)
	}
	if err != nil {
		_ = os.RemoveAll(tmp)
		return m.explain(b, err)
	}
	return nil
}

// tailBuffer keeps the last bytes written to it.
type tailBuffer struct{ b []byte }

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if extra := len(t.b) - 2<<10; extra > 0 {
		t.b = t.b[extra:]
	}
	return len(p), nil
}

var _ io.Writer = (*tailBuffer)(nil)

// lockWait waits for a file lock that other processes may hold.
func lockWait(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	var lockErr error
	got := make(chan struct{})
	go func() {
		defer close(got)
		lockErr = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}()
	select {
	case <-got:
		if lockErr != nil {
			_ = f.Close()
			return nil, lockErr
		}
		return func() { _ = f.Close() }, nil
	case <-ctx.Done():
		// The waiter holds the file until the lock comes, and lets both go then.
		go func() {
			<-got
			_ = f.Close()
		}()
		return nil, context.Cause(ctx)
	}
}
