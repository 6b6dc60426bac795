package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/account"
	"assay/internal/blob"
	"assay/internal/fault"
	"assay/internal/judging"
	"assay/internal/sqlstore"
	"assay/internal/work"
)

// sweeper is what of a server sweeps: stores.
func sweeper(t *testing.T) (s *Server, dir string) {
	t.Helper()
	dir = t.TempDir()
	db, err := sqlstore.Open(t.Context(), filepath.Join(dir, "assay.db"))
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := blob.OpenFolder(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	s = &Server{db: db, blobs: blobs, log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, dir
}

// put keeps a blob of an age.
func put(t *testing.T, s *Server, dir, text string, age time.Duration) string {
	t.Helper()
	digest, _, err := s.blobs.Put(t.Context(), strings.NewReader(text), 1000)
	if err != nil {
		t.Fatal(err)
	}
	digits := strings.TrimPrefix(digest, "sha256:")
	at := time.Now().Add(-age)
	if err := os.Chtimes(filepath.Join(dir, "blobs", digits[:2], digits), at, at); err != nil {
		t.Fatal(err)
	}
	return digest
}

func kept(t *testing.T, s *Server, digest string) bool {
	t.Helper()
	_, err := s.blobs.Stat(t.Context(), digest)
	if err != nil && !fault.Is(err, fault.NotFound) {
		t.Fatal(err)
	}
	return err == nil
}

func addProblem(t *testing.T, s *Server, id, blob string) {
	t.Helper()
	if err := s.db.Judging().PutVersion(t.Context(), judging.Version{Problem: id, Digest: "v", Package: blob, Uploaded: time.Now()}); err != nil {
		t.Fatal(err)
	}
}

func TestSweepKeepsWhatIsNamedOrYoung(t *testing.T) {
	t.Parallel()
	s, dir := sweeper(t)
	named := put(t, s, dir, "named", 48*time.Hour)
	orphan := put(t, s, dir, "orphan", 48*time.Hour)
	young := put(t, s, dir, "young", 24*time.Hour)
	addProblem(t, s, "p", named)
	now := time.Now()
	for id, ended := range map[string]time.Time{"old": now.Add(-8 * 24 * time.Hour), "new": now.Add(-6 * 24 * time.Hour)} {
		err := s.db.Work().Enqueue(t.Context(), work.Job{ID: id, Kind: "judge", Created: ended})
		if err == nil {
			err = s.db.Work().Cancel(t.Context(), id, ended, "")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.config.KeepAudit = time.Hour
	for i, age := range []time.Duration{2 * time.Hour, time.Minute} {
		if err := s.db.Accounts().AddAudit(t.Context(), []account.Entry{{ID: string(rune('a' + i)), At: now.Add(-age)}}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time there is nothing to do
		if err := s.sweepOld(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if !kept(t, s, named) || !kept(t, s, young) || kept(t, s, orphan) {
			t.Errorf("kept: named %v, young %v, orphan %v", kept(t, s, named), kept(t, s, young), kept(t, s, orphan))
		}
		if _, err := s.db.Work().Job(t.Context(), "old"); !fault.Is(err, fault.NotFound) {
			t.Errorf("old job: %v", err)
		}
		if _, err := s.db.Work().Job(t.Context(), "new"); err != nil {
			t.Errorf("new job: %v", err)
		}
		log, err := s.db.Accounts().Audit(t.Context(), account.AuditQuery{Limit: 9})
		if err != nil || len(log) != 1 || log[0].ID != "b" {
			t.Errorf("audit log: %+v, %v", log, err)
		}
	}
}

// during does something when the blobs have been listed: an upload comes then.
type during struct {
	blob.Store
	listed func()
}

func (d during) List(ctx context.Context, after string, max int) ([]blob.Info, error) {
	page, err := d.Store.List(ctx, after, max)
	d.listed()
	return page, err
}

func TestSweepKeepsWhatIsUploadedMeanwhile(t *testing.T) {
	t.Parallel()
	s, dir := sweeper(t)
	addProblem(t, s, "p", put(t, s, dir, "other", time.Minute))
	again := put(t, s, dir, "put again", 48*time.Hour)
	written := put(t, s, dir, "row written", 48*time.Hour)
	s.blobs = during{s.blobs, func() {
		// One has put its bytes again and not yet written its row; of the other
		// one the row is written.
		if _, _, err := s.blobs.Put(t.Context(), strings.NewReader("put again"), 1000); err != nil {
			t.Error(err)
		}
		addProblem(t, s, "q", written)
	}}
	if n, _, err := s.sweepBlobs(t.Context(), time.Now().Add(-blobsKept)); err != nil || n != 0 {
		t.Errorf("removed %d, %v", n, err)
	}
	if !kept(t, s, again) || !kept(t, s, written) {
		t.Error("a blob that is needed is gone")
	}
}

func TestSweepDistrustsAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	s, dir := sweeper(t)
	orphan := put(t, s, dir, "orphan", 48*time.Hour)
	_, _, err := s.sweepBlobs(t.Context(), time.Now().Add(-blobsKept))
	if !fault.Is(err, fault.Conflict) || !kept(t, s, orphan) {
		t.Errorf("got %v, kept %v", err, kept(t, s, orphan))
	}
}
