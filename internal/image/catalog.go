package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"golang.org/x/sys/unix"

	"assay/internal/bytesize"
	"assay/internal/fault"
)

// Entry is one template in a list.
type Entry struct {
	Name string `json:"name"`
	// Origin is "built-in", "imported", or the definition's file.
	Origin      string   `json:"origin,omitempty"`
	Description string   `json:"description,omitempty"`
	Languages   []string `json:"languages,omitempty"`
	Shape       Shape    `json:"shape"`
	// Problem says why the definition cannot be used, or is empty.
	Problem string `json:"problem,omitempty"`
	// Digest, ImageBytes and Built tell of the last build; Digest is empty if
	// there was none.
	Digest     string     `json:"digest,omitempty"`
	ImageBytes int64      `json:"image_bytes,omitempty"`
	Built      *time.Time `json:"built,omitempty"`
}

// Details are everything known of one template.
type Details struct {
	Entry
	// Definition has the parents merged in.
	Definition Definition `json:"definition"`
	Image      string     `json:"image,omitempty"`
	Tree       string     `json:"tree,omitempty"`
	TreeBytes  int64      `json:"tree_bytes,omitempty"`
	// Packages are the Debian packages in the tree, "name=version".
	Packages []string `json:"installed_packages,omitempty"`
	// Log is the file with the tools' output of the last build.
	Log string `json:"log,omitempty"`
}

// List gives all templates that are defined or built, by name. A definition
// that cannot be read is listed with its problem.
func (s *Store) List() ([]Entry, error) {
	entries := []Entry{}
	for _, name := range s.names() {
		d, err := s.Show(name)
		if err != nil {
			return nil, err
		}
		entries = append(entries, d.Entry)
	}
	return entries, nil
}

// Show gives all that is known of a template, built or not.
func (s *Store) Show(name string) (Details, error) {
	f, err := s.merged(name)
	var rec record
	defined := f.name != ""
	if !defined {
		f.name = name
	}
	built := nameRE.MatchString(f.name) && readJSON(s.path(dirRecords, f.name+".json"), &rec) == nil
	if err != nil && !built && fault.Is(err, fault.NotFound) {
		return Details{}, err
	}
	d := Details{Entry: Entry{Name: f.name, Origin: f.origin}}
	switch {
	case err != nil && !defined && fault.Is(err, fault.NotFound):
		d.Origin, d.Description = "a file", "built from a definition file, which is elsewhere"
	case err != nil:
		d.Problem = err.Error()
	default:
		d.Definition = f.def
		d.Definition.Shape = d.Definition.Shape.or(defaultShape)
		d.Description, d.Languages, d.Shape = f.def.Description, f.def.Languages, d.Definition.Shape
	}
	if !built {
		return d, nil
	}
	var img imageInfo
	if err := readJSON(s.path(dirImages, hexOf(rec.Image), imageInfoName), &img); err != nil {
		return d, nil // a removal was cut short
	}
	d.Digest, d.ImageBytes, d.Built = rec.Digest, img.Bytes, &rec.Built
	d.Image, d.Tree = s.path(dirImages, hexOf(rec.Image), imageName), rec.Tree
	var tree treeInfo
	if err := readJSON(s.path(dirTrees, hexOf(rec.Tree), treeInfoName), &tree); err == nil {
		d.TreeBytes, d.Packages = tree.Bytes, tree.Packages
	}
	if log := s.path(dirLogs, f.name+".log"); exists(log) {
		d.Log = log
	}
	return d, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Import keeps a definition under a name. source is the path of a definition,
// of an OCI layout directory, of an image tar or of a root filesystem tar, or
// an OCI reference, which is looked up anew. The definition keeps pointing at
// what it names on disk. An imported template of the same name is replaced;
// built-in names are refused. Nothing is built.
func (s *Store) Import(ctx context.Context, name, source string) (Entry, error) {
	if !nameRE.MatchString(name) {
		return Entry{}, fault.Errorf(fault.Invalid, "%q is no template name", clip(name)).
			WithHint("a name has lower-case letters, digits and dashes")
	}
	if s.opt.Builtin != nil {
		if _, err := fs.Stat(s.opt.Builtin, name+".yaml"); err == nil {
			return Entry{}, fault.Errorf(fault.Conflict, "%s is the name of a built-in template", name).WithHint("choose another name")
		}
	}
	d, err := s.definitionOf(ctx, source)
	if err != nil {
		return Entry{}, fmt.Errorf("import %s: %w", source, err)
	}
	data, err := yaml.Marshal(d)
	if err != nil {
		return Entry{}, fmt.Errorf("import %s: %w", source, err)
	}
	if len(data) > MaxDefinition {
		return Entry{}, fault.Errorf(fault.Invalid, "import %s: a definition has at most %s", source, bytesize.Size(MaxDefinition))
	}
	if err := s.writeFile(s.path(dirDefinitions, name+".yaml"), data); err != nil {
		return Entry{}, fmt.Errorf("import %s: %w", source, err)
	}
	details, err := s.Show(name)
	return details.Entry, err
}

// definitionOf makes a definition of whatever source is.
func (s *Store) definitionOf(ctx context.Context, source string) (Definition, error) {
	info, err := os.Stat(source)
	if errors.Is(err, fs.ErrNotExist) {
		if isPath(source) || !isReference(source) {
			return Definition{}, fault.Errorf(fault.NotFound, "there is no such file").
				WithHint("an OCI image needs a registry reference with a tag or digest, or the path of a layout or tar")
		}
		if _, err := s.resolveOCI(ctx, source, true); err != nil {
			return Definition{}, err
		}
		return Definition{From: From{OCI: source}}, nil
	}
	if err != nil {
		return Definition{}, fault.Errorf(kindOfFS(err), "%w", err)
	}
	abs, err := filepath.Abs(source)
	if err != nil {
		return Definition{}, err
	}
	if info.IsDir() {
		_, err := s.resolveOCI(ctx, abs, true)
		return Definition{From: From{OCI: abs}}, err
	}
	if ext := filepath.Ext(abs); ext == ".yaml" || ext == ".yml" {
		f, err := readDefinition(source)
		return f.def.absolute(f.dir), err
	}
	kind, err := tarKind(abs)
	if err != nil {
		return Definition{}, err
	}
	if kind == "rootfs" {
		return Definition{From: From{Tar: abs}}, nil
	}
	_, err = s.resolveOCI(ctx, abs, true)
	return Definition{From: From{OCI: abs}}, err
}

// Remove deletes what was built under a name, its snapshots, and the
// definition if it was imported. It refuses with fault.Conflict while a sandbox
// or a build uses the template, and changes nothing then.
func (s *Store) Remove(name string) error {
	if !nameRE.MatchString(name) {
		return fault.Errorf(fault.Invalid, "%q is no template name", clip(name))
	}
	recPath, defPath := s.path(dirRecords, name+".json"), s.path(dirDefinitions, name+".yaml")
	var rec record
	err := readJSON(recPath, &rec)
	built := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !built && !exists(defPath) {
		if _, err := s.find(name); fault.Is(err, fault.NotFound) {
			return err
		}
		return fault.Errorf(fault.NotFound, "template %s is not built", name)
	}
	if built {
		for _, path := range []string{s.lockPath("image", rec.Image), s.lockPath("tree", rec.Tree), s.lockPath("template", rec.Digest)} {
			l, err := tryLock(path, unix.LOCK_EX)
			if err != nil {
				return err
			}
			if l == nil {
				return fault.Errorf(fault.Conflict, "template %s is in use by a sandbox or a build", name).
					WithHint("end its sandboxes (\"assay sandbox ls\") and try again")
			}
			defer l.release()
		}
		if err := os.Remove(recPath); err != nil {
			return fault.Errorf(kindOfFS(err), "remove template %s: %w", name, err)
		}
		if err := s.collectOf(rec); err != nil {
			return fmt.Errorf("remove template %s: %w", name, err)
		}
	}
	for _, p := range []string{defPath, s.path(dirLogs, name+".log")} {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fault.Errorf(kindOfFS(err), "remove template %s: %w", name, err)
		}
	}
	return nil
}

// referenced gives the hex of everything that a record names.
func (s *Store) referenced() (map[string]bool, error) {
	entries, err := os.ReadDir(s.path(dirRecords))
	if err != nil {
		return nil, err
	}
	refs := map[string]bool{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		var rec record
		if err := readJSON(s.path(dirRecords, e.Name()), &rec); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			return nil, err
		}
		refs[hexOf(rec.Digest)], refs[hexOf(rec.Image)], refs[hexOf(rec.Tree)] = true, true, true
	}
	return refs, nil
}

// kept are the kinds of results: the directory and its lock's kind.
var kept = []struct{ dir, lock string }{
	{dirSnapshots, "template"}, {dirImages, "image"}, {dirTrees, "tree"},
}

// collect removes results that no record names and nobody uses.
func (s *Store) collect() error {
	refs, err := s.referenced()
	if err != nil {
		return err
	}
	for _, k := range kept {
		entries, err := os.ReadDir(s.path(k.dir))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if refs[e.Name()] {
				continue
			}
			l, err := tryLock(s.lockPath(k.lock, e.Name()), unix.LOCK_EX)
			if err != nil {
				return err
			}
			if l == nil {
				continue // in use; the next build or removal sees to it
			}
			err = s.discard(s.path(k.dir, e.Name()))
			s.dropLock(k.lock, e.Name())
			l.release()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// collectOf removes what one record named, unless another record does too.
// Caller holds the locks and has removed the record.
func (s *Store) collectOf(rec record) error {
	refs, err := s.referenced()
	if err != nil {
		return err
	}
	for i, digest := range []string{rec.Digest, rec.Image, rec.Tree} {
		if refs[hexOf(digest)] {
			continue
		}
		if err := s.discard(s.path(kept[i].dir, hexOf(digest))); err != nil {
			return err
		}
		s.dropLock(kept[i].lock, digest)
	}
	return nil
}

// discard removes a result: it loses its name first, so that a removal that is
// cut short leaves no half of it under that name.
func (s *Store) discard(path string) error {
	w, err := s.newWork()
	if err != nil {
		return err
	}
	err = os.Rename(path, filepath.Join(w.path, "gone"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if rerr := w.remove(); err == nil {
		err = rerr
	}
	return err
}
