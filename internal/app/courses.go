package app

import (
	"context"
	"path/filepath"

	"assay/internal/course/class"
	"assay/internal/sqlstore"
)

// Courses are the courses of a data directory.
type Courses struct {
	*class.Book
	db *sqlstore.DB
}

// OpenCourses opens the courses of a data directory; many processes may have
// them open. Close it.
func OpenCourses(ctx context.Context, dataDir string) (*Courses, error) {
	db, err := sqlstore.Open(ctx, filepath.Join(dataDir, "assay.db"))
	if err != nil {
		return nil, err
	}
	return &Courses{class.NewBook(db.Courses()), db}, nil
}

// Close closes the store.
func (c *Courses) Close() error { return c.db.Close() }
