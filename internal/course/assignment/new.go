package assignment

import (
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/internal/course"
	"assay/internal/fault"
)

// scaffold has a small assignment that works for each mode and language.
//
//go:embed scaffold
var scaffold embed.FS

// Options say what New makes.
type Options struct {
	Mode     course.Mode
	Language string
	Title    string // empty: the folder's name
}

// New makes a folder with a small assignment that works, and gives the paths of
// its files. A folder that is not empty is a Conflict.
func New(dir string, o Options) ([]string, error) {
	from := "scaffold/" + string(o.Mode) + "/" + o.Language
	if _, err := fs.Stat(scaffold, from); err != nil || o.Language == "" {
		return nil, fault.Errorf(fault.Unsupported, "there is no sample of mode %s in %s", o.Mode, o.Language).
			WithHint("samples of mode %s: %s", o.Mode, strings.Join(samples(o.Mode), ", "))
	}
	there, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Errorf(fault.Invalid, "new assignment: %w", err)
	}
	if len(there) > 0 {
		return nil, fault.Errorf(fault.Conflict, "%s is not empty", dir).WithHint("name a folder that does not exist yet")
	}
	if o.Title == "" {
		o.Title = filepath.Base(dir)
	}
	title, err := yaml.Marshal(o.Title)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "title %q: %w", o.Title, err)
	}
	var made []string
	err = fs.WalkDir(scaffold, from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(name, from)))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		data, err := fs.ReadFile(scaffold, name)
		if err != nil {
			return err
		}
		if d.Name() == FileName {
			data = []byte(strings.Replace(string(data), "TITLE", strings.TrimSpace(string(title)), 1))
		}
		made = append(made, to)
		return os.WriteFile(to, data, 0o644)
	})
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "new assignment: %w", err)
	}
	return made, nil
}

// samples are the languages that have a sample of a mode.
func samples(m course.Mode) []string {
	entries, err := fs.ReadDir(scaffold, "scaffold/"+string(m))
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	slices.Sort(list)
	return list
}
