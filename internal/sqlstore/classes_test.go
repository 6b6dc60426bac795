package sqlstore

import (
	"context"
	"testing"
	"time"

	"assay/internal/classes/storetest"
	"assay/internal/work"
)

func TestClasses(t *testing.T) {
	t.Parallel()
	suiteOnBoth(t, storetest.Run, func(t *testing.T, open func(t *testing.T) *DB) storetest.Parts {
		db := open(t)
		return storetest.Parts{
			Store: db.Classes(),
			Claim: func(ctx context.Context, kind string) (work.Job, error) {
				now := time.Now()
				j, _, err := db.Work().Claim(ctx, work.Claim{Node: "node", Kinds: []string{kind}, Token: work.NewID(), Now: now, Until: now.Add(time.Minute)})
				return j, err
			},
		}
	})
}
