package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"assay/client"
	"assay/internal/fault"
	"assay/internal/judge/problempkg"
)

type problemUploadCmd struct {
	serverFlags
	Package string `arg:"" help:"Folder or zip of the package." type:"path"`
	ID      string `name:"id" placeholder:"ID" help:"What the problem is called on the server (default: the package's name)."`
	Open    bool   `name:"open" help:"Let members see it and submit."`
}

func (problemUploadCmd) Help() string {
	return `Makes a package the next version of a problem on the server. Submissions that were judged by another version keep their verdict.`
}

func (c problemUploadCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	id := c.ID
	if id == "" {
		base := filepath.Base(c.Package)
		id = strings.ToLower(strings.TrimSuffix(base, filepath.Ext(base)))
	}
	body, err := packageZip(env, c.Package)
	if err != nil {
		return err
	}
	p := env.UI.Progress("upload "+id, 0)
	r, err := api.UploadProblemWithBodyWithResponse(ctx, id, "application/zip", body)
	if err = answered(r, err); err != nil {
		return err
	}
	p.Finish("done")
	shown := *r.JSON201
	if c.Open && !shown.Open {
		r, err := api.ChangeProblemWithResponse(ctx, id, client.ProblemChange{Open: true})
		if err = answered(r, err); err != nil {
			return err
		}
		shown = *r.JSON200
	}
	for _, w := range shown.Current.Warnings {
		env.UI.Warnf("%s", w)
	}
	return showProblems(env, []client.Problem{shown}, shown)
}

// packageZip gives a package as a zip: a folder is made one.
func packageZip(env *Env, path string) (io.Reader, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fault.Errorf(fault.NotFound, "problem package: %w", err)
	}
	if !info.IsDir() {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fault.Errorf(fault.Invalid, "problem package: %w", err)
		}
		return bytes.NewReader(data), nil
	}
	var b bytes.Buffer
	warnings, err := problempkg.Zip(path, &b)
	for _, w := range warnings {
		env.UI.Warnf("%s", w)
	}
	return &b, err
}

type problemListCmd struct{ serverFlags }

func (c problemListCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	list, cursor := []client.Problem{}, ""
	for {
		r, err := api.ListProblemsWithResponse(ctx, &client.ListProblemsParams{Cursor: cursor, Limit: 200})
		if err = answered(r, err); err != nil {
			return err
		}
		list = append(list, r.JSON200.Items...)
		if cursor = r.JSON200.Next; cursor == "" {
			return showProblems(env, list, list)
		}
	}
}

type problemOpenCmd struct {
	serverFlags
	ID    string `arg:"" help:"ID of the problem."`
	Close bool   `name:"close" help:"Close it instead."`
}

func (c problemOpenCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	r, err := api.ChangeProblemWithResponse(ctx, c.ID, client.ProblemChange{Open: !c.Close})
	if err = answered(r, err); err != nil {
		return err
	}
	return showProblems(env, []client.Problem{*r.JSON200}, r.JSON200)
}

// showProblems shows problems of a server; asJSON is what --json gives.
func showProblems(env *Env, list []client.Problem, asJSON any) error {
	if env.JSON {
		return env.PrintJSON(asJSON)
	}
	rows := make([][]string, len(list))
	for i, p := range list {
		state := "closed"
		if p.Open {
			state = "open"
		}
		rows[i] = []string{
			p.ID, oneLine(p.Current.Title), state, p.Current.Format, strconv.Itoa(p.Current.Cases), secondsCell(p.Current.TimeLimitUs),
			strings.TrimPrefix(p.Current.Version, "sha256:")[:12],
		}
	}
	env.UI.Table([]Column{Left("ID"), Left("TITLE"), Left("STATE"), Left("FORMAT"), Right("CASES"), Right("TIME LIMIT S"), Left("VERSION")}, rows)
	return nil
}
