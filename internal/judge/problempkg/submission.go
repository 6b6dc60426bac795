package problempkg

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/fault"
	"assay/internal/judge"
)

// ReadSubmission reads one submission from a file, or from a folder of files,
// that need not be part of a package. A tag in the source, or the folder of a
// submissions folder it lies in, says what it must do; with neither, the
// expectation is empty. warnings are for people.
//
// Kinds of error: NotFound, and Invalid for what cannot be a submission.
func ReadSubmission(path string) (l Labelled, warnings []string, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return l, nil, fault.Errorf(fault.Invalid, "submission %s: %w", path, err)
	}
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l, nil, fault.Errorf(fault.NotFound, "submission %s does not exist", path)
	case err != nil:
		return l, nil, fault.Errorf(fault.Invalid, "submission: %w", err)
	case !info.IsDir() && !info.Mode().IsRegular():
		return l, nil, fault.Errorf(fault.Invalid, "submission %s is neither a file nor a folder", path)
	}
	folder := filepath.Dir(abs)
	l.Path = path
	l.Submission.Name = filepath.Base(folder) + "/" + filepath.Base(abs)
	names := []string{filepath.Base(abs)}
	if info.IsDir() {
		if names, err = listSources(abs); err != nil {
			return l, nil, err
		}
		folder = abs
	}
	var total int64
	for _, name := range names {
		data, err := readSource(filepath.Join(folder, name))
		if err != nil {
			return l, nil, err
		}
		if total += int64(len(data)); total > maxSource {
			return l, nil, fault.Errorf(fault.Invalid, "submission %s has more than %d bytes", path, maxSource)
		}
		l.Submission.Files = append(l.Submission.Files, judge.SourceFile{Name: name, Data: data})
	}
	label := ""
	if parent := filepath.Dir(abs); filepath.Base(filepath.Dir(parent)) == "submissions" {
		label = filepath.Base(parent)
	}
	l.Expectation, warnings = expectation(l, label)
	return l, warnings, nil
}

func listSources(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "submission: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if !e.Type().IsRegular() {
			return nil, fault.Errorf(fault.Invalid, "submission %s: %s is not a regular file", dir, e.Name()).
				WithHint("a submission is one folder of sources")
		}
		names = append(names, e.Name())
	}
	if len(names) > judge.MaxSourceFiles {
		return nil, fault.Errorf(fault.Invalid, "submission %s has %d files, at most %d are taken", dir, len(names), judge.MaxSourceFiles)
	}
	return names, nil
}

func readSource(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "submission: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSource+1))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "read submission: %w", err)
	}
	if len(data) > maxSource {
		return nil, fault.Errorf(fault.Invalid, "submission %s has more than %d bytes", path, maxSource)
	}
	return data, nil
}
