package judge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"assay/internal/fault"
	"assay/internal/sandbox"
)

// jurySpec is a program with its language found.
type jurySpec struct {
	program Program
	// lang is not set for a script.
	lang   Language
	script bool
	placed arranged
}

// specify finds out how a jury program is built and run.
func (s *Languages) specify(p Program) (jurySpec, error) {
	j := jurySpec{program: p}
	j.placed.files = p.Files
	for _, f := range p.Files {
		if f.Name == "build" || f.Name == "run" {
			j.script = true
			return j, nil
		}
	}
	if p.Language != "" {
		lang, err := s.ByID(p.Language)
		if err != nil {
			return j, err
		}
		j.lang = lang
	} else {
		for _, f := range p.Files {
			lang, ok := s.forFile(f.Name)
			// A C++ program may have parts in C.
			if ok && (j.lang.ID == "" || lang.ID == "cpp") {
				j.lang = lang
			}
		}
	}
	if j.lang.ID == "" {
		return j, fault.Errorf(fault.Invalid, "%s: no file is of a known language, and none is named build or run", p.Name)
	}
	for _, f := range p.Files {
		if j.lang.Compiles(f.Name) || j.lang.ID == "cpp" && path.Ext(f.Name) == ".c" {
			j.placed.sources = append(j.placed.sources, f.Name)
		}
	}
	if len(j.placed.sources) == 0 {
		return j, fault.Errorf(fault.Invalid, "%s: no file is of %s", p.Name, j.lang.Name)
	}
	j.placed.entry = j.placed.sources[0]
	for _, name := range []string{"__main__" + path.Ext(j.placed.entry), j.lang.SourceFile} {
		if slices.Contains(j.placed.sources, name) {
			j.placed.entry = name
		}
	}
	return j, nil
}

func (s jurySpec) template() string {
	if s.script {
		return juryTemplate
	}
	return s.lang.Template
}

// digest names the program and how it is built.
func (s jurySpec) digest() string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%v %q %q %q\n", s.script, s.lang.ID, s.lang.Compile.Argv, s.placed.entry)
	for _, f := range s.program.Files {
		fmt.Fprintf(sum, "%q %d\n", f.Name, len(f.Data))
		sum.Write(f.Data)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// built gives the program's directory as a tar archive: from the cache, or made
// now in the machine. Runs that need the same program wait for the first.
func (j *jury) built(ctx context.Context, s jurySpec, m *juryMachine, digest string) ([]byte, error) {
	sum := sha256.Sum256([]byte(digest + " " + m.Describe().TemplateDigest))
	key := hex.EncodeToString(sum[:])
	unlock := j.x.judge.building.lock(key)
	defer unlock()
	cache := j.x.judge.options.Cache
	if cache != nil {
		data, err := cache.Get(key)
		if err != nil {
			return nil, fmt.Errorf("look up %s: %w", s.program.Name, err)
		}
		if data != nil {
			return data, nil
		}
	}
	data, err := j.build(ctx, s, m)
	if err == nil && cache != nil {
		err = cache.Put(key, data)
	}
	return data, err
}

func (j *jury) build(ctx context.Context, s jurySpec, m *juryMachine) (data []byte, err error) {
	j.x.observe.tell(Event{Step: StepCompiling, Text: s.program.Name})
	if err := errors.Join(m.Remove(ctx, juryBuildDir), m.MakeDir(ctx, juryBuildDir, 0o777)); err != nil {
		return nil, fmt.Errorf("make %s: %w", juryBuildDir, err)
	}
	if err := writeSources(ctx, m, juryBuildDir, s.program.Files); err != nil {
		return nil, err
	}
	if argv := s.buildArgv(); len(argv) > 0 {
		info := m.Describe()
		limits, err := compileLimits(j.x.problem.Limits.in(info), s.lang, info.Shape)
		if err != nil {
			return nil, &refusal{err}
		}
		said := &head{max: stderrKept}
		res, err := execIn(ctx, m, sandbox.ExecSpec{
			Argv: argv, Dir: juryBuildDir, User: "user", Env: append(baseEnv(juryBuildDir), s.buildEnv()...),
			Isolated: true, WritableDirs: []string{juryBuildDir}, KeepOutput: true, Limits: limits,
		}, said, said)
		if err != nil {
			return nil, fmt.Errorf("compile %s: %w", s.program.Name, err)
		}
		ok, reason, err := decideCompile(res.Exit, limits)
		if err != nil {
			return nil, err
		}
		if !ok {
			text, _ := said.text()
			return nil, juryFaultf("%s does not compile: %s: %s", s.program.Name, reason, clipText(strings.TrimSpace(text), 500))
		}
	}
	tree, err := m.ReadTree(ctx, juryBuildDir)
	if err != nil {
		return nil, fmt.Errorf("read what %s was compiled to: %w", s.program.Name, err)
	}
	data, err = io.ReadAll(io.LimitReader(tree, maxJuryBinary+1))
	if err = errors.Join(err, tree.Close()); err != nil {
		return nil, fmt.Errorf("read what %s was compiled to: %w", s.program.Name, err)
	}
	if len(data) > maxJuryBinary {
		return nil, juryFaultf("%s is larger than %s when compiled", s.program.Name, sizeText(maxJuryBinary))
	}
	return data, m.Remove(ctx, juryBuildDir)
}

func (s jurySpec) buildArgv() []string {
	if !s.script {
		l := layout{src: juryBuildDir, build: juryBuildDir, prog: juryBuildDir}
		return l.expand(s.lang, s.placed, 0, s.lang.Compile.Argv)
	}
	for _, f := range s.program.Files {
		if f.Name == "build" {
			return []string{"./build"}
		}
	}
	return nil
}

func (s jurySpec) buildEnv() []string {
	l := layout{src: juryBuildDir, build: juryBuildDir, prog: juryBuildDir}
	return l.expand(s.lang, s.placed, 0, s.lang.Compile.Env)
}

// writeSources writes files, which may have folders in their names, below dir.
// Those that a script runs are executable.
func writeSources(ctx context.Context, m Machine, dir string, files []SourceFile) error {
	made := map[string]bool{".": true}
	for _, f := range files {
		if d := path.Dir(f.Name); !made[d] {
			made[d] = true
			if err := m.MakeDir(ctx, path.Join(dir, d), 0o777); err != nil {
				return fmt.Errorf("make %s: %w", d, err)
			}
		}
		mode := fs.FileMode(0o444)
		if f.Name == "build" || f.Name == "run" || bytes.HasPrefix(f.Data, []byte("#!")) {
			mode = 0o555
		}
		if err := m.WriteFile(ctx, path.Join(dir, f.Name), bytes.NewReader(f.Data), mode); err != nil {
			return fmt.Errorf("write source %s: %w", f.Name, err)
		}
	}
	return nil
}
