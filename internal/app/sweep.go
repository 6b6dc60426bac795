package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"assay/internal/blob"
	"assay/internal/fault"
)

const (
	// writeOffEvery is how often the sandboxes of lost nodes are looked for.
	writeOffEvery = time.Minute
	// sweepFirst is how long after the start old things are removed for the first
	// time, sweepEvery how often after that, and sweepAgain how long after a time
	// that failed.
	sweepFirst = 10 * time.Minute
	sweepEvery = 24 * time.Hour
	sweepAgain = time.Hour
	// jobsKept is how long jobs stay after their end.
	jobsKept = 7 * 24 * time.Hour
	// blobsKept is the least age of blobs that are removed: uploads that are under
	// way have younger ones.
	blobsKept = blob.RefreshAfter + 24*time.Hour
	blobPage  = 1000
	// A node is lost when it was not seen for lostAfter leases, and for lostLeast.
	lostAfter = 10
	lostLeast = 5 * time.Minute
)

// runSweeps removes what is old until ctx ends. What fails is tried again.
func (s *Server) runSweeps(ctx context.Context) error {
	tick := time.NewTicker(writeOffEvery)
	defer tick.Stop()
	next := time.Now().Add(sweepFirst)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		leads, err := s.leads(ctx)
		if err == nil && leads {
			err = s.writeOff(ctx)
			if now := time.Now(); now.After(next) {
				old := s.sweepOld(ctx, now)
				if next = now.Add(sweepEvery); old != nil {
					next = now.Add(sweepAgain)
				}
				err = errors.Join(err, old)
			}
		}
		if err != nil && ctx.Err() == nil {
			s.log.ErrorContext(ctx, "sweep what is old", "err", err)
		}
	}
}

// leads reports whether this process sweeps for all that share the store: the
// first node that lives does, so that it is done once.
func (s *Server) leads(ctx context.Context) (bool, error) {
	all, err := s.nodes.list(ctx)
	if err != nil {
		return false, err
	}
	for _, n := range all { // they are sorted
		if !n.Dead(time.Now(), s.nodes.every) {
			return s.config.Runs() && n.ID == s.config.Node, nil
		}
	}
	return true, nil
}

// writeOff writes the ends of sandboxes whose nodes are lost.
func (s *Server) writeOff(ctx context.Context) error {
	all, err := s.db.Work().Nodes(ctx)
	if err != nil {
		return err
	}
	since := time.Now().Add(-max(lostLeast, lostAfter*s.config.Lease))
	seen := map[string]bool{}
	for _, n := range all {
		seen[n.ID] = n.Seen.After(since)
	}
	return s.Sandboxes.WriteOff(ctx, since, func(node string) bool { return !seen[node] })
}

// sweepOld removes jobs, entries of the audit log and blobs that nobody needs.
func (s *Server) sweepOld(ctx context.Context, now time.Time) error {
	jobs, err := s.db.Work().Prune(ctx, now.Add(-jobsKept))
	if err != nil {
		return err
	}
	entries := 0
	if keep := s.config.KeepAudit; keep > 0 {
		if entries, err = s.db.Accounts().PruneAudit(ctx, now.Add(-keep)); err != nil {
			return err
		}
	}
	blobs, bytes, err := s.sweepBlobs(ctx, now.Add(-blobsKept))
	if err != nil {
		return err
	}
	s.log.InfoContext(ctx, "swept what is old", "jobs", jobs, "audit", entries, "blobs", blobs, "blob_bytes", bytes)
	return nil
}

// digestKey holds a digest in few bytes: there may be millions.
type digestKey [sha256.Size]byte

func keyOf(digest string) (k digestKey, err error) {
	b, err := hex.DecodeString(strings.TrimPrefix(digest, "sha256:"))
	if err != nil || len(b) != len(k) {
		return k, fmt.Errorf("%q is no digest", digest)
	}
	return digestKey(b), nil
}

// sweepBlobs removes blobs that no row names and that were put before an
// instant. An upload puts a blob and then writes its row; that is why the blobs
// are listed first and the rows read after that, and why the age is looked at
// once more before a blob goes: putting it again has made it young.
func (s *Server) sweepBlobs(ctx context.Context, before time.Time) (n int, size int64, err error) {
	old := map[digestKey]bool{}
	for after := ""; ; {
		page, err := s.blobs.List(ctx, after, blobPage)
		if err != nil {
			return 0, 0, err
		}
		for _, b := range page {
			k, err := keyOf(b.Digest)
			if err != nil {
				return 0, 0, err
			}
			if b.Modified.Before(before) {
				old[k] = true
			}
		}
		if len(page) < blobPage {
			break
		}
		after = page[len(page)-1].Digest
	}
	if len(old) == 0 {
		return 0, 0, nil
	}
	named := 0
	err = s.db.Digests(ctx, func(d string) {
		if k, err := keyOf(d); err == nil {
			named++
			delete(old, k)
		}
	})
	if err != nil {
		return 0, 0, err
	}
	if named == 0 {
		// A database that knows nothing is more likely the wrong one.
		return 0, 0, fault.Errorf(fault.Conflict, "the database names no blob, and %d old ones are there: none is removed", len(old)).
			WithHint("does the database belong to these blobs?")
	}
	for k := range old {
		digest := "sha256:" + hex.EncodeToString(k[:])
		info, err := s.blobs.Stat(ctx, digest)
		switch {
		case fault.Is(err, fault.NotFound):
			continue
		case err != nil:
			return n, size, err
		case !info.Modified.Before(before):
			continue
		}
		if err := s.blobs.Delete(ctx, digest); err != nil {
			return n, size, err
		}
		n, size = n+1, size+info.Size
	}
	return n, size, nil
}
