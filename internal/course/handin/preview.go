package handin

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"assay/internal/course"
)

// Tree shows a submission as its student sees it before handing in: folders,
// files and sizes, one a line, and then the notes.
func Tree(s course.Submission) string {
	var b strings.Builder
	width := 0
	for _, f := range s.Files {
		width = max(width, utf8.RuneCountInString(shown(f.Name)))
	}
	var above []string
	for _, f := range s.Files {
		parts := strings.Split(f.Name, "/")
		dirs := parts[:len(parts)-1]
		same := 0
		for same < min(len(dirs), len(above)) && dirs[same] == above[same] {
			same++
		}
		for i := same; i < len(dirs); i++ {
			fmt.Fprintf(&b, "%s%s/\n", strings.Repeat("  ", i), dirs[i])
		}
		above = dirs
		base, mark := shown(f.Name), ""
		if f.Executable {
			mark = "  (may be executed)"
		}
		fmt.Fprintf(&b, "%s%s  %s%s\n", base, strings.Repeat(" ", width-utf8.RuneCountInString(base)), people(int64(len(f.Data))), mark)
	}
	for _, n := range s.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

// shown is the last part of a name, below its folders.
func shown(name string) string {
	return strings.Repeat("  ", strings.Count(name, "/")) + path.Base(name)
}
