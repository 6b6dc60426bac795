package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"assay/internal/course"
	"assay/internal/fault"
)

const autolabWall = 3 * time.Minute

// autolab lays out the Makefile, the tar and the file handed in under its base
// name in one empty directory, where "make" is run.
func autolab(a *course.Assignment, files []course.File) (layout, error) {
	for _, name := range []string{"autograde-Makefile", "Makefile"} {
		files = withoutTop(files, name)
		f := fileNamed(files, name)
		if f == nil {
			continue
		}
		f.Name = "Makefile"
		return layout{
			root: "/autolab", hand: "/autolab", files: below("/autolab", files), open: []string{"/autolab"},
			argv: []string{"make"}, dir: "/autolab", user: "user", wall: autolabWall, read: readAutolab,
		}, nil
	}
	return layout{}, fault.Errorf(fault.Invalid, "it has no autograde-Makefile").
		WithHint("give the folder or tar with autograde-Makefile and autograde.tar")
}

// readAutolab takes the scores of the last line. More than one line with
// scores is refused: a program that prints one cannot be told from the harness.
func readAutolab(out []byte) (result, error) {
	type line struct {
		Scores map[string]number `json:"scores"`
	}
	var found, last *line
	for text := range bytes.Lines(out) {
		text = bytes.TrimSpace(text)
		if len(text) == 0 {
			continue
		}
		last = nil
		if text[0] != '{' {
			continue
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil || l.Scores == nil {
			continue
		}
		if found != nil {
			return result{}, errTwoResults
		}
		found, last = &l, &l
	}
	if last == nil {
		return result{}, errors.New("the last line of its output has no scores")
	}
	var r result
	for _, name := range slices.Sorted(maps.Keys(last.Scores)) {
		if err := r.add(claim{id: name, name: name, score: last.Scores[name].score}); err != nil {
			return r, err
		}
	}
	return r, nil
}

// errTwoResults says that somebody beside the harness gave a result.
var errTwoResults = errors.New("its output has more than one line with scores")
