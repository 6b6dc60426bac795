package handin

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/course"
	"assay/internal/fault"
)

// Class is the submissions of a class. Nothing of them is in memory until one
// is opened.
type Class struct {
	Entries []Entry // sorted by ID
	// Notes say what was recognised and what was passed over.
	Notes []string

	open []*os.File
}

// Close closes the archives of the class; entries cannot be opened any more.
func (c *Class) Close() error {
	var errs []error
	for _, f := range c.open {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// Entry is one submission of a class.
type Entry struct {
	// ID names it: the name of its folder or file, without the ending of an
	// archive. In downloads of learning platforms it is what their gradebook
	// knows: the student ID or e-mail address in Gradescope ("1001+1002" for a
	// group), the number of the participant in Moodle, of the user in Canvas.
	ID string
	// People are who handed it in, as far as the download says.
	People []Person
	// Received is when it was handed in; zero is unknown.
	Received time.Time
	// Open reads the submission. It may be called often and at once.
	Open func() (course.Submission, error)
}

// Person is somebody as a learning platform names them; each field may be "".
type Person struct {
	Name, Email, StudentID string
}

// ReadClass finds the submissions in folders, files and archives. Downloads of
// all submissions from Gradescope, Moodle and Canvas, zipped or not, are told
// by the names in them, and so are folders of GitHub Classroom. Any other
// folder, if it is the only path, holds one submission an entry, unless the
// files that are expected lie in it; among several paths it is one submission
// itself. What is wrong with one submission is said when it is opened.
//
// Kinds of error: NotFound, and Invalid for what cannot be read at all and for
// two submissions of one name.
func ReadClass(paths []string, o Options) (*Class, error) {
	c := &Class{}
	for _, p := range paths {
		if err := c.read(p, o, len(paths) == 1); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	slices.SortStableFunc(c.Entries, func(a, b Entry) int { return strings.Compare(a.ID, b.ID) })
	for i := 1; i < len(c.Entries); i++ {
		if c.Entries[i].ID == c.Entries[i-1].ID {
			err := fault.Errorf(fault.Invalid, "two submissions are called %s", quote(c.Entries[i].ID)).WithHint("rename one of them, or give one path at a time")
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// part is an entry at the top of a class: a file or folder of one person.
type part struct {
	name   string
	folder bool
	// into adds what is in it to a submission; as is the name that a file is
	// handed in under.
	into func(g *gathering, as string) error
	// open gives a file as it is.
	open func() (io.ReadCloser, error)
}

func (c *Class) read(name string, o Options, only bool) error {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.Errorf(fault.NotFound, "submission %s does not exist", name)
	case err != nil:
		return fault.Errorf(fault.Invalid, "submission: %w", err)
	case info.Mode().IsRegular():
		parts, f, err := zipParts(name, info.Size())
		if err == nil && c.layout(name, parts, o) {
			c.open = append(c.open, f)
			return nil
		}
		if f != nil {
			f.Close()
		}
		c.single(name, o) // a zip that is broken says so when it is opened
		return nil
	case !info.IsDir():
		c.single(name, o)
		return nil
	}
	parts, err := folderParts(name)
	if err != nil {
		return err
	}
	switch {
	case c.layout(name, parts, o):
	case only && !holdsExpected(parts, o.Expected):
		c.each(parts, o)
	default:
		c.single(name, o)
	}
	return nil
}

// single adds a path as one submission.
func (c *Class) single(name string, o Options) {
	info, err := os.Stat(name)
	abs, absErr := filepath.Abs(name)
	if absErr != nil {
		abs = name
	}
	c.Entries = append(c.Entries, Entry{
		ID:   idOf(filepath.Base(abs), err == nil && info.IsDir()),
		Open: func() (course.Submission, error) { return Read(name, o) },
	})
}

// holdsExpected reports whether a needed file, or the folder it lies in, is
// among the entries: then the folder is one submission.
func holdsExpected(parts []part, expected []course.ExpectedFile) bool {
	return slices.ContainsFunc(parts, func(p part) bool {
		return slices.ContainsFunc(expected, func(e course.ExpectedFile) bool {
			top, _, nested := strings.Cut(e.Pattern, "/")
			exact := !strings.ContainsAny(top, "*?[")
			return exact && nested == p.folder && top == p.name
		})
	})
}

// each takes every entry as one person's. A lone file takes the name of the one
// file that is needed, if the endings agree: in a folder of ada.py and bob.py
// the names are those of the people.
func (c *Class) each(parts []part, o Options) {
	var needed []string
	for _, e := range o.Expected {
		if !e.Optional {
			needed = append(needed, e.Pattern)
		}
	}
	for _, p := range parts {
		id, note := idOf(p.name, p.folder), ""
		if !p.folder && len(needed) == 1 && !strings.ContainsAny(needed[0], "*?[") && path.Ext(needed[0]) == path.Ext(p.name) {
			note = "took " + quote(p.name) + " as " + quote(needed[0])
			p.name = needed[0]
		}
		c.add(Entry{ID: id}, []part{p}, o, note)
	}
}

// add makes an entry of what one person handed in. note, unless empty, is added
// to the submission's.
func (c *Class) add(e Entry, parts []part, o Options, note string) {
	e.Open = func() (course.Submission, error) {
		g := newGathering(o)
		if note != "" {
			g.notes = append(g.notes, note)
		}
		var err error
		for i := 0; i < len(parts) && err == nil; i++ {
			err = parts[i].into(g, parts[i].name)
		}
		s, err := g.finish(e.ID, err)
		s.Received = e.Received
		return s, err
	}
	c.Entries = append(c.Entries, e)
}

// folderParts lists the entries of a folder without following links.
func folderParts(dir string) ([]part, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, unreadable(filepath.Base(dir), err)
	}
	var parts []part
	for _, d := range list {
		name := d.Name()
		if strings.HasPrefix(name, ".") || junk(name) != "" {
			continue
		}
		p := part{name: name, folder: d.IsDir()}
		full := filepath.Join(dir, name)
		switch {
		case d.IsDir():
			p.into = func(g *gathering, _ string) error { return g.folder(full) }
		case d.Type().IsRegular():
			p.into = func(g *gathering, as string) error { return g.openFile(full, as) }
			p.open = func() (io.ReadCloser, error) { return os.Open(full) }
		default:
			kind := describe(d.Type())
			p.into = func(g *gathering, as string) error { return g.add(entry{name: as, refused: kind}) }
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// zipParts lists the top of a zip of a whole class, in which one folder may
// hold all. The parts need f, if it is not nil.
func zipParts(name string, size int64) (parts []part, f *os.File, err error) {
	if f, err = os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0); err != nil {
		return nil, nil, err
	}
	if sniff(f, size) != zipped {
		return nil, f, nil
	}
	entries, err := listZip(f, size)
	if err != nil {
		return nil, f, err
	}
	entries = slices.DeleteFunc(entries, func(e entry) bool { return junk(e.name) != "" })
	if top := commonTop(entries); top != "" {
		entries = below(entries, top)
	}
	byTop := map[string][]entry{}
	var order []string
	for _, e := range entries {
		top, _, _ := strings.Cut(e.name, "/")
		if byTop[top] == nil {
			order = append(order, top)
		}
		byTop[top] = append(byTop[top], e)
	}
	for _, top := range order {
		own := byTop[top]
		p := part{name: top, folder: len(own) > 1 || own[0].folder || own[0].name != top}
		if p.folder {
			inside := below(own, top)
			p.into = func(g *gathering, _ string) error { return g.entries(inside) }
		} else {
			p.into = func(g *gathering, as string) error { return g.nested(own[0], as) }
			p.open = func() (io.ReadCloser, error) {
				data, err := own[0].content()
				return io.NopCloser(bytes.NewReader(data)), err
			}
		}
		parts = append(parts, p)
	}
	return parts, f, nil
}

// commonTop is the one folder that holds all entries, or "".
func commonTop(entries []entry) string {
	if len(entries) == 0 {
		return ""
	}
	top, _, _ := strings.Cut(entries[0].name, "/")
	for _, e := range entries {
		if !strings.HasPrefix(e.name, top+"/") {
			return ""
		}
	}
	return top
}

// below gives the entries in a folder, by their names there.
func below(entries []entry, top string) []entry {
	var inside []entry
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.name, top+"/"); ok && rest != "" {
			e.name = rest
			inside = append(inside, e)
		}
	}
	return inside
}

// entries adds one person's folder of a class's archive; nothing but one
// archive in it is unpacked.
func (g *gathering) entries(list []entry) error {
	files := slices.DeleteFunc(slices.Clone(list), func(e entry) bool { return e.folder || junk(e.name) != "" })
	if len(files) == 1 && !strings.Contains(files[0].name, "/") && !g.wants(files[0].name) {
		data, err := files[0].content()
		if err != nil {
			return err
		}
		if sniff(bytes.NewReader(data), files[0].size).archive() {
			g.notes = append(g.notes, "unpacked "+quote(files[0].name))
		}
		return g.file(files[0].name, bytes.NewReader(data), files[0].size, files[0].executable)
	}
	for _, e := range list {
		g.packed += e.size
		if err := g.add(e); err != nil {
			return err
		}
	}
	return nil
}

// nested reads a file of a class's archive, which may be an archive itself.
func (g *gathering) nested(e entry, as string) error {
	data, err := e.content()
	if err != nil {
		return err
	}
	return g.file(as, bytes.NewReader(data), e.size, e.executable)
}

// content is a file of a class's archive.
func (e entry) content() ([]byte, error) {
	switch {
	case e.refused != "":
		return nil, e.refusal(e.name)
	case e.size < 0 || e.size > MaxBytes:
		return nil, fault.Errorf(fault.Invalid, "%s has more than %s", quote(e.name), people(MaxBytes)).WithHint("unpack it by hand")
	}
	data := make([]byte, e.size)
	if err := e.read(data); err != nil {
		return nil, fault.Errorf(fault.Invalid, "%s cannot be read: %w", quote(e.name), err).WithHint("the archive is damaged; download it again")
	}
	return data, nil
}
