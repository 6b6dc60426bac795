package app

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"assay/internal/classes"
	"assay/internal/course"
	"assay/internal/course/class"
	"assay/internal/fault"
)

// sampleCourse is the course that samples are handed in to.
const sampleCourse = "sample"

// LoadSampleClass makes a course of an assignment's folder: its proofs, which are
// submissions of known worth, are handed in by people of their names, and
// graded. What is there already is not graded again. It returns how many were
// graded, when all are; Run must be running. tell hears of each step.
func (s *Server) LoadSampleClass(ctx context.Context, dir string, tell func(doing string)) (int, error) {
	ctx = samplesActor(ctx)
	name := filepath.Base(dir)
	proofs, err := os.ReadDir(filepath.Join(dir, "proofs"))
	if err != nil {
		return 0, fmt.Errorf("sample assignment: %w", err)
	}
	if err := s.sampleRoster(ctx, proofs); err != nil {
		return 0, fmt.Errorf("sample course: %w", err)
	}
	tell("check " + name)
	if err := s.sampleAssignment(ctx, dir, name); err != nil {
		return 0, fmt.Errorf("sample assignment %s: %w", name, err)
	}
	var attempts []string
	for _, p := range proofs {
		tell("grade " + p.Name())
		id, err := s.handInSample(ctx, filepath.Join(dir, "proofs", p.Name()), name, p.Name())
		if err != nil {
			return 0, fmt.Errorf("sample hand-in %s: %w", p.Name(), err)
		}
		attempts = append(attempts, id)
	}
	for _, id := range attempts {
		for {
			seen, err := s.Classes.Wait(ctx, sampleCourse, id, sampleWait)
			if err != nil {
				return 0, err
			}
			if seen.Graded {
				break
			}
		}
	}
	return len(attempts), nil
}

func (s *Server) sampleRoster(ctx context.Context, proofs []fs.DirEntry) error {
	if _, err := s.Classes.NewCourse(ctx, class.Course{ID: sampleCourse, Title: "A sample course", Zone: "UTC"}); err != nil && !fault.Is(err, fault.Conflict) {
		return err
	}
	// Nobody is invented: each is called what their program does.
	var csv bytes.Buffer
	csv.WriteString("student id,name,role\n")
	for _, p := range proofs {
		fmt.Fprintf(&csv, "%s,%s,student\n", p.Name(), p.Name())
	}
	_, digest, err := s.Classes.PlanRoster(ctx, sampleCourse, "roster.csv", csv.Bytes())
	if err != nil {
		return err
	}
	_, err = s.Classes.ImportRoster(ctx, sampleCourse, "roster.csv", csv.Bytes(), digest)
	return err
}

// sampleAssignment uploads an assignment and opens it when it has been checked.
func (s *Server) sampleAssignment(ctx context.Context, dir, name string) error {
	archive, err := zipFolder(dir)
	if err != nil {
		return err
	}
	v, err := s.Classes.Upload(ctx, sampleCourse, name, bytes.NewReader(archive))
	if err != nil {
		return err
	}
	poll := time.NewTicker(time.Second / 2)
	defer poll.Stop()
	for v.State == classes.Checking {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-poll.C:
		}
		if v, err = s.Classes.Version(ctx, sampleCourse, name, v.Number); err != nil {
			return err
		}
	}
	if !v.Opened.IsZero() {
		return nil
	}
	_, err = s.Classes.Open(ctx, sampleCourse, name, v.Number, classes.Opening{})
	return err
}

func (s *Server) handInSample(ctx context.Context, dir, assignment, who string) (string, error) {
	var files []course.File
	err := fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, p))
		files = append(files, course.File{Name: p, Data: data})
		return err
	})
	if err != nil {
		return "", err
	}
	a, err := s.Classes.HandIn(ctx, classes.NewAttempt{
		Course: sampleCourse, Assignment: assignment, Files: files, For: who, Idempotency: "sample " + who,
	})
	return a.ID, err
}

// zipFolder makes a zip of a folder, the same bytes each time.
func zipFolder(dir string) ([]byte, error) {
	var names []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, p)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, p := range names {
		data, err := os.ReadFile(filepath.Join(dir, p))
		if err != nil {
			return nil, err
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: path.Clean(p), Method: zip.Deflate})
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
