package handin

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"assay/internal/course"
	"assay/internal/fault"
)

// entry is one entry of a folder or archive, as it calls itself.
type entry struct {
	name       string
	folder     bool
	size       int64
	executable bool
	// refused says what the entry is, if that is nothing to be taken ("a hard
	// link to …").
	refused string
	// remedy is the hint for it; empty is the common one.
	remedy string
	// read fills a buffer of exactly size bytes; it fails if there are more.
	read func(buf []byte) error
}

func (e entry) refusal(name string) error {
	return fault.Errorf(fault.Invalid, "%s is %s, which is not taken", quote(name), e.refused).WithHint("%s", cmp.Or(e.remedy, "hand in plain files; put a copy of the file in its place"))
}

// gathering collects the entries of one submission and holds the caps.
type gathering struct {
	o Options
	// packed counts the bytes handed in, before anything is unpacked.
	packed int64

	files  []course.File
	notes  []string
	nodes  map[string]node // files and folders by their name for twins
	listed int
	bytes  int64
	junk   []string
}

// node is a place in the tree.
type node struct {
	name   string
	folder bool
}

func newGathering(o Options) *gathering { return &gathering{o: o, nodes: map[string]node{}} }

// add takes one entry, drops it as junk, or refuses the submission for it.
func (g *gathering) add(e entry) error {
	if g.listed++; g.listed > maxListed {
		return tooMany()
	}
	name, err := cleanName(e.name)
	if err != nil || name == "" {
		return err
	}
	if top := junk(name); top != "" {
		if len(g.junk) == 0 || g.junk[len(g.junk)-1] != top {
			g.junk = append(g.junk, top)
		}
		return nil
	}
	if e.refused != "" {
		return e.refusal(name)
	}
	if err := g.place(name, e.folder); err != nil || e.folder {
		return err
	}
	switch {
	case e.size < 0:
		return fault.Errorf(fault.Invalid, "%s has a size below zero", quote(name)).WithHint("pack the files again")
	case e.size > MaxFile:
		return fault.Errorf(fault.Invalid, "%s has more than %s (%s)", quote(name), people(MaxFile), people(e.size)).WithHint("leave out data and programs that the assignment does not ask for")
	case g.bytes+e.size > MaxBytes:
		return fault.Errorf(fault.Invalid, "the submission has more than %s, reached at %s", people(MaxBytes), quote(name)).WithHint("leave out data and programs that the assignment does not ask for")
	case g.bytes+e.size > ratioFloor && (g.bytes+e.size)/MaxRatio > g.packed:
		return bomb(name)
	}
	g.bytes += e.size
	data := make([]byte, e.size)
	if err := e.read(data); err != nil {
		if fault.KindOf(err) != fault.Internal {
			return err
		}
		return fault.Errorf(fault.Invalid, "%s cannot be read: %w", quote(name), err).WithHint("the archive is damaged; pack the files again")
	}
	g.files = append(g.files, course.File{Name: name, Data: data, Executable: e.executable})
	return nil
}

func tooMany() error {
	return fault.Errorf(fault.Invalid, "the submission has more than %d files and folders", MaxEntries).WithHint("leave out what the assignment does not ask for, such as installed packages")
}

func bomb(name string) error {
	return fault.Errorf(fault.Invalid, "the archive grows more than %d times when it is unpacked, reached at %s", MaxRatio, quote(name)).WithHint("pack only the files that the assignment asks for")
}

// place puts a name and the folders above it into the tree. No two names may be
// one file on a system that ignores case or the form of letters.
func (g *gathering) place(name string, folder bool) error {
	for end := 0; end < len(name); end++ {
		if i := strings.IndexByte(name[end:], '/'); i >= 0 {
			end += i
		} else {
			end = len(name)
		}
		part, isFolder := name[:end], folder || end < len(name)
		have, ok := g.nodes[twinKey(part)]
		switch {
		case !ok:
			if len(g.nodes) >= MaxEntries {
				return tooMany()
			}
			g.nodes[twinKey(part)] = node{part, isFolder}
		case have.name != part:
			return fault.Errorf(fault.Invalid, "%s and %s are one file on many systems", quote(have.name), quote(part)).WithHint("rename or remove one of them")
		case have.folder != isFolder:
			return fault.Errorf(fault.Invalid, "%s is both a file and a folder", quote(part)).WithHint("pack the files again")
		case end == len(name) && !isFolder:
			return fault.Errorf(fault.Invalid, "%s is there twice", quote(part)).WithHint("pack the files again, each once")
		}
	}
	return nil
}

// twinKey is the same for names that a system may take for one: it ignores
// case, the Unicode form, and dots and spaces at the end of a part.
func twinKey(name string) string {
	parts := strings.Split(strings.ToLower(strings.ToUpper(name)), "/")
	for i, p := range parts {
		parts[i] = strings.TrimRight(p, ". ")
	}
	return norm.NFC.String(strings.Join(parts, "/"))
}

// finish sorts, takes off a top folder and says what happened.
func (g *gathering) finish(id string, err error) (course.Submission, error) {
	if err != nil {
		return course.Submission{}, naming(id, err)
	}
	if len(g.junk) > 0 {
		slices.Sort(g.junk)
		g.notes = append(g.notes, "dropped what tools left behind: "+list(slices.Compact(g.junk)))
	}
	g.stripTop()
	slices.SortFunc(g.files, func(a, b course.File) int { return strings.Compare(a.Name, b.Name) })
	if len(g.files) == 0 {
		return course.Submission{}, naming(id, fault.Errorf(fault.Invalid, "there is no file in it").WithHint("hand in at least one file"))
	}
	g.compare()
	return course.Submission{ID: id, Files: g.files, Notes: g.notes}, nil
}

// naming says which submission is refused, and keeps kind and hint.
func naming(id string, err error) error {
	return fault.Errorf(fault.KindOf(err), "submission %s: %w", quote(id), err).WithHint("%s", fault.HintOf(err))
}

// stripTop takes off one folder that holds everything: if nothing is expected,
// or if more of what is expected is there then.
func (g *gathering) stripTop() {
	if len(g.files) == 0 {
		return
	}
	top, _, ok := strings.Cut(g.files[0].Name, "/")
	if !ok || slices.ContainsFunc(g.files, func(f course.File) bool { return !strings.HasPrefix(f.Name, top+"/") }) {
		return
	}
	inner := slices.Clone(g.files)
	for i := range inner {
		inner[i].Name = inner[i].Name[len(top)+1:]
	}
	if len(g.o.Expected) > 0 && len(Compare(inner, g.o.Expected).Missing) >= len(Compare(g.files, g.o.Expected).Missing) {
		return
	}
	g.files = inner
	g.notes = append(g.notes, "took the files out of the folder "+quote(top))
}

// list joins names for a note, not too many of them.
func list(names []string) string {
	const most = 10
	shown := make([]string, 0, most)
	for _, n := range names[:min(len(names), most)] {
		shown = append(shown, quote(n))
	}
	text := strings.Join(shown, ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
}

// people gives bytes in the unit that fits.
func people(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.4g MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.4g KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}

// readFull fills buf and wants the end after it.
func readFull(r io.Reader, buf []byte) error {
	if _, err := io.ReadFull(r, buf); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("it has fewer bytes than announced")
		}
		return err
	}
	var more [1]byte
	switch n, err := io.ReadFull(r, more[:]); {
	case n > 0:
		return errors.New("it has more bytes than announced")
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}
