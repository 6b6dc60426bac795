package sandbox

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// nameOnly is as much of a driver as a journal needs that has nothing to
// reclaim.
type nameOnly struct{ Driver }

func (nameOnly) Name() string { return "none" }

// TestRecordStaysGone: a deadline that comes when the machine is gone does not
// bring its record back.
func TestRecordStaysGone(t *testing.T) {
	t.Parallel()
	j, err := openJournal(t.Context(), filepath.Join(t.TempDir(), "run"), Options{Driver: nameOnly{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.begin("one", "none"); err != nil {
		t.Fatal(err)
	}
	if _, err := j.begin("one", "none"); err == nil {
		t.Error("two machines of one name")
	}
	if _, err := j.begin("two", "none"); err != nil {
		t.Fatal(err)
	}
	j.deadline("two", time.Now())
	if err := j.end("two"); err != nil {
		t.Fatal(err)
	}
	j.deadline("two", time.Now())
	if err := j.keep("two", &kept{}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(j.dir, "two.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the record is back: %v", err)
	}
	if err := j.end("one"); err != nil {
		t.Error(err)
	}
	if err := j.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(j.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
}
