package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"assay/client"
	"assay/internal/fault"
	"assay/internal/judge"
)

type submitCmd struct {
	serverFlags
	Problem  string            `arg:"" help:"ID of the problem on the server."`
	Files    []string          `arg:"" help:"Source files." type:"path"`
	Language string            `name:"language" short:"l" placeholder:"ID" help:"Language (default: by the file names)."`
	Entry    string            `name:"entry" placeholder:"FILE" help:"File that the program starts in (default: by name)."`
	Labels   map[string]string `name:"label" placeholder:"KEY=VALUE" help:"Kept with the submission; usage can be told apart by it."`
	NoWait   bool              `name:"no-wait" help:"Do not wait for the verdict."`
}

func (submitCmd) Help() string {
	return `Sends files to a server and follows them to their verdict. The exit code is 0 if it is AC, else 1.`
}

func (c submitCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	n := client.NewSubmission{Problem: c.Problem, Language: c.Language, Entry: c.Entry, Labels: c.Labels}
	for _, path := range c.Files {
		data, err := os.ReadFile(path)
		if err != nil {
			return fault.Errorf(fault.Invalid, "source file: %w", err)
		}
		f := client.SourceFile{Name: filepath.Base(path)}
		if utf8.Valid(data) && len(data) > 0 {
			f.Text = string(data)
		} else {
			f.Base64 = data
		}
		n.Files = append(n.Files, f)
	}
	p := env.UI.Progress("judge "+c.Problem, 0)
	p.Stage("send")
	// With a key the request is sent again by itself where a kept connection
	// turns out to be broken, and is one submission.
	r, err := api.SubmitWithResponse(ctx, &client.SubmitParams{IdempotencyKey: newKey()}, n)
	if err = answered(r, err); err != nil {
		return err
	}
	sub := *r.JSON201
	if c.NoWait {
		p.Finish("in the queue")
		return showSubmission(env, sub)
	}
	env.UI.Notef("submission %s", sub.ID)
	sub, err = follow(ctx, env, api, sub.ID, func(e client.Event, s client.Submission) {
		var at progressEvent
		switch {
		case e.Name == "submission":
			p.Stage(string(s.Run.State))
		case e.Name == "progress" && json.Unmarshal(e.Data, &at) == nil && at.Cases > 0:
			p.Detail(fmt.Sprintf("case %d of %d", at.Case, at.Cases))
		}
	})
	if err != nil {
		return err
	}
	p.Finish(string(sub.Run.Verdict))
	if err := showSubmission(env, sub); err != nil {
		return err
	}
	if sub.Run.Verdict != client.Verdict(judge.Accepted) {
		return errNegative
	}
	return nil
}

const (
	// followAgain is how long is waited before a stream that broke is asked for again.
	followAgain = time.Second
	// followPatience is for how long a server that is being restarted may be away.
	followPatience = 2 * time.Minute
)

// follow gives each event of a submission to tell until the one with its verdict,
// which it gives back. A server that ends the stream is being restarted: the
// submission is in its store, so it is asked again.
func follow(ctx context.Context, env *Env, api *client.ClientWithResponses, id string, tell func(client.Event, client.Submission)) (sub client.Submission, err error) {
	sub.ID = id
	var there time.Time // when the server was heard last
	for {
		told := false
		err := followOnce(ctx, api, &sub, func(e client.Event) {
			told = true
			tell(e, sub)
		})
		if told {
			there = time.Now()
		}
		switch {
		case err == nil:
			return sub, nil
		case ctx.Err() != nil:
			return sub, context.Cause(ctx)
		case !fault.Is(err, fault.Unavailable) || there.IsZero() || time.Since(there) > followPatience:
			return sub, err
		}
		env.UI.Notef("the connection to the server ended; asking again")
		select {
		case <-ctx.Done():
			return sub, context.Cause(ctx)
		case <-time.After(followAgain):
		}
	}
}

// progressEvent is an "event: progress" of a submission.
type progressEvent struct {
	Step        string `json:"step"`
	Case, Cases int
}

// followOnce reads one stream to the verdict, or gives why it had none.
func followOnce(ctx context.Context, api *client.ClientWithResponses, sub *client.Submission, tell func(client.Event)) error {
	body, err := streamOf(api.FollowSubmission(ctx, sub.ID))
	if err != nil {
		return err
	}
	defer body.Close()
	for e, err := range client.Events(body) {
		if err != nil {
			return fault.Errorf(fault.Unavailable, "follow submission %s: %w", sub.ID, err).WithHint("ask for it again: assay status %s", sub.ID)
		}
		if e.Name == "submission" {
			if err := json.Unmarshal(e.Data, sub); err != nil {
				return fault.Errorf(fault.Internal, "the server's event cannot be read: %w", err).WithHint("are this program and the server of one version?")
			}
		}
		tell(e)
		if e.Name == "submission" && ended(sub.Run) {
			return nil
		}
	}
	return fault.Errorf(fault.Unavailable, "follow submission %s: the server ended the connection before its verdict", sub.ID).
		WithHint("ask for it again: assay status %s", sub.ID)
}

func ended(r client.Run) bool {
	return r.State == client.RunStateDone || r.State == client.RunStateCancelled
}

// showSubmission shows one submission whole.
func showSubmission(env *Env, s client.Submission) error {
	if env.JSON {
		return env.PrintJSON(s)
	}
	env.UI.Table(submissionColumns, [][]string{submissionRow(s)})
	if s.Run.CompilerOutput != "" && s.Run.Verdict == client.Verdict(judge.CompileError) {
		env.UI.Printf("\nthe compiler said:\n%s\n", visible(s.Run.CompilerOutput))
	}
	for _, c := range s.Run.Cases {
		if c.Message != "" {
			env.UI.Printf("\ncase %d: %s\n", c.Number, visible(c.Message))
		}
	}
	return nil
}

var submissionColumns = []Column{
	Left("SUBMISSION"), Left("PROBLEM"), Left("USER"), Left("LANGUAGE"), Left("STATE"), Left("VERDICT"), Right("CASE"), Right("TIME S"), Right("MEMORY MIB"),
	Right("SCORE"), Left("REASON"),
}

func submissionRow(s client.Submission) []string {
	r := s.Run
	row := []string{s.ID, s.Problem, s.User, s.Language, string(r.State), string(r.Verdict), caseCell(r.FailedCase), "", "", "", oneLine(r.Reason)}
	if r.State == client.RunStateDone {
		row[7], row[8] = secondsCell(r.TimeUs), memoryCell(r.MemoryBytes)
	}
	if r.Score != nil {
		row[9] = strconv.FormatFloat(*r.Score, 'g', -1, 64)
	}
	return row
}

type statusCmd struct {
	serverFlags
	Submissions []string `arg:"" optional:"" help:"IDs of submissions (default: the newest)."`
	Problem     string   `name:"problem" placeholder:"ID" help:"Only those for this problem."`
	Limit       int      `name:"limit" default:"20" help:"How many of the newest."`
}

func (statusCmd) Help() string {
	return `Shows submissions on the server and their verdicts: the newest that you may see, or those that are named.`
}

func (c statusCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	list := []client.Submission{}
	for _, id := range c.Submissions {
		r, err := api.GetSubmissionWithResponse(ctx, id, nil)
		if err = answered(r, err); err != nil {
			return err
		}
		list = append(list, *r.JSON200)
	}
	if len(c.Submissions) == 0 {
		r, err := api.ListSubmissionsWithResponse(ctx, &client.ListSubmissionsParams{Problem: c.Problem, Limit: c.Limit})
		if err = answered(r, err); err != nil {
			return err
		}
		list = r.JSON200.Items
	}
	if env.JSON {
		return env.PrintJSON(list)
	}
	if len(list) == 1 && len(c.Submissions) == 1 {
		return showSubmission(env, list[0])
	}
	rows := make([][]string, len(list))
	for i, s := range list {
		rows[i] = submissionRow(s)
	}
	env.UI.Table(submissionColumns, rows)
	return nil
}

type logsCmd struct {
	serverFlags
	Submission string `arg:"" help:"ID of the submission."`
}

func (logsCmd) Help() string {
	return `Writes what happens to a submission, a line for each event, until it has its verdict.`
}

func (c logsCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	_, err = follow(ctx, env, api, c.Submission, func(e client.Event, _ client.Submission) {
		if env.JSON {
			env.UI.Printf("{\"event\":%q,\"data\":%s}\n", e.Name, e.Data)
		} else if line := logLine(e); line != "" {
			env.UI.Printf("%s\n", line)
		}
	})
	return err
}

// logLine says an event in words.
func logLine(e client.Event) string {
	switch e.Name {
	case "progress":
		var p progressEvent
		if json.Unmarshal(e.Data, &p) != nil {
			return ""
		}
		return strings.TrimSpace(fmt.Sprintf("%s %d/%d", p.Step, p.Case, p.Cases))
	case "submission":
		var s client.Submission
		if json.Unmarshal(e.Data, &s) != nil {
			return ""
		}
		if !ended(s.Run) {
			return string(s.Run.State)
		}
		line := fmt.Sprintf("%s %s", s.Run.State, s.Run.Verdict)
		if s.Run.Reason != "" {
			line += ": " + oneLine(s.Run.Reason)
		}
		return line
	}
	return ""
}
