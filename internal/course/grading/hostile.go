package grading

import (
	"embed"
	"io/fs"
	"path"
	"slices"
	"strings"

	"assay/internal/course"
)

// Each file of hostile/<language> is the whole content of a student's file that
// tries to get points without doing the work. The first line says what it does.
//
//go:embed hostile
var hostileFiles embed.FS

type hostile struct {
	name  string
	files []course.File
}

// hostileFor gives the hostile submissions that fit an assignment: each in place
// of the first file that students hand in. A file of a language for which there
// are none gives none.
func hostileFor(a *course.Assignment) []hostile {
	name := firstExpected(a)
	dir := "hostile/" + map[string]string{
		".py": "python", ".c": "c", ".cpp": "cpp", ".cc": "cpp", ".java": "java", ".js": "javascript",
	}[path.Ext(name)]
	entries, err := fs.ReadDir(hostileFiles, dir)
	if err != nil || dir == "hostile/" {
		return nil
	}
	var list []hostile
	for _, e := range entries {
		data, err := fs.ReadFile(hostileFiles, path.Join(dir, e.Name()))
		if err != nil {
			continue
		}
		class := strings.TrimSuffix(path.Base(name), path.Ext(name))
		text := strings.NewReplacer("CLASSNAME", class, "MAIN", mainOf(a)).Replace(string(data))
		h := hostile{name: strings.ReplaceAll(strings.TrimSuffix(e.Name(), ".txt"), "_", " ")}
		h.files = append(h.files, course.File{Name: name, Data: []byte(text)})
		// The other files must be there for anything to begin.
		for _, f := range a.Solution {
			if f.Name != name {
				h.files = append(h.files, f)
			}
		}
		slices.SortFunc(h.files, func(x, y course.File) int { return strings.Compare(x.Name, y.Name) })
		list = append(list, h)
	}
	return list
}

// mainOf is the main function of a hostile C or C++ program: the caller of mode
// call has its own.
func mainOf(a *course.Assignment) string {
	if a.Mode == course.IO {
		return "int main() { return 0; }"
	}
	return ""
}

// firstExpected is the name of the first file of the solution that the
// assignment expects, or empty.
func firstExpected(a *course.Assignment) string {
	for _, e := range a.Expected {
		for _, f := range a.Solution {
			if ok, err := path.Match(e.Pattern, f.Name); err == nil && ok {
				return f.Name
			}
		}
	}
	return ""
}
