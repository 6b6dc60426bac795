package judge

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/fault"
)

// Submission is the files one person sent for one problem. It never changes.
type Submission struct {
	// Name is how people call it ("accepted/sum.py"); it is not interpreted.
	Name string
	// Language is an ID from the language data; empty: found by extension.
	Language string
	// Entry is the file the program starts in; empty: found by name.
	Entry string
	Files []SourceFile
}

// SourceFile is one source. In a submission Name has no folder.
type SourceFile struct {
	Name string
	Data []byte
}

// MaxSourceFiles is how many files one submission may have.
const MaxSourceFiles = 100

// Digest is the SHA-256 over names, sizes and contents ("sha256:…").
func (s Submission) Digest() string {
	sum := sha256.New()
	for _, f := range s.Files {
		fmt.Fprintf(sum, "%q %d\n", f.Name, len(f.Data))
		sum.Write(f.Data)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// Size is the bytes of all files together.
func (s Submission) Size() int64 {
	var n int64
	for _, f := range s.Files {
		n += int64(len(f.Data))
	}
	return n
}

// fileName is what the problem package formats allow; nothing in it can be an
// option, a path or a word of a shell.
var fileName = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,254}$`)

// arranged is a submission as it is laid out in the machine.
type arranged struct {
	// files are sorted by name; sources are the names the compiler gets.
	files   []SourceFile
	sources []string
	// entry is the file the program starts in.
	entry string
}

// arrange gives every file a safe name and finds the entry point. A single file
// with an odd name gets the language's own name; of several files all must have
// safe ones. include are the problem's own files, which take the place of those
// of the same name.
func arrange(s Submission, lang Language, include map[string][]SourceFile) (arranged, error) {
	var a arranged
	if len(s.Files) == 0 {
		return a, fault.Errorf(fault.Invalid, "submission %q has no files", s.Name)
	}
	if len(s.Files) > MaxSourceFiles {
		return a, fault.Errorf(fault.Invalid, "submission %q has %d files, at most %d are taken", s.Name, len(s.Files), MaxSourceFiles)
	}
	a.files = slices.Clone(s.Files)
	if len(a.files) == 1 && (!fileName.MatchString(a.files[0].Name) || !lang.Compiles(a.files[0].Name)) {
		a.files[0].Name = lang.SourceFile
	}
	added, ok := include[lang.ID]
	if !ok {
		added = include["default"]
	}
	for _, f := range added {
		a.files = slices.DeleteFunc(a.files, func(g SourceFile) bool { return g.Name == f.Name })
		a.files = append(a.files, f)
	}
	slices.SortFunc(a.files, func(x, y SourceFile) int { return strings.Compare(x.Name, y.Name) })
	for i, f := range a.files {
		if !fileName.MatchString(f.Name) {
			return a, fault.Errorf(fault.Invalid, "submission %q: file name %q is not allowed", s.Name, f.Name).
				WithHint("use letters, digits, dot, dash and underscore, and begin with a letter, digit or underscore")
		}
		if i > 0 && a.files[i-1].Name == f.Name {
			return a, fault.Errorf(fault.Invalid, "submission %q has two files named %s", s.Name, f.Name)
		}
		if lang.Compiles(f.Name) {
			a.sources = append(a.sources, f.Name)
		}
	}
	switch {
	case s.Entry != "" && slices.Contains(a.sources, s.Entry):
		a.entry = s.Entry
	case s.Entry != "" && slices.ContainsFunc(a.sources, func(n string) bool { return baseName(n) == s.Entry }):
		a.entry = s.Entry + path.Ext(a.sources[0])
	case s.Entry != "":
		return a, fault.Errorf(fault.Invalid, "submission %q: the entry point %q is not among its files", s.Name, clipText(s.Entry, 80))
	case len(a.sources) == 0:
		return a, fault.Errorf(fault.Invalid, "submission %q has no %s source", s.Name, lang.Name).
			WithHint("%s sources end with %s", lang.Name, strings.Join(lang.Extensions, ", "))
	case slices.Contains(a.sources, lang.SourceFile):
		a.entry = lang.SourceFile
	case len(a.sources) == 1 || !lang.NeedsEntry:
		a.entry = a.sources[0]
	default:
		return a, fault.Errorf(fault.Invalid, "submission %q: which of %s is the entry point?", s.Name, strings.Join(a.sources, ", ")).
			WithHint("name the file the program starts in %s", lang.SourceFile)
	}
	return a, nil
}

// baseName is a file name without its extension.
func baseName(name string) string { return strings.TrimSuffix(name, path.Ext(name)) }
