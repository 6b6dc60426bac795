package sqlstore

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"assay/internal/judging"
	"assay/internal/judging/storetest"
	"assay/internal/sqlstore/sqltest"
	"assay/internal/work"
)

func judgingParts(db *DB) storetest.Parts {
	return storetest.Parts{Store: db.Judging(), Claim: func(ctx context.Context) (work.Job, bool, error) {
		// The suite's jobs are enqueued in its own time.
		now := time.Now()
		return db.Work().Claim(ctx, work.Claim{Node: "node", Kinds: []string{judging.JobKind}, Token: work.NewID(), Now: now, Until: now.Add(time.Minute)})
	}}
}

func TestJudging(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		storetest.Exercise(t, func(t *testing.T) storetest.Parts {
			db, err := Open(t.Context(), filepath.Join(t.TempDir(), "assay.db"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
			return judgingParts(db)
		})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		storetest.Exercise(t, func(t *testing.T) storetest.Parts {
			db, err := OpenURL(t.Context(), sqltest.Postgres(t).URL)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
			return judgingParts(db)
		})
	})
}
