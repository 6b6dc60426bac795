package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/httpapi/pages"
	"assay/internal/judge"
	"assay/internal/judging"
)

// newest is how many submissions a page shows.
const newest = 60

// judgePages are the pages about problems and submissions, by pattern.
func (s *server) judgePages() map[string]func(w http.ResponseWriter, r *http.Request) error {
	return map[string]func(w http.ResponseWriter, r *http.Request) error{
		"GET /{$}":                      s.showStart,
		"GET /problems/{problem}":       s.showProblem,
		"POST /problems/{problem}":      s.takeSubmission,
		"GET /submissions/{submission}": s.showSubmission,
	}
}

func (s *server) showStart(w http.ResponseWriter, r *http.Request) error {
	ctx, actor := r.Context(), account.ActorOf(r.Context())
	if !actor.Known() {
		s.show(w, r, http.StatusOK, "start", pages.Page{Title: "Assay", Body: pages.Start{Public: true}})
		return nil
	}
	problems, err := s.Judge.Problems(ctx, "", newest)
	if err != nil {
		return err
	}
	subs, err := s.Judge.Submissions(ctx, judging.SubmissionQuery{Limit: newest})
	if err != nil {
		return err
	}
	var body pages.Start
	for _, p := range problems {
		body.Problems = append(body.Problems, problemPage(p))
	}
	body.Submissions = submissionLines(subs)
	if account.May(actor, account.List, account.Thing{Kind: account.NodeThing}) == nil {
		nodes, err := s.Server.Nodes(ctx)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			state := "gone"
			if n.Alive {
				state = "alive"
			}
			body.Nodes = append(body.Nodes, pages.Node{Name: n.Name, State: state, Processors: n.Processors, Sandboxes: n.Sandboxes, Seen: n.Seen})
		}
	}
	s.show(w, r, http.StatusOK, "start", pages.Page{Title: "Judge", Wide: true, Body: body})
	return nil
}

func (s *server) problemBody(r *http.Request) (pages.Problem, error) {
	ctx, id := r.Context(), r.PathValue("problem")
	p, err := s.Judge.Problem(ctx, id)
	if err != nil {
		return pages.Problem{}, err
	}
	subs, err := s.Judge.Submissions(ctx, judging.SubmissionQuery{Problem: id, Limit: newest})
	if err != nil {
		return pages.Problem{}, err
	}
	body := problemPage(p)
	body.Submissions = submissionLines(subs)
	for _, l := range s.Judge.Languages() {
		body.Choices = append(body.Choices, pages.Choice{ID: l.ID, Name: l.Name})
	}
	return body, nil
}

func (s *server) showProblem(w http.ResponseWriter, r *http.Request) error {
	body, err := s.problemBody(r)
	if err != nil {
		return err
	}
	s.show(w, r, http.StatusOK, "problem", pages.Page{Title: body.Title, Wide: true, Body: body})
	return nil
}

func (s *server) takeSubmission(w http.ResponseWriter, r *http.Request) error {
	body, err := s.problemBody(r)
	if err != nil {
		return err
	}
	body.FormFile, body.FormLanguage, body.FormText = r.PostForm.Get("file"), r.PostForm.Get("language"), r.PostForm.Get("text")
	sub, err := s.Judge.Submit(r.Context(), judging.NewSubmission{
		Problem: body.ID, Language: body.FormLanguage,
		// Browsers send lines as the network has them.
		Files: []judge.SourceFile{{Name: body.FormFile, Data: []byte(strings.ReplaceAll(body.FormText, "\r\n", "\n"))}},
	})
	if fault.Is(err, fault.Invalid) {
		s.complain(w, r, "problem", pages.Page{Title: body.Title, Wide: true, Body: body}, err)
		return nil
	}
	if err != nil {
		return err
	}
	http.Redirect(w, r, "/submissions/"+sub.ID, http.StatusSeeOther)
	return nil
}

// refreshEvery is how often the page of a run that has not ended asks again.
const refreshEvery = 2 * time.Second

func (s *server) showSubmission(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	sub, err := s.Judge.Submission(ctx, r.PathValue("submission"))
	if err != nil {
		return err
	}
	files, err := s.Judge.Files(ctx, sub.ID)
	if err != nil {
		return err
	}
	body := submissionLine(sub)
	for _, f := range files {
		text := fmt.Sprintf("%d bytes that are no text", len(f.Data))
		if utf8.Valid(f.Data) {
			text = string(f.Data)
		}
		body.Files = append(body.Files, pages.File{Name: f.Name, Text: text})
	}
	if res := sub.Run.Result; res != nil {
		body.Compiler = res.Compile.Output
		for _, c := range res.Cases {
			body.Words = body.Words || c.Reason != "" || c.Message != ""
			body.Cases = append(body.Cases, pages.Case{
				Number: c.Number, Name: c.Name, Verdict: string(c.Verdict), Kind: verdictKind(c.Verdict), Reason: c.Reason, Message: c.Message,
				Time: secondsText(c.TimeUS), Memory: mebibytesText(c.MemoryBytes),
			})
		}
		for _, g := range res.Groups {
			line := pages.Group{Name: g.Name, Verdict: string(g.Verdict), Kind: verdictKind(g.Verdict)}
			if g.Score != nil {
				line.Score = g.Score.String()
			}
			if line.Name == "" {
				line.Name = "all"
			}
			body.Groups = append(body.Groups, line)
		}
	}
	if body.Refresh {
		w.Header().Set("Refresh", fmt.Sprintf("%.0f", refreshEvery.Seconds()))
	}
	s.show(w, r, http.StatusOK, "submission", pages.Page{Title: "Submission to " + sub.Problem, Wide: true, Body: body})
	return nil
}

func problemPage(p judging.Problem) pages.Problem {
	memory := "the machine's"
	if p.Current.Memory > 0 {
		memory = mebibytesText(p.Current.Memory)
	}
	return pages.Problem{
		ID: p.ID, Title: p.Current.Title, Format: p.Current.Format, Version: strings.TrimPrefix(p.Current.Digest, "sha256:"), Open: p.Open,
		TimeLimit: secondsText(p.Current.TimeLimit.Microseconds()), Memory: memory, Cases: p.Current.Cases, Languages: p.Current.Languages,
	}
}

func submissionLines(subs []judging.Submission) (list []pages.Submission) {
	for _, sub := range subs {
		list = append(list, submissionLine(sub))
	}
	return list
}

func submissionLine(sub judging.Submission) pages.Submission {
	r := sub.Run
	line := pages.Submission{
		ID: sub.ID, Problem: sub.Problem, User: sub.Login, Language: sub.Language, State: string(r.State), Verdict: string(r.Verdict),
		Kind: verdictKind(r.Verdict), Reason: r.Reason, FailedCase: r.FailedCase, Received: sub.Received,
		Refresh: r.State == judging.Queued || r.State == judging.Running, Expected: strings.TrimPrefix(sub.Labels["sample"], "submissions/"),
	}
	if r.Verdict != "" {
		line.InWords = r.Verdict.Text()
		line.Time, line.Memory = secondsText(r.TimeUS), mebibytesText(r.Memory)
	}
	if r.Score != nil {
		line.Score = r.Score.String()
	}
	return line
}

// verdictKind is how a verdict looks.
func verdictKind(v judge.Verdict) string {
	switch v {
	case judge.Accepted:
		return "good"
	case judge.JudgeError, judge.Skipped, "":
		return "ours"
	}
	return "bad"
}

func secondsText(us int64) string { return fmt.Sprintf("%.3f s", float64(us)/1e6) }

func mebibytesText(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
