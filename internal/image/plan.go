package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"assay/internal/bytesize"
	"assay/internal/fault"
)

// treeFormat and imageFormat are raised when the same definition, or the same
// tree, must be built anew because this package builds differently.
const (
	treeFormat  = 2
	imageFormat = 1
)

// plan is what one build is going to make, with every name by content known.
type plan struct {
	name  string
	def   Definition // with its parents and defaults merged in
	files []treeFile
	// source is "debian", "oci" or "tar"; base names it by content.
	source, base string

	guestd, tree, image, digest string
}

// treeFile is a file of the definition, read.
type treeFile struct {
	path  string
	mode  int64
	owner int
	data  []byte
}

// found is a definition and where it was found.
type found struct {
	name, origin string
	// dir is where relative paths start; "" for built-in definitions, which
	// have none.
	dir string
	def Definition
}

// The origins that are not the path of a file.
const (
	originBuiltin  = "built-in"
	originImported = "imported"
)

// find reads the definition called name: an imported one, one of Options.Dirs,
// a built-in one, or the file if name is the path of one.
func (s *Store) find(name string) (found, error) {
	if strings.ContainsRune(name, '/') || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
		f, err := readDefinition(name)
		if err == nil && !nameRE.MatchString(f.name) {
			err = fault.Errorf(fault.Invalid, "%s: %q is no template name", name, f.name).
				WithHint("name the file in lower-case letters, digits and dashes")
		}
		return f, err
	}
	if !nameRE.MatchString(name) {
		return found{}, fault.Errorf(fault.Invalid, "%q is no template name", clip(name)).
			WithHint("a name has lower-case letters, digits and dashes; \"assay template list\" shows them all")
	}
	for _, dir := range append([]string{s.path(dirDefinitions)}, s.opt.Dirs...) {
		f, err := readDefinition(filepath.Join(dir, name+".yaml"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if dir == s.path(dirDefinitions) {
			f.origin = originImported
		}
		return f, err
	}
	if s.opt.Builtin != nil {
		data, err := fs.ReadFile(s.opt.Builtin, name+".yaml")
		if err == nil {
			d, err := Parse("templates/"+name+".yaml", data)
			return found{name: name, origin: originBuiltin, def: d}, err
		}
	}
	return found{}, fault.Errorf(fault.NotFound, "there is no template %q", name).
		WithHint("there are: %s", strings.Join(s.names(), ", "))
}

func readDefinition(file string) (found, error) {
	abs, err := filepath.Abs(file)
	if err != nil {
		return found{}, err
	}
	f, err := os.Open(abs)
	if err != nil {
		return found{}, fault.Errorf(kindOfFS(err), "read definition: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return found{}, fault.Errorf(fault.Invalid, "%s is not a regular file", file)
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxDefinition+1))
	if err != nil {
		return found{}, fmt.Errorf("read definition: %w", err)
	}
	base := filepath.Base(abs)
	d, err := Parse(file, data)
	return found{name: strings.TrimSuffix(base, filepath.Ext(base)), origin: abs, dir: filepath.Dir(abs), def: d}, err
}

// names gives all known template names, sorted.
func (s *Store) names() []string {
	var names []string
	add := func(entries []fs.DirEntry, ext string) {
		for _, e := range entries {
			if n, ok := strings.CutSuffix(e.Name(), ext); ok && nameRE.MatchString(n) {
				names = append(names, n)
			}
		}
	}
	for _, dir := range append([]string{s.path(dirDefinitions)}, s.opt.Dirs...) {
		entries, _ := os.ReadDir(dir) // a directory that is not there has none
		add(entries, ".yaml")
	}
	if s.opt.Builtin != nil {
		entries, _ := fs.ReadDir(s.opt.Builtin, ".")
		add(entries, ".yaml")
	}
	entries, _ := os.ReadDir(s.path(dirRecords))
	add(entries, ".json")
	slices.Sort(names)
	return slices.Compact(names)
}

// merged reads a definition with its parents, and makes its paths absolute.
func (s *Store) merged(name string, below ...string) (found, error) {
	f, err := s.find(name)
	if err != nil {
		return f, err
	}
	if slices.Contains(below, f.name) || len(below) > maxParents {
		return f, fault.Errorf(fault.Invalid, "template %s stands on itself: %s", f.name, strings.Join(append(below, f.name), " from "))
	}
	f.def = f.def.absolute(f.dir)
	if f.def.From.Template == "" {
		return f, nil
	}
	parent, err := s.merged(f.def.From.Template, append(below, f.name)...)
	if err != nil {
		return f, fmt.Errorf("parent of template %s: %w", f.name, err)
	}
	f.def = f.def.extend(parent.def)
	if bad := f.def.check(); bad != nil {
		return f, fault.Errorf(fault.Invalid, "template %s with its parent %s: %s", f.name, parent.name, bad.text)
	}
	return f, nil
}

// absolute makes the paths in d independent of where it was read.
func (d Definition) absolute(dir string) Definition {
	abs := func(p string) string {
		if p == "" || filepath.IsAbs(p) {
			return p
		}
		return filepath.Join(dir, p)
	}
	if isPath(d.From.OCI) {
		d.From.OCI = abs(d.From.OCI)
	}
	d.From.Tar = abs(d.From.Tar)
	d.Files = slices.Clone(d.Files)
	for i := range d.Files {
		d.Files[i].Source = abs(d.Files[i].Source)
	}
	return d
}

// plan reads and names everything a build needs.
func (s *Store) plan(ctx context.Context, name string, obs Observer) (*plan, error) {
	f, err := s.merged(name)
	if err != nil {
		return nil, err
	}
	p := &plan{name: f.name, def: f.def}
	p.def.Shape = p.def.Shape.or(defaultShape)
	if p.def.User == "" {
		p.def.User = DefaultUser
	}
	if p.guestd, err = s.guestdDigest(ctx); err != nil {
		return nil, err
	}
	if p.files, err = readFiles(p.def.Files); err != nil {
		return nil, err
	}
	from := p.def.From
	switch {
	case from.Debian != "" && (from.OCI == "" || hasMmdebstrap()):
		p.source, p.base = "debian", "debian:"+from.Debian
	case from.OCI != "":
		if p.source = "oci"; from.Debian != "" {
			// The image stands in for suite, packages and steps together.
			p.def.Packages, p.def.Run = nil, nil
		}
		obs.Progress(Progress{Stage: StageFetch, Text: "look up " + from.OCI})
		d, err := s.resolveOCI(ctx, from.OCI, false)
		if err != nil {
			return nil, err
		}
		p.base = "oci:" + d
	default:
		d, err := fileDigest(ctx, from.Tar)
		if err != nil {
			return nil, err
		}
		p.source, p.base = "tar", "tar:"+d
	}
	p.nameByContent()
	return p, nil
}

func hasMmdebstrap() bool {
	_, err := exec.LookPath("mmdebstrap")
	return err == nil
}

// nameByContent computes the three digests: of the tree, of the image, and of
// all that a machine of this template is made from.
func (p *plan) nameByContent() {
	type file struct {
		Path, SHA256 string
		Mode         int64
		Owner        int
	}
	files := make([]file, len(p.files))
	for i, f := range p.files {
		sum := sha256.Sum256(f.data)
		files[i] = file{f.path, hex.EncodeToString(sum[:]), f.mode, f.owner}
	}
	packages := slices.Sorted(slices.Values(p.def.Packages))
	p.tree = digestOf("tree", treeFormat, p.base, runtime.GOARCH, packages, files, p.def.Run, p.def.User, FullRoot())
	p.image = digestOf("image", imageFormat, p.tree, p.guestd)
	p.digest = digestOf("template", p.image, p.def.Warm, p.def.Shape)
}

// digestOf names a list of values by content.
func digestOf(values ...any) string {
	data, err := json.Marshal(values)
	if err != nil {
		panic(fmt.Sprintf("image: value without JSON form: %v", err))
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (s *Store) guestdDigest(ctx context.Context) (string, error) {
	d, err := fileDigest(ctx, s.opt.Guestd)
	if err != nil {
		return "", fault.Errorf(fault.Unsupported, "guestd is not there: %w", err).
			WithHint("build it with \"make build\", or reinstall Assay")
	}
	return d, nil
}

func readFiles(files []File) ([]treeFile, error) {
	var out []treeFile
	for _, f := range files {
		t := treeFile{path: f.Path, mode: f.perm(), data: []byte(f.Content)}
		if f.Owner == "user" {
			t.owner = UserID
		}
		if f.Source != "" {
			info, err := os.Stat(f.Source)
			if err != nil {
				return nil, fault.Errorf(kindOfFS(err), "file for %s: %w", f.Path, err)
			}
			if !info.Mode().IsRegular() || info.Size() > maxFileSource {
				return nil, fault.Errorf(fault.Invalid, "file for %s: %s is not a regular file of at most %s", f.Path, f.Source, bytesize.Size(maxFileSource))
			}
			if t.data, err = os.ReadFile(f.Source); err != nil {
				return nil, fault.Errorf(kindOfFS(err), "file for %s: %w", f.Path, err)
			}
		}
		out = append(out, t)
	}
	return out, nil
}
