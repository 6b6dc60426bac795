package app

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// maxPrograms is how much the cache of jury programs keeps, in bytes; what was
// not used for longest goes first.
const maxPrograms = 2 << 30

// programCache is a folder of compiled jury programs, one file each, shared by
// all processes on the data directory.
type programCache struct{ dir string }

func openProgramCache(dir string) (programCache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return programCache{}, fmt.Errorf("open the cache of jury programs: %w", err)
	}
	return programCache{dir}, nil
}

// Get gives nil where nothing is kept.
func (c programCache) Get(key string) ([]byte, error) {
	name := filepath.Join(c.dir, key)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a compiled jury program: %w", err)
	}
	now := time.Now()
	// Another process may have removed it meanwhile; the bytes are here.
	_ = os.Chtimes(name, now, now)
	return data, nil
}

// Put keeps the program: whole or not at all, whoever else writes it.
func (c programCache) Put(key string, data []byte) error {
	f, err := os.CreateTemp(c.dir, ".new-*")
	if err != nil {
		return fmt.Errorf("keep a compiled jury program: %w", err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(c.dir, key))
	}
	if err != nil {
		return fmt.Errorf("keep a compiled jury program: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return c.shrink()
}

// shrink removes what was not used for longest.
func (c programCache) shrink() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("look through the cache of jury programs: %w", err)
	}
	var files []fs.FileInfo
	var total int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			files = append(files, info)
			total += info.Size()
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return cmp.Compare(a.ModTime().UnixNano(), b.ModTime().UnixNano()) })
	for _, f := range files {
		if total <= maxPrograms {
			break
		}
		if err := os.Remove(filepath.Join(c.dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("shrink the cache of jury programs: %w", err)
		}
		total -= f.Size()
	}
	return nil
}
