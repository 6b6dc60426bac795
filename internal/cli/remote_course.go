package cli

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"assay/client"
	"assay/internal/course/class"
)

// remoteCmd are courses that are on a server.
type remoteCmd struct {
	Course     remoteCourseCmd     `cmd:"" help:"Make, list and show courses of a server."`
	Roster     remoteRosterCmd     `cmd:"" help:"Make the roster of a course what a CSV file says, after a preview."`
	Assignment remoteAssignmentCmd `cmd:"" help:"Upload, open, close and publish assignments."`
	HandIn     remoteHandInCmd     `cmd:"" name:"hand-in" help:"Hand in files, a folder or an archive, and wait for the grade."`
	Attempts   remoteAttemptsCmd   `cmd:"" help:"List attempts."`
	Grades     remoteGradesCmd     `cmd:"" help:"Show the gradebook of a course, or your own line of it."`
	Regrade    remoteRegradeCmd    `cmd:"" help:"Grade attempts again, show what would change, and apply or cancel it."`
	Rejudge    remoteRejudgeCmd    `cmd:"" help:"Judge submissions again, show what would change, and apply or cancel it."`
}

type remoteCourseCmd struct {
	List    remoteCourseListCmd    `cmd:"" help:"List the courses that you may see."`
	Show    remoteCourseShowCmd    `cmd:"" help:"Show the assignments of a course, with what holds for you."`
	New     remoteCourseNewCmd     `cmd:"" help:"Make a course."`
	Archive remoteCourseArchiveCmd `cmd:"" help:"Close a course for good: nobody hands in any more."`
}

type remoteCourseListCmd struct {
	serverFlags
	All bool `name:"all" help:"Show archived courses, too."`
}

func (c remoteCourseListCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	list, cursor := []client.Course{}, ""
	for {
		r, err := api.ListCoursesWithResponse(ctx, &client.ListCoursesParams{Cursor: cursor, Limit: 200, Archived: c.All})
		if err = answered(r, err); err != nil {
			return err
		}
		list = append(list, r.JSON200.Items...)
		if cursor = r.JSON200.Next; cursor == "" {
			return showCourses(env, list, list)
		}
	}
}

func showCourses(env *Env, list []client.Course, asJSON any) error {
	if env.JSON {
		return env.PrintJSON(asJSON)
	}
	var rows [][]string
	for _, c := range list {
		state := "open"
		if !c.ArchivedAt.IsZero() {
			state = "archived"
		}
		rows = append(rows, []string{c.ID, oneLine(c.Title), c.Zone, state})
	}
	env.UI.Table([]Column{Left("ID"), Left("TITLE"), Left("ZONE"), Left("STATE")}, rows)
	return nil
}

type remoteCourseNewCmd struct {
	serverFlags
	Course string `arg:"" help:"ID, short and for typing."`
	Title  string `name:"title" help:"Title for people."`
	Zone   string `name:"zone" default:"UTC" help:"Time zone in which work is due, as in Europe/Warsaw."`
}

func (c remoteCourseNewCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	r, err := api.CreateCourseWithResponse(ctx, client.NewCourse{ID: c.Course, Title: c.Title, Zone: c.Zone})
	if err = answered(r, err); err != nil {
		return err
	}
	return showCourses(env, []client.Course{*r.JSON201}, r.JSON201)
}

type remoteCourseArchiveCmd struct {
	serverFlags
	Course string `arg:"" help:"Course."`
	Undo   bool   `name:"undo" help:"Open it again."`
}

func (c remoteCourseArchiveCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	r, err := api.ChangeCourseWithResponse(ctx, c.Course, client.CourseChange{Archived: !c.Undo})
	if err = answered(r, err); err != nil {
		return err
	}
	return showCourses(env, []client.Course{*r.JSON200}, r.JSON200)
}

type remoteCourseShowCmd struct {
	serverFlags
	Course string `arg:"" help:"Course."`
}

func (c remoteCourseShowCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	r, err := api.ListAssignmentsWithResponse(ctx, c.Course)
	if err = answered(r, err); err != nil {
		return err
	}
	return showAssignments(env, r.JSON200.Items, r.JSON200.Items)
}

func showAssignments(env *Env, list []client.Assignment, asJSON any) error {
	if env.JSON {
		return env.PrintJSON(asJSON)
	}
	var rows [][]string
	for _, a := range list {
		state, left, due := "closed", "", ""
		if a.Open {
			state = "open"
		}
		if a.VersionNumber == 0 {
			state = "never opened"
		}
		if a.Left != nil {
			left = strconv.Itoa(*a.Left)
		}
		if !a.DueAt.IsZero() {
			due = a.DueAt.Local().Format("2006-01-02 15:04")
		}
		rows = append(rows, []string{a.Name, oneLine(a.Title), state, pointsCell(a.Points), due, strconv.Itoa(a.Used), left, oneLine(a.Why)})
	}
	env.UI.Table([]Column{Left("NAME"), Left("TITLE"), Left("STATE"), Right("POINTS"), Left("DUE"), Right("USED"), Right("LEFT"), Left("WHY NOT")}, rows)
	return nil
}

func pointsCell(points float64) string { return strconv.FormatFloat(points, 'f', -1, 64) }

type remoteRosterCmd struct {
	serverFlags
	Course string `arg:"" help:"Course."`
	File   string `arg:"" help:"CSV file, as for \"assay roster import\"."`
	Yes    bool   `name:"yes" short:"y" help:"Import without asking."`
}

func (c remoteRosterCmd) Run(ctx context.Context, env *Env) error {
	data, err := readInput(c.File, class.MaxTableBytes)
	if err != nil {
		return err
	}
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	r, err := api.PreviewRosterWithBodyWithResponse(ctx, c.Course, "text/csv", bytes.NewReader(data))
	if err = answered(r, err); err != nil {
		return err
	}
	plan := *r.JSON200
	apply := c.Yes
	if !env.JSON {
		showRemotePlan(env, plan)
		if !apply {
			if apply, err = env.confirm(fmt.Sprintf("import this into %s?", c.Course)); err != nil {
				return err
			}
			if !apply {
				return nothingChanged(env)
			}
		}
	}
	if apply {
		// What was shown is what is done: the server refuses another plan.
		r, err := api.ImportRosterWithBodyWithResponse(ctx, c.Course, &client.ImportRosterParams{Plan: plan.Digest}, "text/csv", bytes.NewReader(data))
		if err = answered(r, err); err != nil {
			return err
		}
		env.UI.Notef("imported into %s", c.Course)
	}
	if env.JSON {
		return env.PrintJSON(plan)
	}
	return nil
}

func showRemotePlan(env *Env, plan client.RosterPlan) {
	for _, n := range plan.Notes {
		env.UI.Warnf("%s", oneLine(n))
	}
	var rows [][]string
	row := func(what string, p client.Person, text string) {
		rows = append(rows, []string{what, oneLine(p.Name), oneLine(p.StudentID), oneLine(p.Email), oneLine(text)})
	}
	for _, p := range plan.Added {
		row(env.UI.Good("added"), p, string(p.Role))
	}
	for _, p := range plan.Changed {
		row(env.UI.Warn("changed"), p.Person, strings.Join(p.Fields, "; "))
	}
	for _, p := range plan.Removed {
		row(env.UI.Bad("removed"), p, "")
	}
	if len(rows) > 0 {
		env.UI.Table([]Column{Left(""), Left("name"), Left("student id"), Left("email"), Left("what")}, rows)
	}
	env.UI.Printf("%s: %d added, %d changed, %d removed, %d unchanged\n", plan.Format, len(plan.Added), len(plan.Changed), len(plan.Removed), plan.Unchanged)
}

type remoteAssignmentCmd struct {
	Upload  remoteUploadCmd  `cmd:"" help:"Upload the folder of an assignment and wait for its check."`
	Open    remoteOpenCmd    `cmd:"" help:"Let students hand in."`
	Close   remoteCloseCmd   `cmd:"" help:"End the handing in."`
	Publish remotePublishCmd `cmd:"" help:"Show marks to students."`
}

type remoteUploadCmd struct {
	serverFlags
	Course string `arg:"" help:"Course."`
	Folder string `arg:"" help:"Folder of the assignment." type:"existingdir"`
	Name   string `name:"name" placeholder:"NAME" help:"What the assignment is called (default: the folder's name)."`
}

// checkPoll is how often the state of a check is asked for.
const checkPoll = time.Second

func (c remoteUploadCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	name := c.Name
	if name == "" {
		abs, err := filepath.Abs(c.Folder)
		if err != nil {
			return err
		}
		name = filepath.Base(abs)
	}
	body, err := zipFolder(c.Folder)
	if err != nil {
		return err
	}
	p := env.UI.Progress("upload "+name, 0)
	r, err := api.UploadAssignmentWithBodyWithResponse(ctx, c.Course, name, "application/zip", body)
	if err = answered(r, err); err != nil {
		return err
	}
	p.Finish("done")
	v := *r.JSON201
	p = env.UI.Progress(fmt.Sprintf("check version %d of %s", v.Number, name), 0)
	for v.State == client.Checking {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(checkPoll):
		}
		r, err := api.GetAssignmentVersionWithResponse(ctx, c.Course, name, v.Number)
		if err = answered(r, err); err != nil {
			return err
		}
		v = *r.JSON200
	}
	p.Finish(string(v.State))
	return showVersionChecks(env, v)
}

// showVersionChecks shows what was checked; the exit code says whether all is well.
func showVersionChecks(env *Env, v client.AssignmentVersion) error {
	if env.JSON {
		if err := env.PrintJSON(v); err != nil {
			return err
		}
	} else {
		var rows [][]string
		for _, c := range v.Checks {
			ok := env.UI.Good("ok")
			if !c.Ok {
				ok = env.UI.Bad("no")
			}
			rows = append(rows, []string{ok, c.Kind, oneLine(c.Name), oneLine(c.Want), oneLine(c.Got), oneLine(c.Why)})
		}
		if len(rows) > 0 {
			env.UI.Table([]Column{Left(""), Left("CHECK"), Left("NAME"), Left("WANT"), Left("GOT"), Left("WHY")}, rows)
		}
		if v.Why != "" {
			env.UI.Printf("%s\n", v.Why)
		}
		env.UI.Printf("version %d: %s\n", v.Number, v.State)
	}
	if v.State != client.Passed {
		return errNegative
	}
	return nil
}

type remoteOpenCmd struct {
	serverFlags
	Course     string `arg:"" help:"Course."`
	Assignment string `arg:"" help:"Assignment."`
	Version    int    `arg:"" help:"Number of the version."`
	Despite    string `name:"despite" placeholder:"REASON" help:"Open it although a check has failed, for this reason."`
	Anonymous  bool   `name:"anonymous" help:"Hide from staff who handed in what, until it is published."`
}

func (c remoteOpenCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	r, err := api.OpenAssignmentVersionWithResponse(ctx, c.Course, c.Assignment, c.Version, client.AssignmentOpening{Despite: c.Despite, Anonymous: c.Anonymous})
	if err = answered(r, err); err != nil {
		return err
	}
	return showAssignments(env, []client.Assignment{*r.JSON200}, r.JSON200)
}

type remoteCloseCmd struct {
	serverFlags
	Course     string `arg:"" help:"Course."`
	Assignment string `arg:"" help:"Assignment."`
	Undo       bool   `name:"undo" help:"Let students hand in again."`
}

func (c remoteCloseCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	r, err := api.ChangeAssignmentWithResponse(ctx, c.Course, c.Assignment, client.AssignmentChange{Open: c.Undo})
	if err = answered(r, err); err != nil {
		return err
	}
	return showAssignments(env, []client.Assignment{*r.JSON200}, r.JSON200)
}

type remotePublishCmd struct {
	serverFlags
	Course     string `arg:"" help:"Course."`
	Assignment string `arg:"" help:"Assignment."`
}

func (c remotePublishCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	r, err := api.PublishAssignmentWithResponse(ctx, c.Course, c.Assignment)
	if err = answered(r, err); err != nil {
		return err
	}
	return showAssignments(env, []client.Assignment{*r.JSON200}, r.JSON200)
}
