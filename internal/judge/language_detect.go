package judge

import (
	"slices"
	"strconv"
	"strings"

	"assay/internal/fault"
)

// IDs are all language IDs, sorted.
func (s *Languages) IDs() []string { return slices.Clone(s.ids) }

// ByID gives a language by its ID or one of its aliases, in which case does not
// matter. An unknown one is Invalid and the error names the known.
func (s *Languages) ByID(id string) (Language, error) {
	l, ok := s.byID[id]
	if !ok {
		l, ok = s.byID[s.names[strings.ToLower(id)]]
	}
	if !ok {
		return Language{}, fault.Errorf(fault.Invalid, "language %q is not known", id).
			WithHint("use one of: %s", strings.Join(s.ids, ", "))
	}
	return l, nil
}

// Detect finds the language of a submission by its file extensions. Files of no
// known language, or of two, are Invalid.
func (s *Languages) Detect(files []SourceFile) (Language, error) {
	var found Language
	var by string
	for _, f := range files {
		l, ok := s.forFile(f.Name)
		if !ok {
			continue
		}
		if found.ID != "" && found.ID != l.ID {
			return Language{}, fault.Errorf(fault.Invalid, "%q is %s, but %q is %s", by, found.Name, f.Name, l.Name).
				WithHint("send files of one language, or name the language")
		}
		found, by = l, f.Name
	}
	if found.ID == "" {
		names := make([]string, 0, len(files))
		for _, f := range files {
			names = append(names, strconv.Quote(f.Name))
		}
		return Language{}, fault.Errorf(fault.Invalid, "no known language has the extension of %s", strings.Join(names, ", ")).
			WithHint("known extensions: %s", s.extensionsText())
	}
	for _, f := range files {
		if !found.Compiles(f.Name) && !found.header(f.Name) {
			return Language{}, fault.Errorf(fault.Invalid, "%q is not a file of %s", f.Name, found.Name).
				WithHint("send only sources: %s", strings.Join(append(slices.Clone(found.Extensions), found.Headers...), ", "))
		}
	}
	return found, nil
}

func (s *Languages) forFile(name string) (Language, bool) {
	for _, id := range s.ids {
		if l := s.byID[id]; !l.ByName && l.Compiles(name) {
			return l, true
		}
	}
	return Language{}, false
}

func (s *Languages) extensionsText() string {
	var parts []string
	for _, id := range s.ids {
		if s.byID[id].ByName {
			continue
		}
		parts = append(parts, strings.Join(s.byID[id].Extensions, " ")+" ("+id+")")
	}
	return strings.Join(parts, ", ")
}
