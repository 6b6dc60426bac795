package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"assay/client"
)

type remoteRejudgeCmd struct {
	New    remoteRejudgeNewCmd    `cmd:"" help:"Judge submissions of a problem again; no verdict changes yet."`
	List   remoteRejudgeListCmd   `cmd:"" help:"List rejudge sets."`
	Show   remoteRejudgeShowCmd   `cmd:"" help:"Show a set and what it would change."`
	Apply  remoteRejudgeApplyCmd  `cmd:"" help:"Let the new verdicts count: all of them."`
	Cancel remoteRejudgeCancelCmd `cmd:"" help:"Give a set up."`
}

type remoteRejudgeNewCmd struct {
	serverFlags
	Problem     string   `arg:"" help:"ID of the problem."`
	Submissions []string `arg:"" optional:"" help:"Only these submissions (default: all)."`
	Reason      string   `name:"reason" required:"" help:"Why; it is kept."`
	Verdict     string   `name:"verdict" placeholder:"WA" help:"Only those that have this verdict now."`
	Version     string   `name:"problem-version" placeholder:"DIGEST" help:"Version to judge by (default: the current one)."`
}

func (c remoteRejudgeNewCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	r, err := api.CreateRejudgeWithResponse(ctx, client.NewRejudge{
		Problem: c.Problem, Submissions: c.Submissions, Reason: c.Reason, Verdict: client.Verdict(strings.ToUpper(c.Verdict)), Version: c.Version,
	})
	if err = answered(r, err); err != nil {
		return err
	}
	return showRejudge(env, *r.JSON201)
}

type remoteRejudgeListCmd struct {
	serverFlags
	Limit int `name:"limit" default:"20" help:"How many of the newest."`
}

func (c remoteRejudgeListCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	r, err := api.ListRejudgesWithResponse(ctx, &client.ListRejudgesParams{Limit: c.Limit})
	if err = answered(r, err); err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(r.JSON200.Items)
	}
	rows := make([][]string, len(r.JSON200.Items))
	for i, s := range r.JSON200.Items {
		rows[i] = rejudgeRow(s)
	}
	env.UI.Table(rejudgeColumns, rows)
	return nil
}

type rejudgeFlags struct {
	serverFlags
	ID string `arg:"" help:"ID of the set."`
}

type remoteRejudgeShowCmd struct {
	rejudgeFlags
	Wait bool `name:"wait" help:"Wait until all of it is judged."`
}

func (c remoteRejudgeShowCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	p := env.UI.Progress("rejudge "+c.ID, 0)
	poll := time.NewTicker(time.Second)
	defer poll.Stop()
	for {
		r, err := api.GetRejudgeWithResponse(ctx, c.ID)
		if err = answered(r, err); err != nil {
			return err
		}
		set := *r.JSON200
		p.Set(int64(set.Done), int64(set.Total))
		if !c.Wait || set.State != client.RejudgeStateRunning {
			p.Finish(string(set.State))
			return showRejudge(env, set)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}
	}
}

type remoteRejudgeApplyCmd struct{ rejudgeFlags }

func (c remoteRejudgeApplyCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	r, err := api.ApplyRejudgeWithResponse(ctx, c.ID)
	if err = answered(r, err); err != nil {
		return err
	}
	return showRejudge(env, *r.JSON200)
}

type remoteRejudgeCancelCmd struct{ rejudgeFlags }

func (c remoteRejudgeCancelCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	r, err := api.CancelRejudgeWithResponse(ctx, c.ID)
	if err = answered(r, err); err != nil {
		return err
	}
	return showRejudge(env, *r.JSON200)
}

var rejudgeColumns = []Column{
	Left("REJUDGE"), Left("PROBLEM"), Left("STATE"), Right("JUDGED"), Right("OF"), Right("FAILED"), Right("CHANGES"), Left("BY"), Left("REASON"),
}

func rejudgeRow(r client.Rejudge) []string {
	return []string{
		r.ID, r.Problem, string(r.State), strconv.Itoa(r.Done), strconv.Itoa(r.Total), strconv.Itoa(r.Failed), strconv.Itoa(len(r.Changes)), r.By, oneLine(r.Reason),
	}
}

func showRejudge(env *Env, r client.Rejudge) error {
	if env.JSON {
		return env.PrintJSON(r)
	}
	env.UI.Table(rejudgeColumns, [][]string{rejudgeRow(r)})
	if len(r.Changes) == 0 {
		return nil
	}
	env.UI.Printf("\n")
	rows := make([][]string, len(r.Changes))
	for i, c := range r.Changes {
		rows[i] = []string{c.Submission, c.User, string(c.Before.Verdict), string(c.After.Verdict), numberCell(c.Before.Score), numberCell(c.After.Score)}
	}
	env.UI.Table([]Column{Left("SUBMISSION"), Left("USER"), Left("BEFORE"), Left("AFTER"), Right("SCORE BEFORE"), Right("SCORE AFTER")}, rows)
	return nil
}

func numberCell(n *float64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatFloat(*n, 'g', -1, 64)
}
