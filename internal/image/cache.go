package image

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// workdir is a directory under tmp/ that belongs to one running build. Its
// lock tells the next Open that the build is alive.
type workdir struct {
	path string
	lock *fileLock
}

// newWork makes an empty directory for a build.
func (s *Store) newWork() (*workdir, error) {
	for {
		f, err := os.CreateTemp(s.path(dirTmp), "build-*.lock")
		if err != nil {
			return nil, s.diskFault(fmt.Errorf("make a directory to build in: %w", err), 0)
		}
		name := f.Name()
		f.Close()
		// A sweep may take the file first; then it is gone, and we start again.
		l, err := tryLock(name, unix.LOCK_EX)
		if err != nil {
			return nil, err
		}
		if l == nil {
			continue
		}
		w := &workdir{path: strings.TrimSuffix(name, ".lock"), lock: l}
		if err := os.Mkdir(w.path, 0o755); err != nil {
			_ = w.remove() // nothing is in it
			return nil, s.diskFault(fmt.Errorf("make a directory to build in: %w", err), 0)
		}
		return w, nil
	}
}

// remove deletes whatever the build left, the lock last.
func (w *workdir) remove() error {
	if err := removeTree(w.path); err != nil {
		return err
	}
	err := os.Remove(w.path + ".lock")
	w.lock.release()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// sweepTmp removes what builds that died left in tmp/.
func (s *Store) sweepTmp() error {
	entries, err := os.ReadDir(s.path(dirTmp))
	if err != nil {
		return fmt.Errorf("look for unfinished builds: %w", err)
	}
	seen := map[string]bool{}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".lock")
		if seen[name] {
			continue
		}
		seen[name] = true
		l, err := tryLock(s.path(dirTmp, name+".lock"), unix.LOCK_EX)
		if err != nil {
			return err
		}
		if l == nil {
			continue // its build is running
		}
		if err := (&workdir{path: s.path(dirTmp, name), lock: l}).remove(); err != nil {
			return fault.Errorf(kindOfFS(err), "remove unfinished build: %w", err)
		}
	}
	return nil
}

// removeTree deletes a directory of a build. Mounts that a killed tool may
// have left in it are detached first: following one would delete the host's
// own files.
func removeTree(dir string) error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		fields := strings.Fields(sc.Text())
		if len(fields) < 5 {
			continue
		}
		point := unescapeMount(fields[4])
		if !strings.HasPrefix(point, dir+"/") {
			continue
		}
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("detach %s: %w", point, err)
		}
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	err = os.RemoveAll(dir)
	if err != nil && !FullRoot() {
		// A tree may have directories that its owner may not write to.
		_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				_ = os.Chmod(p, 0o700)
			}
			return nil
		})
		err = os.RemoveAll(dir)
	}
	return err
}

// unescapeMount undoes mountinfo's octal escapes of blanks and backslashes.
func unescapeMount(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// publish makes a finished directory a result under its final path. All of it
// reaches the disk before the name does, so that no power cut leaves a name
// with half a result.
func publish(from, to string) error {
	d, err := os.Open(from)
	if err != nil {
		return err
	}
	err = unix.Syncfs(int(d.Fd()))
	d.Close()
	if err != nil {
		return fmt.Errorf("write to disk: %w", err)
	}
	// Nothing takes a directory without its .json for a result: what is there
	// is a removal that was cut short.
	if err := removeTree(to); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// writeJSON replaces a small file as a whole.
func (s *Store) writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return s.writeFile(path, append(data, '\n'))
}

func (s *Store) writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return s.diskFault(err, int64(len(data)))
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error tells more
		return s.diskFault(fmt.Errorf("write %s: %w", path, err), int64(len(data)))
	}
	return nil
}

// readJSON reads what writeJSON wrote; a file that is not there gives
// fs.ErrNotExist.
func readJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
