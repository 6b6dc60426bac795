package image

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"assay/internal/fault"
)

// kindEntries is how many entries of a tar are looked at to tell what it is.
const kindEntries = 10_000

func tarKindOf(r io.Reader) (string, error) {
	tr := tar.NewReader(r)
	kind := "rootfs"
	for range kindEntries {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", fault.Errorf(fault.Invalid, "read tar: %w", err)
		}
		switch name, _ := cleanName(h.Name); name {
		case "manifest.json":
			return "docker", nil
		case "oci-layout":
			kind = "layout" // docker save writes both; its manifest is looked for first
		case "bin", "usr", "etc", "dev", "proc":
			return "rootfs", nil
		}
	}
	return kind, nil
}

// fileDigest names a regular file by its bytes.
func fileDigest(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fault.Errorf(kindOfFS(err), "open: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fault.Errorf(fault.Invalid, "%s is not a regular file", path)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, ctxReader{ctx, f}); err != nil {
		return "", fmt.Errorf("read tar: %w", err)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// tarTree unpacks a root filesystem and checks that it still is the one that
// was named by digest.
func (s *Store) tarTree(ctx context.Context, path, digest, dir string, obs Observer) error {
	f, err := os.Open(path)
	if err != nil {
		return fault.Errorf(kindOfFS(err), "open: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	raw := io.TeeReader(f, sum)
	r, err := gunzip(raw)
	if err != nil {
		return err
	}
	u, err := newUnpacker(dir, s.opt.Caps, func(n int64) {
		obs.Progress(Progress{Stage: StageUnpack, Text: "unpack the tar", Done: n})
	})
	if err != nil {
		return err
	}
	defer u.close()
	if err := u.apply(ctx, r); err != nil {
		return s.diskFault(fmt.Errorf("%s: %w", path, err), 0)
	}
	if _, err := io.Copy(io.Discard, ctxReader{ctx, raw}); err != nil {
		return fmt.Errorf("read tar: %w", err)
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != digest {
		return fault.Errorf(fault.Conflict, "%s changed while it was read", path).WithHint("build again")
	}
	return nil
}

// ctxReader ends a long read when its context ends.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

// Read reads unless the context has ended.
func (c ctxReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}
