package problempkg

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/fault"
)

// Caps on what one package may hold.
const (
	maxEntries   = 50_000
	maxFile      = 1 << 30
	maxTotal     = 4 << 30
	maxPath      = 1024
	maxDepth     = 32
	maxLinkSteps = 40
	maxTextFile  = 64 << 10
	maxWarnings  = 100
)

type entryKind byte

const (
	isFile entryKind = iota
	isDir
	isLink
)

// rawEntry is one entry as it lies in the folder or zip.
type rawEntry struct {
	kind   entryKind
	size   int64
	target string // of a link
	open   func() (io.ReadCloser, error)
}

// rawTree are the entries by their slash path; the root is "". It is what a
// source gives; links are not followed in it.
type rawTree map[string]rawEntry

// add puts an entry and its parents into the tree. The path comes from outside.
func (r rawTree) add(name string, e rawEntry) error {
	if err := checkPath(name); err != nil {
		return err
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if have, ok := r[dir]; ok {
			if have.kind != isDir {
				return fault.Errorf(fault.Invalid, "%q lies in %q, which is not a folder", name, dir)
			}
			break
		}
		r[dir] = rawEntry{kind: isDir}
	}
	if len(r) >= maxEntries {
		return fault.Errorf(fault.Invalid, "the package has more than %d files and folders", maxEntries)
	}
	if have, ok := r[name]; ok {
		if have.kind == isDir && e.kind == isDir {
			return nil
		}
		return fault.Errorf(fault.Invalid, "%q is there twice", name)
	}
	if e.kind == isFile && e.size > maxFile {
		return fault.Errorf(fault.Invalid, "%q has %d bytes, at most %d are taken", name, e.size, int64(maxFile))
	}
	r[name] = e
	return nil
}

// checkPath refuses paths that could mean something outside of the tree.
func checkPath(name string) error {
	bad := func(why string) error {
		return fault.Errorf(fault.Invalid, "entry %q %s", clip(name), why).
			WithHint("pack the folder again with plain relative names")
	}
	switch {
	case name == "":
		return fault.Errorf(fault.Invalid, "the package has an entry without a name")
	case len(name) > maxPath:
		return bad("has too long a name")
	case strings.HasPrefix(name, "/"):
		return bad("has an absolute name")
	case strings.Contains(name, "\x00"):
		return bad("has a NUL in its name")
	}
	parts := strings.Split(name, "/")
	if len(parts) > maxDepth {
		return bad("lies too deep")
	}
	for _, p := range parts {
		if p == ".." {
			return bad("climbs out with \"..\"")
		}
		if p == "" || p == "." {
			return bad("has an empty part in its name")
		}
	}
	return nil
}

func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}

// file is a regular file of the package, links followed.
type file struct {
	size   int64
	open   func() (io.ReadCloser, error)
	sha256 string
	// start are its first bytes.
	start []byte
}

// tree is a package with its links followed and absent names left out.
type tree struct {
	files    map[string]*file
	names    []string // sorted by bytes
	warnings []string
}

func (t *tree) warn(format string, args ...any) {
	if len(t.warnings) < maxWarnings {
		t.warnings = append(t.warnings, fmt.Sprintf(format, args...))
	}
}

// entryName is what the format allows; other names count as absent.
var entryName = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,254}$`)

// resolve follows the links, all of which must stay inside of the tree.
func (r rawTree) resolve() (*tree, error) {
	w := &walker{raw: r, children: map[string][]string{}, out: &tree{files: map[string]*file{}}, active: map[string]bool{}}
	for name := range r {
		dir := path.Dir(name)
		if dir == "." {
			dir = ""
		}
		w.children[dir] = append(w.children[dir], path.Base(name))
	}
	for _, names := range w.children {
		slices.Sort(names)
	}
	if err := w.walk("", "", 0); err != nil {
		return nil, err
	}
	for name := range w.out.files {
		w.out.names = append(w.out.names, name)
	}
	slices.Sort(w.out.names)
	return w.out, nil
}

type walker struct {
	raw      rawTree
	children map[string][]string
	out      *tree
	// active are the real folders being walked: a link back to one is a circle.
	active map[string]bool
	total  int64
}

func (w *walker) walk(real, shown string, depth int) error {
	if depth > maxDepth {
		return fault.Errorf(fault.Invalid, "%q lies too deep", clip(shown))
	}
	if w.active[real] {
		return fault.Errorf(fault.Invalid, "%q is a link to a folder it lies in", shown)
	}
	w.active[real] = true
	defer delete(w.active, real)
	for _, base := range w.children[real] {
		name := path.Join(shown, base)
		if absent(name, base) {
			if base[0] != '.' && base != "__MACOSX" {
				w.out.warn("%q is ignored: the format does not allow the name", name)
			}
			continue
		}
		target, err := w.follow(path.Join(real, base))
		if err != nil && idle[strings.Split(name, "/")[0]] {
			w.out.warn("%s; it is ignored, since no verdict needs it", err)
			continue
		}
		if err != nil {
			return err
		}
		e := w.raw[target]
		if target == "" || e.kind == isDir {
			if err := w.walk(target, name, depth+1); err != nil {
				return err
			}
			continue
		}
		w.total += e.size
		if w.total > maxTotal {
			return fault.Errorf(fault.Invalid, "the package has more than %d bytes", int64(maxTotal))
		}
		if len(w.out.files) >= maxEntries {
			return fault.Errorf(fault.Invalid, "the package has more than %d files, links followed", maxEntries)
		}
		w.out.files[name] = &file{size: e.size, open: e.open}
	}
	return nil
}

// idle are files and folders at the top that are for people or other programs.
// A link that leads out of the package is left out there, and refused elsewhere.
var idle = map[string]bool{
	"problem.pdf": true, "problem_statement": true, "statement": true, "attachments": true, "solution": true, "generators": true,
	"answer_validators": true, "input_visualizer": true, "output_visualizer": true,
}

// absent reports whether the format treats the name as not there.
func absent(name, base string) bool {
	return !entryName.MatchString(base) && name != ".timelimit" || base == "__MACOSX"
}

// follow gives the real path that a path leads to.
func (w *walker) follow(name string) (string, error) {
	todo := strings.Split(name, "/")
	at, steps := "", 0
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if at == "" {
				return "", escapes(name)
			}
			at = path.Dir(at)
			if at == "." {
				at = ""
			}
			continue
		}
		at = path.Join(at, part)
		e, ok := w.raw[at]
		if !ok {
			return "", fault.Errorf(fault.Invalid, "%q is a link to %q, which is not there", name, at)
		}
		if e.kind != isLink {
			continue
		}
		if steps++; steps > maxLinkSteps {
			return "", fault.Errorf(fault.Invalid, "%q leads through too many links", name)
		}
		if strings.HasPrefix(e.target, "/") || strings.Contains(e.target, "\x00") || e.target == "" {
			return "", escapes(name)
		}
		todo = append(strings.Split(e.target, "/"), todo...)
		at = path.Dir(at)
		if at == "." {
			at = ""
		}
	}
	return at, nil
}

func escapes(name string) error {
	return fault.Errorf(fault.Invalid, "%q is a link that leads out of the package", name).
		WithHint("put a copy of the file into the package")
}

// digest reads every file once and gives the digest of the whole package.
func (t *tree) digest() (string, error) {
	all := sha256.New()
	for _, name := range t.names {
		f := t.files[name]
		if err := f.read(name); err != nil {
			return "", err
		}
		fmt.Fprintf(all, "%s\x00%d\x00%s\n", name, f.size, f.sha256)
	}
	return "sha256:" + hex.EncodeToString(all.Sum(nil)), nil
}

// read fills in digest and first bytes. The size must be the announced one.
func (f *file) read(name string) error {
	r, err := f.open()
	if err != nil {
		return fault.Errorf(fault.Invalid, "open %s: %w", name, err)
	}
	sum := sha256.New()
	start := make([]byte, 4)
	n, err := io.ReadFull(r, start)
	f.start = start[:n]
	sum.Write(f.start)
	if err == nil {
		var more int64
		more, err = io.Copy(sum, io.LimitReader(r, f.size-int64(n)+1))
		n += int(more)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && int64(n) == f.size {
		err = nil
	}
	if closeErr := r.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fault.Errorf(fault.Invalid, "read %s: %w", name, err)
	}
	if int64(n) != f.size {
		return fault.Errorf(fault.Invalid, "%s has not the %d bytes that were announced", name, f.size)
	}
	f.sha256 = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// text reads a small file whole; a larger one than max bytes is refused.
func (t *tree) text(name string, limit int64) ([]byte, error) {
	f := t.files[name]
	if f.size > limit {
		return nil, fault.Errorf(fault.Invalid, "%s has %d bytes, at most %d are taken", name, f.size, limit)
	}
	r, err := f.open()
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "open %s: %w", name, err)
	}
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if closeErr := r.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "read %s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return nil, fault.Errorf(fault.Invalid, "%s has more than %d bytes", name, limit)
	}
	return data, nil
}
