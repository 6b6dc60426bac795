package app

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestProgramCache(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "programs")
	c, err := openProgramCache(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Get("00"); got != nil || err != nil {
		t.Fatalf("Get of nothing = %q, %v", got, err)
	}
	for _, text := range []string{"first", "second"} {
		if err := c.Put("00", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Get("00"); !bytes.Equal(got, []byte(text)) || err != nil {
			t.Fatalf("Get = %q, %v, want %q", got, err, text)
		}
	}
	// A large old one has to go when another comes, the one in use stays.
	large := filepath.Join(dir, "01")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, maxPrograms+1); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(large, old, old); err != nil {
		t.Fatal(err)
	}
	if err := c.Put("02", []byte("new")); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if len(names) != 2 || names[0] != "00" || names[1] != "02" {
		t.Errorf("the cache holds %q, want 00 and 02", names)
	}
}
