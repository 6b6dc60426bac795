package handin

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"assay/internal/course"
)

// The names that learning platforms give to what they pack together.
var (
	// "Ada Lovelace_12345_assignsubmission_file_", or the same in front of a
	// file's name where the teacher wanted no folders.
	moodleName = regexp.MustCompile(`^(.+)_(\d+)_assignsubmission_([a-z]+)(?:_(.*))?$`)
	// "lovelaceada_LATE_123_456_calc.py": user 123, file 456.
	canvasName = regexp.MustCompile(`^([^_]+)_((?i:late)_)?(\d+)_(\d+)_(.+)$`)
	// "calc-1.py" is the second one of that name.
	canvasAgain      = regexp.MustCompile(`^(.+)-\d+(\.[^.]+)$`)
	gradescopeFolder = regexp.MustCompile(`^submission_\d+$`)
)

const (
	gradescopeFile = "submission_metadata.yml"
	// maxMetadata bounds what is read of it; it repeats all results.
	maxMetadata = 1 << 30
	maxSection  = 64 << 10
)

// layout takes the parts as the download of a learning platform, if their names
// say so.
func (c *Class) layout(name string, parts []part, o Options) bool {
	if len(parts) == 0 {
		return false
	}
	as := func(platform string) bool {
		c.Notes = append(c.Notes, fmt.Sprintf("read %s as a download of %s", quote(filepath.Base(name)), platform))
		return true
	}
	all := func(fits func(part) bool) bool {
		return !slices.ContainsFunc(parts, func(p part) bool { return !fits(p) })
	}
	if i := slices.IndexFunc(parts, func(p part) bool { return p.name == gradescopeFile && !p.folder }); i >= 0 {
		c.gradescope(parts, parts[i], o)
		return as("Gradescope")
	}
	if all(func(p part) bool { return moodleName.MatchString(p.name) }) {
		c.moodle(parts, o)
		return as("Moodle")
	}
	if all(func(p part) bool { return !p.folder && canvasName.MatchString(p.name) }) {
		c.canvas(parts, o)
		return as("Canvas")
	}
	if prefix, ok := strings.CutSuffix(filepath.Base(name), "-submissions"); ok && all(func(p part) bool {
		return p.folder && len(p.name) > len(prefix)+1 && strings.HasPrefix(p.name, prefix+"-")
	}) {
		for _, p := range parts {
			c.add(Entry{ID: idOf(p.name[len(prefix)+1:], true)}, []part{p}, o, "")
		}
		return as("GitHub Classroom")
	}
	return false
}

// grouped collects what belongs to one person, in order.
type grouped struct {
	order []string
	parts map[string][]part
	first map[string]Entry
	notes map[string]string
}

func (g *grouped) add(e Entry, p part, note string) {
	if g.parts == nil {
		g.parts, g.first, g.notes = map[string][]part{}, map[string]Entry{}, map[string]string{}
	}
	if _, ok := g.first[e.ID]; !ok {
		g.order, g.first[e.ID] = append(g.order, e.ID), e
	}
	g.parts[e.ID], g.notes[e.ID] = append(g.parts[e.ID], p), cmp.Or(g.notes[e.ID], note)
}

func (c *Class) addGroups(g grouped, o Options) {
	for _, id := range g.order {
		c.add(g.first[id], g.parts[id], o, g.notes[id])
	}
}

// moodle takes the files; what was typed into the page is no program.
func (c *Class) moodle(parts []part, o Options) {
	var people grouped
	for _, p := range parts {
		m := moodleName.FindStringSubmatch(p.name)
		if m[3] != "file" {
			c.Notes = append(c.Notes, "passed over "+quote(p.name))
			continue
		}
		if !p.folder {
			p.name = m[4]
		}
		people.add(Entry{ID: m[2], People: []Person{{Name: course.Clean(m[1])}}}, p, "")
	}
	c.addGroups(people, o)
}

// canvas takes the newest file of each name: Canvas numbers those that were
// handed in again.
func (c *Class) canvas(parts []part, o Options) {
	var people grouped
	for _, p := range parts {
		m := canvasName.FindStringSubmatch(p.name)
		note := ""
		if m[2] != "" {
			note = "handed in late, says Canvas"
		}
		p.name = m[5]
		if again := canvasAgain.FindStringSubmatch(p.name); again != nil && named(again[1]+again[2], o.Expected) && !named(p.name, o.Expected) {
			p.name = again[1] + again[2]
		}
		people.add(Entry{ID: m[3], People: []Person{{Name: course.Clean(m[1])}}}, p, note)
	}
	c.addGroups(people, o)
}

// gradescopeEntry is what is used of a submission's metadata.
type gradescopeEntry struct {
	Submitters []struct {
		Name  string `yaml:":name"`
		Email string `yaml:":email"`
		SID   string `yaml:":sid"`
	} `yaml:":submitters"`
	CreatedAt string `yaml:":created_at"`
}

func (c *Class) gradescope(parts []part, metadata part, o Options) {
	told, err := openMetadata(metadata)
	if err != nil {
		c.Notes = append(c.Notes, fmt.Sprintf("%s is ignored: %v", gradescopeFile, err))
	}
	taken := map[string]bool{}
	for _, p := range parts {
		if !p.folder || !gradescopeFolder.MatchString(p.name) {
			if p.name != gradescopeFile {
				c.Notes = append(c.Notes, "passed over "+quote(p.name))
			}
			continue
		}
		e := Entry{ID: p.name}
		var ids []string
		for _, s := range told[p.name].Submitters {
			e.People = append(e.People, Person{Name: course.Clean(s.Name), Email: course.Clean(s.Email), StudentID: course.Clean(s.SID)})
			if id := course.Clean(cmp.Or(s.SID, s.Email)); id != "" {
				ids = append(ids, id)
			}
		}
		if id := strings.Join(ids, "+"); id != "" && len(ids) == len(e.People) && !taken[id] {
			e.ID, taken[id] = id, true
		}
		e.Received = gradescopeTime(told[p.name].CreatedAt)
		c.add(e, []part{p}, o, "")
		delete(told, p.name)
	}
	for name := range told {
		c.Notes = append(c.Notes, quote(name)+" is in "+gradescopeFile+" but not there")
	}
	slices.Sort(c.Notes)
}

// gradescopeTime reads what Ruby writes; zero is unknown.
func gradescopeTime(s string) time.Time {
	for _, form := range []string{"2006-01-02 15:04:05.999999999 Z", "2006-01-02 15:04:05.999999999 -07:00", time.RFC3339Nano} {
		if t, err := time.Parse(form, strings.TrimSpace(s)); err == nil {
			return t
		}
	}
	return time.Time{}
}

func openMetadata(p part) (map[string]gradescopeEntry, error) {
	f, err := p.open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readMetadata(f)
}

// readMetadata reads two sections of each submission and passes over the rest,
// which may be very long: all results of all attempts.
func readMetadata(r io.Reader) (map[string]gradescopeEntry, error) {
	told := map[string]gradescopeEntry{}
	b := bufio.NewReaderSize(io.LimitReader(r, maxMetadata), 64<<10)
	var name string
	var section bytes.Buffer
	wanted := false
	flush := func() error {
		if name == "" || section.Len() == 0 {
			return nil
		}
		var e gradescopeEntry
		if err := yaml.Unmarshal(section.Bytes(), &e); err != nil {
			return fmt.Errorf("%s: %s", quote(name), yaml.FormatError(err, false, false))
		}
		if len(told) >= maxListed {
			return errors.New("it names too many submissions")
		}
		told[name] = e
		section.Reset()
		return nil
	}
	for {
		line, more, err := b.ReadLine()
		if errors.Is(err, io.EOF) {
			return told, flush()
		}
		if err != nil {
			return nil, err
		}
		for rest := more; rest; {
			if _, rest, err = b.ReadLine(); err != nil {
				break // seen again above
			}
		}
		switch {
		case bytes.HasPrefix(line, []byte("submission_")):
			if err := flush(); err != nil {
				return nil, err
			}
			name, wanted = strings.TrimSuffix(string(line), ":"), false
		case bytes.HasPrefix(line, []byte("  :")):
			wanted = bytes.HasPrefix(line, []byte("  :submitters:")) || bytes.HasPrefix(line, []byte("  :created_at:"))
		}
		if wanted && !more && section.Len() < maxSection {
			section.Write(line[min(2, len(line)):])
			section.WriteByte('\n')
		}
	}
}
