package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// Folder keeps blobs as files: ab/abcd… below it. Files that are being written
// are in tmp.
type Folder struct {
	root string
	lock *os.File
}

var _ Store = (*Folder)(nil)

const (
	folderTemp = "tmp"
	folderLock = "lock"
	// shardLen is how many digits name the folder that a blob lies in.
	shardLen = 2
)

// OpenFolder opens the store in a folder, and makes it if it is not there. If no
// other process has it open, what a crash left half-written is removed.
func OpenFolder(path string) (*Folder, error) {
	if err := os.MkdirAll(filepath.Join(path, folderTemp), 0o700); err != nil {
		return nil, explainDisk("open the folder of blobs", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, folderLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, explainDisk("open the folder of blobs", err)
	}
	f := &Folder{path, lock}
	// Everybody who may be writing holds the lock together with others.
	if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		err = f.sweep()
	} else if errors.Is(err, unix.EWOULDBLOCK) {
		err = nil
	}
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_SH)
	}
	if err != nil {
		lock.Close()
		return nil, explainDisk("open the folder of blobs", err)
	}
	return f, nil
}

func (f *Folder) sweep() error {
	temp := filepath.Join(f.root, folderTemp)
	entries, err := os.ReadDir(temp)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(temp, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the use of the folder; no Put may be running.
func (f *Folder) Close() error { return f.lock.Close() }

func (f *Folder) path(digits string) string {
	return filepath.Join(f.root, digits[:shardLen], digits)
}

// Put keeps what r gives.
func (f *Folder) Put(ctx context.Context, r io.Reader, max int64) (string, int64, error) {
	temp, err := os.CreateTemp(filepath.Join(f.root, folderTemp), "put-")
	if err != nil {
		return "", 0, explainDisk("keep a blob", err)
	}
	defer func() {
		temp.Close()
		// After the rename it is not there.
		_ = os.Remove(temp.Name())
	}()
	digits, size, err := receive(ctx, temp, r, max)
	if err != nil {
		return "", 0, err
	}
	return digestPrefix + digits, size, explainDisk("keep a blob", f.keep(temp, digits, size))
}

// keep gives a file that is written its place.
func (f *Folder) keep(temp *os.File, digits string, size int64) error {
	to := f.path(digits)
	if info, err := os.Stat(to); err == nil && info.Size() == size {
		now := time.Now()
		// Whoever looks for blobs that nobody needs must see that somebody does.
		if err := os.Chtimes(to, now, now); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := temp.Chmod(0o400); err != nil {
		return err
	}
	if err := temp.Sync(); err != nil {
		return err
	}
	shard := filepath.Dir(to)
	if err := os.Mkdir(shard, 0o700); err == nil {
		if err := syncFolder(f.root); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.Rename(temp.Name(), to); err != nil {
		return err
	}
	return syncFolder(shard)
}

// syncFolder makes the names in a folder last.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Open gives the bytes of a blob.
func (f *Folder) Open(_ context.Context, digest string) (io.ReadCloser, error) {
	digits, err := parseDigest(digest)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(f.path(digits))
	if err != nil {
		return nil, f.explain(digest, err)
	}
	return newChecked(file, digest, func(err error) error { return explainDisk("read a blob", err) }), nil
}

func (f *Folder) explain(digest string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return notFound(digest)
	}
	return explainDisk("blob "+digest, err)
}

// Stat says how large a blob is.
func (f *Folder) Stat(_ context.Context, digest string) (Info, error) {
	digits, err := parseDigest(digest)
	if err != nil {
		return Info{}, err
	}
	info, err := os.Stat(f.path(digits))
	if err != nil {
		return Info{}, f.explain(digest, err)
	}
	return Info{digest, info.Size(), info.ModTime()}, nil
}

// List gives the blobs after a digest.
func (f *Folder) List(ctx context.Context, after string, max int) ([]Info, error) {
	from, err := listFrom(after, max)
	if err != nil {
		return nil, err
	}
	shards, err := os.ReadDir(f.root)
	if err != nil {
		return nil, explainDisk("list blobs", err)
	}
	var all []Info
	for _, shard := range shards {
		if len(shard.Name()) != shardLen || (from != "" && shard.Name() < from[:shardLen]) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		// They are sorted by name.
		entries, err := os.ReadDir(filepath.Join(f.root, shard.Name()))
		if err != nil {
			return nil, explainDisk("list blobs", err)
		}
		for _, e := range entries {
			if e.Name() <= from || !isDigits(e.Name()) {
				continue
			}
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // it was deleted meanwhile
			}
			if err != nil {
				return nil, explainDisk("list blobs", err)
			}
			if all = append(all, Info{digestPrefix + e.Name(), info.Size(), info.ModTime()}); len(all) == max {
				return all, nil
			}
		}
	}
	return all, nil
}

// listFrom checks what List was given.
func listFrom(after string, max int) (string, error) {
	if max <= 0 {
		return "", fault.Errorf(fault.Invalid, "a list of %d blobs is none", max)
	}
	if after == "" {
		return "", nil
	}
	return parseDigest(after)
}

// Delete removes a blob.
func (f *Folder) Delete(_ context.Context, digest string) error {
	digits, err := parseDigest(digest)
	if err != nil {
		return err
	}
	if err := os.Remove(f.path(digits)); !errors.Is(err, fs.ErrNotExist) {
		return explainDisk("delete blob "+digest, err)
	}
	return nil
}

// Ping looks whether the folder can still be reached.
func (f *Folder) Ping(context.Context) error {
	info, err := os.Stat(filepath.Join(f.root, folderTemp))
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no folder", info.Name())
	}
	return explainDisk("look at the folder of blobs", err)
}
