package handin

import (
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"assay/internal/course"
	"assay/internal/fault"
)

// cleanName gives the relative slash path of an entry, or refuses it. "" is the
// folder itself. Letters are brought into one form (NFC): macOS packs another
// one than people type.
func cleanName(name string) (string, error) {
	bad := func(why string) (string, error) {
		return "", fault.Errorf(fault.Invalid, "the name %s %s", quote(name), why).WithHint("rename the file, or pack the folder again with plain relative names")
	}
	switch {
	case name == "":
		return bad("is empty")
	case len(name) > MaxName:
		return bad("is longer than " + strconv.Itoa(MaxName) + " bytes")
	case strings.Contains(name, "\x00"):
		return bad("has a NUL in it")
	case !utf8.ValidString(name):
		return bad("is not UTF-8")
	case strings.Contains(name, `\`):
		return bad("has a backslash in it, which separates folders on Windows")
	case strings.HasPrefix(name, "/"):
		return bad("is absolute")
	case len(name) > 1 && name[1] == ':' && (name[0]|0x20 >= 'a' && name[0]|0x20 <= 'z'):
		return bad("begins with a drive")
	case strings.ContainsFunc(name, hides):
		return bad("has a control character in it")
	}
	for strings.HasPrefix(name, "./") {
		name = name[2:]
	}
	name = strings.TrimSuffix(name, "/")
	if name == "" || name == "." {
		return "", nil
	}
	parts := strings.Split(name, "/")
	if len(parts) > MaxDepth {
		return bad("is more than " + strconv.Itoa(MaxDepth) + " folders deep")
	}
	for _, p := range parts {
		switch {
		case p == "..":
			return bad(`climbs out of its folder with ".."`)
		case p == "" || p == ".":
			return bad("has an empty part")
		case len(p) > maxNamePart:
			return bad("has a part longer than " + strconv.Itoa(maxNamePart) + " bytes")
		case device(p):
			return bad("is that of a device on Windows")
		}
	}
	return norm.NFC.String(name), nil
}

// hides finds characters that make a name look like another one.
func hides(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// device reports names that open a device on Windows, whatever ending they have.
func device(part string) bool {
	base, _, _ := strings.Cut(part, ".")
	base = strings.ToLower(strings.TrimRight(base, " "))
	switch base {
	case "con", "prn", "aux", "nul", "conin$", "conout$":
		return true
	}
	for _, port := range []string{"com", "lpt"} {
		if n, ok := strings.CutPrefix(base, port); ok && utf8.RuneCountInString(n) == 1 && strings.ContainsAny(n, "123456789¹²³") {
			return true
		}
	}
	return false
}

// junk gives the path of the part that a tool left behind and that nobody
// handed in on purpose, or "".
func junk(name string) string {
	at := 0
	for part := range strings.SplitSeq(name, "/") {
		at += len(part)
		switch part {
		case "__MACOSX", ".git", ".DS_Store", "Thumbs.db", "__pycache__":
			return name[:at]
		}
		if strings.HasPrefix(part, "._") {
			return name[:at]
		}
		at++
	}
	return ""
}

// quote is a short, safe form of a name.
func quote(name string) string {
	if len(name) > 100 {
		name = strings.ToValidUTF8(name[:60], "") + "…" + strings.ToValidUTF8(name[len(name)-30:], "")
	}
	return strconv.Quote(name)
}

// Match is what a submission has of what was expected.
type Match struct {
	// Missing are patterns of needed files that no file has.
	Missing []string
	// Near gives, for a missing name, a file that is nearly called so.
	Near map[string]string
	// Extra are files that no pattern names.
	Extra []string
}

// Compare matches files with what an assignment expects. Patterns are of
// path.Match and hold for the whole path.
func Compare(files []course.File, expected []course.ExpectedFile) Match {
	var m Match
	for _, e := range expected {
		pattern := norm.NFC.String(e.Pattern)
		found, near := false, ""
		for _, f := range files {
			if fits(pattern, f.Name) {
				found = true
				break
			}
			if near == "" && fits(strings.ToLower(path.Base(pattern)), strings.ToLower(path.Base(f.Name))) {
				near = f.Name
			}
		}
		if found || e.Optional {
			continue
		}
		m.Missing = append(m.Missing, e.Pattern)
		if near != "" {
			if m.Near == nil {
				m.Near = map[string]string{}
			}
			m.Near[e.Pattern] = near
		}
	}
	for _, f := range files {
		if !named(f.Name, expected) {
			m.Extra = append(m.Extra, f.Name)
		}
	}
	return m
}

// MissingText is one sentence for the student, "" if nothing is missing.
func (m Match) MissingText() string {
	if len(m.Missing) == 0 {
		return ""
	}
	texts := make([]string, len(m.Missing))
	for i, p := range m.Missing {
		texts[i] = quote(p)
		if near, ok := m.Near[p]; ok {
			texts[i] += " (there is " + quote(near) + ": names and folders must be exactly as asked)"
		}
	}
	return "missing: " + strings.Join(texts, ", ")
}

func named(name string, expected []course.ExpectedFile) bool {
	for _, e := range expected {
		if fits(norm.NFC.String(e.Pattern), name) {
			return true
		}
	}
	return false
}

// fits is path.Match; a malformed pattern, which no assignment has, fits nothing.
func fits(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// wants reports whether the assignment asks for a file of this name.
func (g *gathering) wants(name string) bool { return named(name, g.o.Expected) }

// compare notes what is missing and what is extra.
func (g *gathering) compare() {
	if len(g.o.Expected) == 0 {
		return
	}
	m := Compare(g.files, g.o.Expected)
	if text := m.MissingText(); text != "" {
		g.notes = append(g.notes, text)
	}
	if len(m.Extra) == 0 {
		return
	}
	if !g.o.DropExtra {
		g.notes = append(g.notes, "kept files that were not asked for: "+list(m.Extra))
		return
	}
	g.notes = append(g.notes, "dropped files that were not asked for: "+list(m.Extra))
	kept := g.files[:0]
	for _, f := range g.files {
		if g.wants(f.Name) {
			kept = append(kept, f)
		}
	}
	g.files = kept
}
