package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"assay/internal/course"
	"assay/internal/fault"
	"assay/internal/judge"
)

const (
	prairieWall = 30 * time.Second
	prairieMost = 600 * time.Second
)

// prairieLearn lays out a question's folder: info.json, tests/ and, where the
// entrypoint needs it, serverFilesCourse/ beside them.
func prairieLearn(a *course.Assignment, files []course.File) (layout, error) {
	files = withoutTop(files, "info.json")
	info := fileNamed(files, "info.json")
	if info == nil {
		return layout{}, fault.Errorf(fault.Invalid, "it has no info.json").WithHint("give the folder of the question")
	}
	var doc struct {
		Options struct {
			Entrypoint words             `json:"entrypoint"`
			Timeout    float64           `json:"timeout"` // seconds
			Env        map[string]string `json:"environment"`
		} `json:"externalGradingOptions"`
	}
	if err := json.Unmarshal(info.Data, &doc); err != nil {
		return layout{}, fmt.Errorf("info.json: %w", err)
	}
	argv := []string(doc.Options.Entrypoint)
	if len(argv) == 1 {
		argv = strings.Fields(argv[0])
	}
	if len(argv) == 0 {
		return layout{}, fault.Errorf(fault.Invalid, "info.json has no externalGradingOptions.entrypoint").
			WithHint("an image's own entrypoint is not known here: name the script")
	}
	wall := prairieWall
	if t := doc.Options.Timeout; t > 0 {
		wall = min(time.Duration(min(t, prairieMost.Seconds())*float64(time.Second)), prairieMost)
	}
	l := layout{
		root: "/grade", hand: "/grade/student", dirs: []string{"/grade/results"}, argv: argv, dir: "/grade", user: "root",
		result: "/grade/results/results.json", wall: wall, memory: gradescopeMemory, read: readPrairieLearn,
	}
	for _, f := range files {
		if top, _, _ := strings.Cut(f.Name, "/"); top == "tests" || top == "serverFilesCourse" {
			f.Executable = f.Executable || path.Ext(f.Name) == ".sh"
			l.files = append(l.files, course.File{Name: "/grade/" + f.Name, Data: f.Data, Executable: f.Executable})
		}
	}
	if len(l.files) == 0 {
		return layout{}, fault.Errorf(fault.Invalid, "it has no tests folder").WithHint("give the folder of the question")
	}
	data := fmt.Appendf(nil, `{"params": {}, "correct_answers": {}, "submitted_answers": {}, "variant_seed": %d, "gradable": true}`+"\n", a.Seed)
	l.files = append(l.files, course.File{Name: "/grade/data/data.json", Data: data})
	return l, nil
}

// words is a text or a list of texts.
type words []string

func (w *words) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*w = words{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(w))
}

// looseText is a text or whatever else was written in its place.
type looseText string

func (t *looseText) UnmarshalJSON(data []byte) error {
	var s string
	if json.Unmarshal(data, &s) == nil {
		*t = looseText(s)
	} else if string(data) != "null" {
		*t = looseText(data)
	}
	return nil
}

func joined(sep, a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + sep + b
}

// readPrairieLearn reads results.json. Points of tests are used when every test
// has them, else the score from 0 to 1, which is then one test.
func readPrairieLearn(data []byte) (result, error) {
	var doc struct {
		Score        number    `json:"score"`
		Gradable     *bool     `json:"gradable"`
		FormatErrors words     `json:"format_errors"`
		Message      looseText `json:"message"`
		Output       looseText `json:"output"`
		Tests        []struct {
			Name    looseText `json:"name"`
			Points  number    `json:"points"`
			Max     number    `json:"max_points"`
			Message looseText `json:"message"`
			Output  looseText `json:"output"`
		} `json:"tests"`
	}
	if err := decode(data, &doc); err != nil {
		return result{}, err
	}
	r := result{text: joined("\n", string(doc.Message), string(doc.Output))}
	if doc.Gradable != nil && !*doc.Gradable {
		r.text = joined("\n", strings.Join(doc.FormatErrors, "\n"), r.text)
		return r, nil
	}
	if doc.Score.score == nil {
		return r, errors.New("it has no \"score\"")
	}
	for _, t := range doc.Tests {
		if t.Points.score == nil || t.Max.score == nil {
			r.total = doc.Score.score
		}
	}
	if len(doc.Tests) == 0 {
		r.total = doc.Score.score
	}
	one := judge.IntScore(1)
	r.totalMax = &one
	for i, t := range doc.Tests {
		c := claim{name: string(t.Name), score: t.Points.score, max: t.Max.score, message: joined("\n", string(t.Message), string(t.Output))}
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
