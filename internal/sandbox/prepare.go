package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

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

// snapshotOf is where the snapshot of a template lies that a driver restores.
func snapshotOf(t Template, d Driver) string {
	return filepath.Join(t.Snapshots, snapshotKey(t, d.Identity()))
}

// Prepare makes sure that this host has a snapshot of the template, warm, for
// its driver, and gives its directory. Only the first call, in whichever
// process, boots and warms a machine; others wait for it. The pool keeps
// machines of the template from then on. Errors: fault.Invalid for an
// impossible shape or a warm-up command that failed (with its output),
// fault.NotFound for a template without an image, fault.Exhausted when the host
// could never hold the machine.
func (m *Manager) Prepare(ctx context.Context, t Template) (string, error) {
	return m.prepare(ctx, t, nil)
}

// prepare tells queued the place in the queue when a machine must be booted.
func (m *Manager) prepare(ctx context.Context, t Template, queued func(place int)) (string, error) {
	if err := t.check(); err != nil {
		return "", err
	}
	ctx, leave, err := m.enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	src, err := m.sourceOf(t)
	if err != nil {
		return "", err
	}
	dir := snapshotOf(t, src.driver)
	if err := os.MkdirAll(t.Snapshots, 0o700); err != nil {
		return "", fault.Errorf(fault.Internal, "prepare template %s: %w", t.Name, err)
	}
	if _, err := os.Stat(dir); err != nil {
		if err := m.freezeOnce(ctx, src, t.Warm, dir, queued); err != nil {
			return "", fmt.Errorf("prepare template %s: %w", t.Name, err)
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
	d, err := m.drivers.named(t.Driver)
	if err == nil {
		_, err = os.Stat(snapshotOf(t, d))
	}
	return err == nil
}

// freezeOnce makes the snapshot in dir unless another, in whichever process,
// does it first.
func (m *Manager) freezeOnce(ctx context.Context, src source, warm []string, dir string, queued func(int)) error {
	f, err := os.OpenFile(dir+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fault.Errorf(fault.Internal, "lock snapshot: %w", err)
	}
	defer f.Close()
	if err := lockWait(ctx, f, unix.LOCK_EX); err != nil {
		return err
	}
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	reserved, err := m.admission.reserve(ctx, claim{shape: src.shape}, 1, queued)
	if err != nil {
		return err
	}
	defer reserved[0].release()
	return m.freeze(ctx, src, warm, dir)
}

// freeze boots a machine, warms it and snapshots it into dir.
func (m *Manager) freeze(ctx context.Context, src source, warm []string, dir string) error {
	b, err := m.make(ctx, src)
	if err != nil {
		return err
	}
	defer m.discard(b)
	for _, cmd := range warm {
		if err := m.warm(ctx, b, cmd); err != nil {
			return err
		}
	}
	return m.checkpoint(ctx, b, dir)
}

// warm runs one warm-up command.
func (m *Manager) warm(ctx context.Context, b *body, cmd string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, warmWall+callGrace,
		fault.Errorf(fault.Unavailable, "guestd of machine %s did not end warm-up command %q in time", b.id, cmd))
	defer cancel()
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
	return nil
}

// warmWall bounds one warm-up command.
const warmWall = 5 * time.Minute

// checkpoint snapshots a machine into dir, which appears whole or not at all.
// Nobody else writes there: what lies beside it is of a process that died.
func (m *Manager) checkpoint(ctx context.Context, b *body, dir string) error {
	tmp := dir + ".tmp"
	if err := errors.Join(os.RemoveAll(tmp), os.Mkdir(tmp, 0o700)); err != nil {
		return fault.Errorf(fault.Internal, "snapshot machine %s: %w", b.id, err)
	}
	err := b.client.Between(ctx, func(ctx context.Context) error { return b.machine.Snapshot(ctx, tmp) })
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

// lockEvery is how often lockWait asks for a lock that others hold. To ask
// again and again leaves no thread behind that waits in the kernel when ctx
// ends.
const lockEvery = 20 * time.Millisecond

// lockWait locks a file that others, in this or another process, may hold.
// Closing the file unlocks it.
func lockWait(ctx context.Context, f *os.File, how int) error {
	var again *time.Ticker
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fault.Errorf(fault.Internal, "lock %s: %w", f.Name(), err)
		}
		if again == nil {
			again = time.NewTicker(lockEvery)
			defer again.Stop()
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
