package jobe

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
)

// spec is run_spec as it comes.
type spec struct {
	Language   string     `json:"language_id"`
	Source     *string    `json:"sourcecode"`
	Name       string     `json:"sourcefilename"`
	Input      string     `json:"input"`
	Files      []fileSpec `json:"file_list"`
	Parameters parameters `json:"parameters"`
}

// fileSpec is [ID, name] and, of old clients, a third value.
type fileSpec struct{ id, name string }

var fileName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$`)

func (f *fileSpec) UnmarshalJSON(data []byte) error {
	var parts []any
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	if len(parts) < 2 || len(parts) > 3 {
		return errors.New("an entry of file_list has an ID and a name")
	}
	id, isID := parts[0].(string)
	name, isName := parts[1].(string)
	if !isID || !isName || !fileID.MatchString(id) || !fileName.MatchString(name) {
		return errors.New("an entry of file_list has an odd ID or name")
	}
	*f = fileSpec{id, name}
	return nil
}

// parameters come as an object, or from PHP as an empty list. A number that is
// none is as if it were not there.
type parameters map[string]json.RawMessage

func (p *parameters) UnmarshalJSON(data []byte) error {
	if text := strings.TrimSpace(string(data)); strings.HasPrefix(text, "[") || text == "null" {
		return nil
	}
	return json.Unmarshal(data, (*map[string]json.RawMessage)(p))
}

func (p parameters) number(key string, otherwise float64) float64 {
	var n float64
	if json.Unmarshal(p[key], &n) != nil || math.IsNaN(n) || n < 0 || n > 1e9 {
		return otherwise
	}
	return n
}

func (p parameters) words(key string) ([]string, error) {
	var list []string
	raw, there := p[key]
	if !there || string(raw) == "null" {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &list); err != nil || len(list) > maxArgs {
		return nil, fmt.Errorf("%s is no list of at most %d texts", key, maxArgs)
	}
	return list, nil
}

// job checks a spec and gives the job without its files.
func (s spec) job() (Job, error) {
	j := Job{Language: strings.ToLower(s.Language), Input: []byte(s.Input)}
	switch {
	case s.Source == nil || s.Language == "":
		return j, errors.New("run_spec needs sourcecode and language_id")
	case s.Name != "" && !fileName.MatchString(s.Name):
		return j, errors.New("sourcefilename is not allowed")
	case len(s.Files) > maxFiles:
		return j, fmt.Errorf("more than %d files", maxFiles)
	}
	j.Source = []byte(*s.Source)
	// Old clients send this name for every program of Java.
	if j.Name = s.Name; j.Name == "prog.java" {
		j.Name = ""
	}
	p := s.Parameters
	j.CPU = time.Duration(p.number("cputime", defaultCPU.Seconds()) * float64(time.Second))
	if j.CPU > maxCPU {
		return j, fmt.Errorf("cputime is above the %v that are allowed here", maxCPU)
	}
	if j.CPU == 0 {
		j.CPU = defaultCPU
	}
	const mb = 1 << 20
	j.Memory = int64(p.number("memorylimit", defaultMemory/mb) * mb)
	j.Disk = int64(p.number("disklimit", defaultDisk/mb) * mb)
	j.Output = int64(p.number("streamsize", defaultOutput/mb) * mb)
	j.Processes = int(p.number("numprocs", defaultProcesses))
	for _, list := range []struct {
		key  string
		into *[]string
	}{{"compileargs", &j.CompileArgs}, {"linkargs", &j.LinkArgs}, {"interpreterargs", &j.InterpreterArgs}, {"runargs", &j.RunArgs}} {
		words, err := p.words(list.key)
		if err != nil {
			return j, err
		}
		*list.into = words
	}
	return j, nil
}
