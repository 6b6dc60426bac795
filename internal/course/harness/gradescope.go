package harness

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"assay/internal/course"
	"assay/internal/fault"
)

// The limits of Gradescope where the assignment gives none.
const (
	gradescopeWall   = 10 * time.Minute
	gradescopeMemory = 768 << 20
)

// gradescope lays out a package with run_autograder, and setup.sh for the
// template, as that site does: scripts with line ends of Windows are mended.
func gradescope(a *course.Assignment, files []course.File) (layout, error) {
	files = withoutTop(files, "run_autograder")
	run := fileNamed(files, "run_autograder")
	if run == nil {
		return layout{}, fault.Errorf(fault.Invalid, "it has no run_autograder").
			WithHint("zip the files themselves, with run_autograder at the top")
	}
	for i := range files {
		if name := files[i].Name; name == "run_autograder" || name == "setup.sh" {
			files[i].Data = bytes.ReplaceAll(files[i].Data, []byte("\r\n"), []byte("\n"))
			files[i].Executable = true
		}
	}
	l := layout{
		root: "/autograder", hand: "/autograder/submission", dirs: []string{"/autograder/results"},
		argv: []string{"/autograder/run_autograder"}, dir: "/autograder", user: "root",
		result: "/autograder/results/results.json", wall: gradescopeWall, memory: gradescopeMemory,
		read: readGradescope,
	}
	top := *run
	top.Name = "/autograder/run_autograder"
	meta := course.File{Name: "/autograder/submission_metadata.json", Data: metadata(a)}
	if has(files, "setup.sh") {
		// What setup.sh made of the files is the template's; they stay there.
		l.setup = &Setup{Parent: a.Template, Files: below("autograder/source", files), Steps: []string{
			// The site's image lets pip install beside the system's packages.
			// A script may ask for packages of another system and not need them: a
			// harness that lacks something does not grade the solution.
			"cd /autograder/source && PIP_BREAK_SYSTEM_PACKAGES=1 ./setup.sh || echo \"setup.sh ended with code $?\"",
		}}
		l.files = []course.File{top, meta}
		return l, nil
	}
	l.files = append(below("/autograder/source", files), top, meta)
	return l, nil
}

// metadata is what a harness may read of a submission. It is the same for all:
// a grade must not depend on who handed in when.
func metadata(a *course.Assignment) []byte {
	return fmt.Appendf(nil, `{"id": 1, "created_at": "2026-01-01T00:00:00.000000+00:00", "assignment": {"id": 1, "course_id": 1, "title": %q, "due_date": "2026-01-01T00:00:00.000000+00:00", "late_due_date": null, "release_date": "2026-01-01T00:00:00.000000+00:00", "group_size": 1, "group_submission": false, "total_points": %q}, "submission_method": "upload", "users": [{"id": 1, "email": "student@example.org", "name": "Student"}], "previous_submissions": []}
`, a.Name, a.Points.String())
}

var gradescopeVisibility = map[string]course.Visibility{
	"hidden": course.Hidden, "after_due_date": course.AfterDue, "after_published": course.AfterPublished, "visible": course.Visible,
}

// readGradescope reads results.json. A score at the top overrides those of the
// tests there.
func readGradescope(data []byte) (result, error) {
	var doc struct {
		Score      number          `json:"score"`
		Output     looseText       `json:"output"`
		Visibility string          `json:"visibility"`
		Tests      *[]gradescopeOf `json:"tests"`
	}
	if err := decode(data, &doc); err != nil {
		return result{}, err
	}
	if doc.Score.score == nil && doc.Tests == nil {
		return result{}, errors.New("it has neither \"score\" nor \"tests\"")
	}
	r := result{text: string(doc.Output), visibility: gradescopeVisibility[doc.Visibility], total: doc.Score.score}
	if doc.Tests == nil {
		return r, nil
	}
	for i, t := range *doc.Tests {
		c := claim{
			name: string(t.Name), score: t.Score.score, max: t.Max.score, message: string(t.Output),
			visibility: gradescopeVisibility[t.Visibility], status: map[string]course.Status{"passed": course.Passed, "failed": course.Failed}[t.Status],
		}
		if number := string(t.Number); number != "" {
			c.name = joined(") ", number, c.name)
		}
		if c.name == "" {
			c.name = fmt.Sprintf("Test %d", i+1)
		}
		c.id = c.name
		if err := r.add(c); err != nil {
			return r, err
		}
	}
	return r, nil
}

type gradescopeOf struct {
	Score      number    `json:"score"`
	Max        number    `json:"max_score"`
	Status     string    `json:"status"`
	Name       looseText `json:"name"`
	Number     looseText `json:"number"`
	Output     looseText `json:"output"`
	Visibility string    `json:"visibility"`
}
