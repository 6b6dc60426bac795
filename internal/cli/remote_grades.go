package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"assay/client"
	"assay/internal/fault"
)

type remoteGradesCmd struct {
	serverFlags
	Course string `arg:"" help:"Course."`
	CSV    bool   `name:"csv" help:"Write the table of the gradebook, if you run the course."`
}

func (c remoteGradesCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	if c.CSV {
		r, err := api.ExportGradebookWithResponse(ctx, c.Course, &client.ExportGradebookParams{})
		if err = answered(r, err); err != nil {
			return err
		}
		_, err = env.Stdout.Write(r.Body)
		return err
	}
	r, err := api.GetGradebookWithResponse(ctx, c.Course)
	if err = answered(r, err); err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(r.JSON200)
	}
	columns := []Column{Left("NAME")}
	for _, a := range r.JSON200.Columns {
		columns = append(columns, Right(fmt.Sprintf("%s (%s)", a.Assignment, pointsCell(a.Points))))
	}
	columns = append(columns, Right("TOTAL"))
	var rows [][]string
	for _, line := range r.JSON200.Rows {
		row := []string{oneLine(line.Person.Name)}
		for _, m := range line.Marks {
			switch {
			case m.Hidden:
				row = append(row, "hidden")
			case m.Score == nil:
				row = append(row, "")
			default:
				row = append(row, pointsCell(*m.Score))
			}
		}
		rows = append(rows, append(row, pointsCell(line.Total)))
	}
	env.UI.Table(columns, rows)
	return nil
}

type remoteRegradeCmd struct {
	serverFlags
	Course     string   `arg:"" help:"Course."`
	Assignment string   `arg:"" optional:"" help:"Assignment to grade again; none shows the set of --set."`
	Version    int      `name:"version" placeholder:"N" help:"Version to grade by (default: the current one)."`
	Only       []string `name:"only" placeholder:"ATTEMPT" help:"Only this attempt; may be given often."`
	Reason     string   `name:"reason" placeholder:"REASON" help:"Why, for the history of the course."`
	Set        string   `name:"set" placeholder:"ID" help:"A set that is there already."`
	Apply      bool     `name:"apply" help:"Let the new grades count. Without it nothing is changed."`
	Cancel     bool     `name:"cancel" help:"Give the set up."`
}

func (remoteRegradeCmd) Help() string {
	return `Makes a regrade set, waits until all of it is graded, and shows whose mark would change, by how much and why. Only --apply changes marks, all of them or none; later it takes --set ID --apply. Where the new grading fails on our side the old grade stays.`
}

func (c remoteRegradeCmd) Run(ctx context.Context, env *Env) error {
	if (c.Set == "") == (c.Assignment == "") || c.Apply && c.Cancel {
		return fault.Errorf(fault.Invalid, "name either an assignment or a set, and either apply or cancel it")
	}
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	set, err := c.set(ctx, api)
	if err != nil {
		return err
	}
	if c.Cancel {
		r, err := api.CancelRegradeWithResponse(ctx, c.Course, set.ID)
		if err = answered(r, err); err != nil {
			return err
		}
		return showRegrade(env, *r.JSON200)
	}
	env.UI.Notef("regrade %s", set.ID)
	p := env.UI.Progress("grade again", int64(set.Total))
	for set.State == client.RegradeStateRunning {
		p.Set(int64(set.Done), int64(set.Total))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(checkPoll):
		}
		r, err := api.GetRegradeWithResponse(ctx, c.Course, set.ID)
		if err = answered(r, err); err != nil {
			return err
		}
		set = *r.JSON200
	}
	p.Finish(string(set.State))
	if !c.Apply {
		return showRegrade(env, set)
	}
	if set.Plan == nil {
		return fault.Errorf(fault.Conflict, "regrade %s is %s: there is nothing to apply", set.ID, set.State).WithHint("make a new set")
	}
	// What was shown is what is done: the server refuses another plan.
	if !env.JSON {
		if err := showRegrade(env, set); err != nil {
			return err
		}
	}
	r, err := api.ApplyRegradeWithResponse(ctx, c.Course, set.ID, client.RegradeApplication{Plan: set.Plan.Digest})
	if err = answered(r, err); err != nil {
		return err
	}
	env.UI.Notef("the new grades count")
	if env.JSON {
		// The plan is only in the answer before, the state only in this one.
		applied := *r.JSON200
		applied.Plan = set.Plan
		return env.PrintJSON(applied)
	}
	return nil
}

// set finds the set, or makes it.
func (c remoteRegradeCmd) set(ctx context.Context, api *client.ClientWithResponses) (client.Regrade, error) {
	if c.Set != "" {
		r, err := api.GetRegradeWithResponse(ctx, c.Course, c.Set)
		if err = answered(r, err); err != nil {
			return client.Regrade{}, err
		}
		return *r.JSON200, nil
	}
	r, err := api.CreateRegradeWithResponse(ctx, c.Course, client.NewRegrade{Assignment: c.Assignment, VersionNumber: c.Version, Attempts: c.Only, Reason: c.Reason})
	if err = answered(r, err); err != nil {
		return client.Regrade{}, err
	}
	return *r.JSON201, nil
}

func showRegrade(env *Env, set client.Regrade) error {
	if env.JSON {
		return env.PrintJSON(set)
	}
	env.UI.Printf("regrade %s of %s by version %d: %s, %d of %d graded, %d failures of ours\n",
		set.ID, set.Assignment, set.VersionNumber, set.State, set.Done, set.Total, set.Failed)
	if set.Plan == nil {
		return nil
	}
	var marks, attempts [][]string
	for _, m := range set.Plan.Marks {
		marks = append(marks, []string{oneLine(m.Who), pointsCell(m.Before), pointsCell(m.After)})
	}
	for _, a := range set.Plan.Attempts {
		attempts = append(attempts, []string{a.Attempt, pointsCell(a.Before), pointsCell(a.After), oneLine(strings.Join(a.Why, "; "))})
	}
	if len(marks) > 0 {
		env.UI.Table([]Column{Left("WHO"), Right("OLD MARK"), Right("NEW MARK")}, marks)
	}
	if len(attempts) > 0 {
		env.UI.Table([]Column{Left("ATTEMPT"), Right("OLD"), Right("NEW"), Left("WHY")}, attempts)
	}
	env.UI.Printf("%d attempts stay as they are\n", set.Plan.Same)
	return nil
}

// usageCmd tells what was used on a server.
type usageCmd struct {
	serverFlags
	By   string    `name:"by" default:"user" placeholder:"WHAT" help:"Lines: sandbox, user, problem, course or label:NAME."`
	From time.Time `name:"from" format:"2006-01-02" placeholder:"DAY" help:"First day in UTC (default: 30 days before the last)."`
	To   time.Time `name:"to" format:"2006-01-02" placeholder:"DAY" help:"Day after the last one in UTC (default: now)."`
	User string    `name:"user" placeholder:"LOGIN" help:"Only what this user used."`
}

func (c usageCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	r, err := api.GetUsageWithResponse(ctx, &client.GetUsageParams{By: c.By, From: c.From, To: c.To, User: c.User})
	if err = answered(r, err); err != nil {
		return err
	}
	report := *r.JSON200
	if env.JSON {
		return env.PrintJSON(report)
	}
	var rows [][]string
	for _, l := range append(report.Items, report.Total) {
		rows = append(rows, usageRow(l))
	}
	rows[len(rows)-1][0] = "total"
	env.UI.Table([]Column{
		Left(strings.ToUpper(report.By)), Right("CPU S"), Right("GIB HOURS"), Right("SNAPSHOT GIB HOURS"), Right("SANDBOXES"), Right("RUNS"), Right("COST " + report.Rates.Currency),
	}, rows)
	if report.Truncated {
		env.UI.Warnf("there were more lines; the total has them all")
	}
	return nil
}

func usageRow(l client.UsageLine) []string {
	key := oneLine(l.Key)
	if key == "" {
		key = "(none)"
	}
	return []string{
		key, fmt.Sprintf("%.3f", l.CPUSeconds), fmt.Sprintf("%.4f", l.MemoryGibHours), fmt.Sprintf("%.4f", l.SnapshotGibHours),
		fmt.Sprint(l.Sandboxes), fmt.Sprint(l.Runs), fmt.Sprintf("%.4f", l.Cost),
	}
}
