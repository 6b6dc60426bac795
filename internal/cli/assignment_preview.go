package cli

import (
	"assay/internal/course/assignment"
	"assay/internal/course/handin"
)

type assignmentPreviewCmd struct {
	Assignment string `arg:"" help:"Folder of the assignment."`
	Submission string `arg:"" help:"What would be handed in: a file, a folder or an archive."`
}

func (assignmentPreviewCmd) Help() string {
	return `Nothing is run. The exit code is 0 if all files that the assignment asks for are there, and 1 if some are missing; what would be refused is an error that says why.`
}

// previewJSON is the result of "assay assignment preview --json".
type previewJSON struct {
	Files   []previewFile `json:"files"`
	Notes   []string      `json:"notes"`
	Missing []string      `json:"missing"`
	Digest  string        `json:"submission_digest"`
}

type previewFile struct {
	Name       string `json:"name"`
	Bytes      int    `json:"bytes"`
	Executable bool   `json:"executable,omitempty"`
}

func (c assignmentPreviewCmd) Run(env *Env) error {
	a, err := assignment.Load(c.Assignment)
	if err != nil {
		return err
	}
	s, err := handin.Read(c.Submission, handin.Options{Expected: a.Expected})
	if err != nil {
		return err
	}
	missing := handin.Compare(s.Files, a.Expected).Missing
	if env.JSON {
		p := previewJSON{Files: []previewFile{}, Notes: append([]string{}, s.Notes...), Missing: append([]string{}, missing...), Digest: s.Digest()}
		for _, f := range s.Files {
			p.Files = append(p.Files, previewFile{f.Name, len(f.Data), f.Executable})
		}
		if err := env.PrintJSON(p); err != nil {
			return err
		}
	} else {
		env.UI.Printf("%s", handin.Tree(s))
	}
	if len(missing) > 0 {
		return errNegative
	}
	return nil
}
