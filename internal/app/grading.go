package app

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"assay/internal/course"
	"assay/internal/course/call"
	"assay/internal/course/grading"
	"assay/internal/course/pytest"
	"assay/internal/course/stdio"
	"assay/internal/fault"
	"assay/internal/image"
	"assay/internal/judge"
)

// Grading gives a service that grades assignments of every mode with machines
// of this engine. obs, which may be nil, hears how the template of a harness is
// built.
func (e *Engine) Grading(obs image.Observer) (*grading.Service, error) {
	j, err := e.Judge(judge.Options{})
	if err != nil {
		return nil, err
	}
	languages, err := judge.DefaultLanguages()
	if err != nil {
		return nil, err
	}
	cache, err := openProgramCache(filepath.Join(e.dataDir, "pins"))
	if err != nil {
		return nil, err
	}
	graders := map[course.Mode]course.Grader{
		course.IO:      stdio.New(j),
		course.Call:    call.New(judgeMachines{e}, languages),
		course.Pytest:  pytest.New(judgeMachines{e}),
		course.Harness: e.HarnessGrader(obs),
	}
	return grading.New(graders, pins{cache}, j.Options().Host), nil
}

// pins keeps the tests of assignment versions.
type pins struct{ cache programCache }

func pinKey(version string) string { return strings.TrimPrefix(version, "sha256:") }

func (p pins) Get(version string) ([]course.Test, error) {
	data, err := p.cache.Get(pinKey(version))
	if err != nil || data == nil {
		return nil, err
	}
	var tests []course.Test
	if err := json.Unmarshal(data, &tests); err != nil {
		return nil, fault.Errorf(fault.Conflict, "the tests kept of assignment version %s cannot be read: %w", version, err).
			WithHint("remove the file %s; it is made again", filepath.Join(p.cache.dir, pinKey(version)))
	}
	return tests, nil
}

func (p pins) Put(version string, tests []course.Test) error {
	data, err := json.Marshal(tests)
	if err != nil {
		return err
	}
	return p.cache.Put(pinKey(version), data)
}
