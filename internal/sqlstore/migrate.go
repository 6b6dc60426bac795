package sqlstore

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/pressly/goose/v3"

	"assay/internal/fault"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the tables up to date. The caller keeps other processes out.
func (db *DB) migrate(ctx context.Context) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	dialect := goose.DialectSQLite3
	if db.postgres {
		dialect = goose.DialectPostgres
	}
	p, err := goose.NewProvider(dialect, db.writer, files, goose.WithSlog(slog.New(slog.DiscardHandler)), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("prepare database: %w", err)
	}
	have, err := p.GetDBVersion(ctx)
	if err != nil {
		return db.explain("read the version of the database", err)
	}
	sources := p.ListSources()
	if newest := sources[len(sources)-1].Version; have > newest {
		return fault.Errorf(fault.Unsupported, "%s was written by a newer Assay (format %d, this one knows %d)", db.name, have, newest).
			WithHint("use the newer Assay")
	}
	if _, err := p.Up(ctx); err != nil {
		return db.explain("bring the database up to date", err)
	}
	return nil
}
