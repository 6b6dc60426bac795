package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/fault"
	"assay/internal/judge"
)

// recorder writes records into a folder; one without a folder writes nothing.
type recorder struct {
	dir string
	// pkg is the absolute path of the package.
	pkg string
}

// newRecorder makes the folder, if it is named.
func newRecorder(dir, pkg string) (recorder, error) {
	abs, err := filepath.Abs(pkg)
	if err != nil {
		return recorder{}, fault.Errorf(fault.Invalid, "problem package %s: %w", pkg, err)
	}
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return recorder{}, fault.Errorf(fault.Invalid, "folder for records: %w", err)
		}
	}
	return recorder{dir: dir, pkg: abs}, nil
}

// write writes one record. Its name begins with those of problem and submission
// and ends with the run's ID. Only its owner may read it.
func (r recorder) write(rec judge.Record) error {
	if r.dir == "" {
		return nil
	}
	data, err := json.MarshalIndent(rec, "", " ")
	if err != nil {
		return fault.Errorf(fault.Internal, "write record: %w", err)
	}
	name := fileWord(rec.Run.Problem.ShortName) + "-" + fileWord(rec.Run.Submission.Name) + "-" + fileWord(rec.Run.ID) + ".json"
	return writeWhole(filepath.Join(r.dir, name), append(data, '\n'), 0o600)
}

// fileWord makes a part of a file name of any text.
func fileWord(text string) string {
	text = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' {
			return r
		}
		return '-'
	}, text)
	return strings.TrimLeft(text[:min(len(text), 80)], ".")
}

// writeWhole writes a file that is there whole or not at all.
func writeWhole(path string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".assay-*")
	if err != nil {
		return fault.Errorf(fault.Invalid, "write %s: %w", path, err)
	}
	_, err = f.Write(data)
	for _, step := range []func() error{func() error { return f.Chmod(mode) }, f.Close, func() error { return os.Rename(f.Name(), path) }} {
		if stepErr := step(); err == nil {
			err = stepErr
		}
	}
	if err != nil {
		// The error that counts is the one before.
		_ = os.Remove(f.Name())
		return fault.Errorf(fault.Unavailable, "write %s: %w", path, err)
	}
	return nil
}
