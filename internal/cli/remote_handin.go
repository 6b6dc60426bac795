package cli

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"assay/client"
	"assay/internal/fault"
)

// zipFolder packs a folder; links in it are refused.
func zipFolder(dir string) (*bytes.Buffer, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "pack %s: %w", dir, err)
	}
	defer root.Close()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	if err := w.AddFS(root.FS()); err != nil {
		return nil, fault.Errorf(fault.Invalid, "pack %s: %w", dir, err).WithHint("put plain files into the folder, no links")
	}
	return &b, w.Close()
}

type remoteHandInCmd struct {
	serverFlags
	Course     string   `arg:"" help:"Course."`
	Assignment string   `arg:"" help:"Assignment."`
	Files      []string `arg:"" help:"Files, or one folder or archive." type:"path"`
	For        string   `name:"for" placeholder:"WHO" help:"Hand in for somebody on the roster, if you run the course."`
	NoWait     bool     `name:"no-wait" help:"Do not wait for the grade."`
}

func (remoteHandInCmd) Help() string {
	return `What is refused (too many attempts, too late, a file that is missing or cannot be taken) costs no attempt, and neither does a failure of ours.`
}

func (c remoteHandInCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	p := env.UI.Progress("hand in "+c.Assignment, 0)
	p.Stage("send")
	a, err := c.handIn(ctx, api)
	if err != nil {
		return err
	}
	p.Finish("attempt " + a.ID)
	for _, n := range a.Notes {
		env.UI.Notef("%s", oneLine(n))
	}
	if !c.NoWait {
		p = env.UI.Progress("grade attempt "+a.ID, 0)
		for !a.Graded {
			r, err := api.GetAttemptWithResponse(ctx, c.Course, a.ID, &client.GetAttemptParams{WaitSeconds: 30})
			if err = answered(r, err); err != nil {
				return err
			}
			a = *r.JSON200
		}
		p.Finish("done")
	}
	return showAttempt(env, a)
}

// handIn sends one folder, archive or file as it is, and several files by name.
func (c remoteHandInCmd) handIn(ctx context.Context, api *client.ClientWithResponses) (client.Attempt, error) {
	// With a key the request is sent again by itself where a kept connection
	// turns out to be broken, and is one attempt.
	key := newKey()
	if len(c.Files) == 1 {
		body, name, err := onlyFile(c.Files[0])
		if err != nil {
			return client.Attempt{}, err
		}
		r, err := api.HandInFileWithBodyWithResponse(ctx, c.Course, c.Assignment,
			&client.HandInFileParams{Name: name, For: c.For, IdempotencyKey: key}, "application/octet-stream", body)
		if err = answered(r, err); err != nil {
			return client.Attempt{}, err
		}
		return *r.JSON201, nil
	}
	n := client.NewAttempt{For: c.For}
	for _, path := range c.Files {
		data, err := os.ReadFile(path)
		if err != nil {
			return client.Attempt{}, fault.Errorf(fault.Invalid, "hand in: %w", err).WithHint("name files, or one folder or archive")
		}
		f := client.CourseFile{Name: filepath.Base(path)}
		if utf8.Valid(data) && len(data) > 0 {
			f.Text = string(data)
		} else {
			f.Base64 = data
		}
		n.Files = append(n.Files, f)
	}
	r, err := api.HandInWithResponse(ctx, c.Course, c.Assignment, &client.HandInParams{IdempotencyKey: key}, n)
	if err = answered(r, err); err != nil {
		return client.Attempt{}, err
	}
	return *r.JSON201, nil
}

func onlyFile(path string) (*bytes.Buffer, string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, "", fault.Errorf(fault.NotFound, "hand in: %w", err)
	}
	if info.IsDir() {
		b, err := zipFolder(path)
		return b, filepath.Base(path) + ".zip", err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, "", fault.Errorf(fault.Invalid, "hand in: %w", err)
	}
	return bytes.NewBuffer(data), filepath.Base(path), nil
}

// showAttempt shows one attempt with what the reader may see of its grade.
func showAttempt(env *Env, a client.Attempt) error {
	if env.JSON {
		return env.PrintJSON(a)
	}
	env.UI.Printf("attempt %s at %s by %s: %s\n", a.ID, a.Assignment, oneLine(a.Who), attemptState(a))
	if a.Grade == nil {
		return nil
	}
	if a.Grade.Message != "" {
		env.UI.Printf("%s\n", a.Grade.Message)
	}
	if a.Grade.Build != "" {
		env.UI.Printf("%s\n", strings.TrimRight(a.Grade.Build, "\n"))
	}
	var rows [][]string
	for _, t := range a.Grade.Tests {
		mark := env.UI.Good("passed")
		if !t.Passed {
			mark = env.UI.Bad("failed")
		}
		rows = append(rows, []string{mark, oneLine(t.Name), pointsCell(t.Score), pointsCell(t.Points), oneLine(t.Message)})
	}
	if len(rows) > 0 {
		env.UI.Table([]Column{Left(""), Left("TEST"), Right("SCORE"), Right("POINTS"), Left("MESSAGE")}, rows)
	}
	if a.Grade.HiddenTestsRemain {
		env.UI.Notef("hidden tests remain")
	}
	return nil
}

// attemptState says how far an attempt is, and its score if the reader knows it.
func attemptState(a client.Attempt) string {
	switch {
	case a.OurFailure:
		return "a failure of ours; it costs no attempt"
	case a.Grade != nil && a.Grade.Score != nil && a.Grade.Points != nil:
		return fmt.Sprintf("%s of %s points", pointsCell(*a.Grade.Score), pointsCell(*a.Grade.Points))
	case a.Graded:
		return "graded"
	}
	return string(a.State)
}

type remoteAttemptsCmd struct {
	serverFlags
	Course     string `arg:"" help:"Course."`
	ID         string `arg:"" optional:"" help:"Show this attempt with its grade."`
	Assignment string `name:"assignment" short:"a" placeholder:"NAME" help:"Only those at this assignment."`
	Who        string `name:"who" placeholder:"WHO" help:"Only those of this person, if you run the course."`
	Limit      int    `name:"limit" default:"50" help:"How many at most, newest first (up to 200)."`
}

func (c remoteAttemptsCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	if c.ID != "" {
		r, err := api.GetAttemptWithResponse(ctx, c.Course, c.ID, nil)
		if err = answered(r, err); err != nil {
			return err
		}
		return showAttempt(env, *r.JSON200)
	}
	r, err := api.ListAttemptsWithResponse(ctx, c.Course, &client.ListAttemptsParams{Assignment: c.Assignment, Who: c.Who, Limit: c.Limit})
	if err = answered(r, err); err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(r.JSON200.Items)
	}
	var rows [][]string
	for _, a := range r.JSON200.Items {
		rows = append(rows, []string{
			a.ID, a.Assignment, oneLine(a.Who), oneLine(a.Group), a.ReceivedAt.Local().Format("2006-01-02 15:04:05"), attemptState(a), strconv.Itoa(a.VersionNumber),
		})
	}
	env.UI.Table([]Column{Left("ID"), Left("ASSIGNMENT"), Left("WHO"), Left("GROUP"), Left("RECEIVED"), Left("STATE"), Right("VERSION")}, rows)
	return nil
}
