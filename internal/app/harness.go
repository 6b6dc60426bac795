package app

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/internal/course/harness"
	"assay/internal/image"
)

// HarnessGrader gives the grader of mode harness, with machines of this
// engine. The observer sees templates being built; it may be nil.
func (e *Engine) HarnessGrader(obs image.Observer) *harness.Grader {
	return harness.New(judgeMachines{e}, harnessTemplates{e, obs})
}

// harnessTemplates builds what a harness wants installed, once for each
// content.
type harnessTemplates struct {
	e   *Engine
	obs image.Observer
}

func (t harnessTemplates) Prepare(ctx context.Context, s harness.Setup) (string, error) {
	dir := filepath.Join(t.e.dataDir, "harness")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the folder for harnesses: %w", err)
	}
	name := harness.Prepared + strings.TrimPrefix(s.Digest(), "sha256:")[:16]
	files, err := packSetup(s)
	if err != nil {
		return "", fmt.Errorf("pack the harness: %w", err)
	}
	const packed = "/opt/harness.tar"
	definition, err := yaml.Marshal(image.Definition{
		Description: "an autograder with its setup script",
		From:        image.From{Template: s.Parent},
		Files:       []image.File{{Path: packed, Source: filepath.Join(dir, name+".tar")}},
		Run:         append([]string{"tar -xf " + packed + " -C / && rm " + packed}, s.Steps...),
	})
	if err != nil {
		return "", fmt.Errorf("write the definition of template %s: %w", name, err)
	}
	for file, data := range map[string][]byte{name + ".tar": files, name + ".yaml": definition} {
		if err := replaceFile(filepath.Join(dir, file), data); err != nil {
			return "", fmt.Errorf("keep the harness: %w", err)
		}
	}
	path := filepath.Join(dir, name+".yaml")
	if _, err := t.e.Template(ctx, path, t.obs); err != nil {
		return "", err
	}
	return path, nil
}

// replaceFile writes a file in one step: others may be reading it.
func replaceFile(name string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // there is none once it was renamed
	_, err = tmp.Write(data)
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	return err
}

// packSetup makes a tar whose bytes depend on nothing but the files.
func packSetup(s harness.Setup) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range s.Files {
		mode := int64(0o644)
		if f.Executable {
			mode = 0o755
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(f.Name, "/"), Mode: mode, Size: int64(len(f.Data))}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}
