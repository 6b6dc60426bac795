package problempkg

import (
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"assay/internal/fault"
)

//go:embed scaffold
var scaffold embed.FS

// Template is a small complete package to begin with.
type Template string

// The templates.
const (
	PassFailTemplate    Template = "pass-fail"
	InteractiveTemplate Template = "interactive"
	ScoringTemplate     Template = "scoring"
)

// Templates are all templates there are.
func Templates() []Template {
	return []Template{PassFailTemplate, InteractiveTemplate, ScoringTemplate}
}

var shortName = regexp.MustCompile(`^[a-z0-9]+$`)

// New makes the folder dir with a package of the 2025-09 format in it: text,
// cases, validators, and submissions that are right and wrong. title is the name
// of the problem; empty is the folder's. Kinds of error: Conflict for a folder
// that is there and not empty, Invalid for a name or template that cannot be.
func New(dir string, template Template, title string) error {
	root, err := fs.Sub(scaffold, "scaffold/"+string(template))
	if err == nil {
		_, err = fs.Stat(root, "problem.yaml")
	}
	if err != nil {
		return fault.Errorf(fault.Invalid, "template %q is not known", template).WithHint("use one of: %v", Templates())
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fault.Errorf(fault.Invalid, "problem package %s: %w", dir, err)
	}
	name := filepath.Base(abs)
	if !shortName.MatchString(name) {
		return fault.Errorf(fault.Invalid, "%q cannot be the name of a problem package", name).
			WithHint("name the folder with lower-case letters and digits only")
	}
	switch list, err := os.ReadDir(dir); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fault.Errorf(fault.Invalid, "problem package %s: %w", dir, err)
	case len(list) > 0:
		return fault.Errorf(fault.Conflict, "the folder %s is there and not empty", dir).WithHint("name a new folder")
	}
	if title == "" {
		title = strings.ToUpper(name[:1]) + name[1:]
	}
	fill := strings.NewReplacer(`"@NAME@"`, strconv.Quote(title), "@UUID@", newUUID())
	err = fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(dir, filepath.FromSlash(p))
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		data, err := fs.ReadFile(root, p)
		if err != nil {
			return err
		}
		if p == "problem.yaml" {
			data = []byte(fill.Replace(string(data)))
		}
		return os.WriteFile(target, data, 0o644)
	})
	if err != nil {
		return fault.Errorf(fault.Invalid, "write the package: %w", err)
	}
	return nil
}

// newUUID is a random one (version 4).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
