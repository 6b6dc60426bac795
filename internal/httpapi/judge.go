package httpapi

import (
	"context"
	"io"
	"time"
	"unicode/utf8"

	"assay/api"
	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/judging"
)

type judgeHandlers struct{ judge *judging.Service }

func (h judgeHandlers) ListLanguages(context.Context, api.ListLanguagesRequestObject) (api.ListLanguagesResponseObject, error) {
	list := api.LanguageList{Items: []api.Language{}}
	for _, l := range h.judge.Languages() {
		list.Items = append(list.Items, api.Language{ID: l.ID, Name: l.Name, Extensions: l.Extensions, Template: l.Template})
	}
	return api.ListLanguages200JSONResponse(list), nil
}

func (h judgeHandlers) ListProblems(ctx context.Context, r api.ListProblemsRequestObject) (api.ListProblemsResponseObject, error) {
	after, n, err := pageOf(r.Params.Cursor, r.Params.Limit)
	if err != nil {
		return nil, err
	}
	problems, err := h.judge.Problems(ctx, after, n)
	if err != nil {
		return nil, err
	}
	page := api.ProblemPage{Items: []api.Problem{}}
	for _, p := range problems {
		page.Items = append(page.Items, problemOf(p))
	}
	if len(problems) == n {
		page.Next = cursorOf(problems[n-1].ID)
	}
	return api.ListProblems200JSONResponse(page), nil
}

func (h judgeHandlers) GetProblem(ctx context.Context, r api.GetProblemRequestObject) (api.GetProblemResponseObject, error) {
	p, err := h.judge.Problem(ctx, r.Problem)
	if err != nil {
		return nil, err
	}
	return api.GetProblem200JSONResponse(problemOf(p)), nil
}

func (h judgeHandlers) ChangeProblem(ctx context.Context, r api.ChangeProblemRequestObject) (api.ChangeProblemResponseObject, error) {
	p, err := h.judge.OpenProblem(ctx, r.Problem, r.Body.Open)
	if err != nil {
		return nil, err
	}
	return api.ChangeProblem200JSONResponse(problemOf(p)), nil
}

func (h judgeHandlers) ListProblemVersions(ctx context.Context, r api.ListProblemVersionsRequestObject) (api.ListProblemVersionsResponseObject, error) {
	versions, err := h.judge.Versions(ctx, r.Problem)
	if err != nil {
		return nil, err
	}
	list := api.ProblemVersionList{Items: []api.ProblemVersion{}}
	for _, v := range versions {
		list.Items = append(list.Items, versionOf(v))
	}
	return api.ListProblemVersions200JSONResponse(list), nil
}

func (h judgeHandlers) UploadProblem(ctx context.Context, r api.UploadProblemRequestObject) (api.UploadProblemResponseObject, error) {
	p, err := h.judge.Upload(ctx, r.Problem, r.Body)
	if err != nil {
		return nil, err
	}
	return api.UploadProblem201JSONResponse(problemOf(p)), nil
}

func problemOf(p judging.Problem) api.Problem {
	return api.Problem{ID: p.ID, Open: p.Open, Current: versionOf(p.Current), CreatedAt: p.Created}
}

func versionOf(v judging.Version) api.ProblemVersion {
	return api.ProblemVersion{
		Version: v.Digest, Title: v.Title, Format: v.Format, TimeLimitUs: v.TimeLimit.Microseconds(), MemoryLimitBytes: v.Memory, Cases: v.Cases,
		Scoring: v.Scoring, Checker: v.Checker, Languages: orEmpty(v.Languages), UploadedAt: v.Uploaded, UploadedBy: v.By, Warnings: orEmpty(v.Warnings),
	}
}

// orEmpty is [] in JSON, where null would surprise.
func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func (h judgeHandlers) Submit(ctx context.Context, r api.SubmitRequestObject) (api.SubmitResponseObject, error) {
	n := judging.NewSubmission{
		Problem: r.Body.Problem, Version: r.Body.Version, Language: r.Body.Language, Entry: r.Body.Entry, Labels: r.Body.Labels,
		Idempotency: r.Params.IdempotencyKey,
	}
	for _, f := range r.Body.Files {
		if f.Text != "" && f.Base64 != nil {
			return nil, fault.Errorf(fault.Invalid, "file %q has both text and base64", f.Name)
		}
		data := f.Base64
		if data == nil {
			data = []byte(f.Text)
		}
		n.Files = append(n.Files, judge.SourceFile{Name: f.Name, Data: data})
	}
	sub, err := h.judge.Submit(ctx, n)
	if err != nil {
		return nil, err
	}
	return api.Submit201JSONResponse(submissionOf(sub)), nil
}

func (h judgeHandlers) ListSubmissions(ctx context.Context, r api.ListSubmissionsRequestObject) (api.ListSubmissionsResponseObject, error) {
	after, n, err := pageOf(r.Params.Cursor, r.Params.Limit)
	if err != nil {
		return nil, err
	}
	subs, err := h.judge.Submissions(ctx, judging.SubmissionQuery{
		After: after, Limit: n, Problem: r.Params.Problem, User: r.Params.User, Verdict: judge.Verdict(r.Params.Verdict),
	})
	if err != nil {
		return nil, err
	}
	page := api.SubmissionPage{Items: []api.Submission{}}
	for _, s := range subs {
		page.Items = append(page.Items, submissionOf(s))
	}
	if len(subs) == n {
		page.Next = cursorOf(subs[n-1].Page())
	}
	return api.ListSubmissions200JSONResponse(page), nil
}

func (h judgeHandlers) GetSubmission(ctx context.Context, r api.GetSubmissionRequestObject) (api.GetSubmissionResponseObject, error) {
	get := h.judge.Submission
	if r.Params.WaitSeconds > 0 {
		get = func(ctx context.Context, id string) (judging.Submission, error) {
			return h.judge.Wait(ctx, id, time.Duration(r.Params.WaitSeconds)*time.Second)
		}
	}
	sub, err := get(ctx, r.Submission)
	if err != nil {
		return nil, err
	}
	return api.GetSubmission200JSONResponse(submissionOf(sub)), nil
}

func (h judgeHandlers) GetSubmissionFiles(ctx context.Context, r api.GetSubmissionFilesRequestObject) (api.GetSubmissionFilesResponseObject, error) {
	files, err := h.judge.Files(ctx, r.Submission)
	if err != nil {
		return nil, err
	}
	list := api.SourceFileList{Items: []api.SourceFile{}}
	for _, f := range files {
		if utf8.Valid(f.Data) {
			list.Items = append(list.Items, api.SourceFile{Name: f.Name, Text: string(f.Data)})
		} else {
			list.Items = append(list.Items, api.SourceFile{Name: f.Name, Base64: f.Data})
		}
	}
	return api.GetSubmissionFiles200JSONResponse(list), nil
}

func (h judgeHandlers) FollowSubmission(ctx context.Context, r api.FollowSubmissionRequestObject) (api.FollowSubmissionResponseObject, error) {
	// Asked once before the stream begins, so that a refusal has its status.
	if _, err := h.judge.Submission(ctx, r.Submission); err != nil {
		return nil, err
	}
	return api.FollowSubmission200TextEventStreamResponse{Body: stream(ctx, func(ctx context.Context, send func(Event) error) error {
		return h.judge.Follow(ctx, r.Submission,
			func(p judging.Progress) error { return send(Event{"progress", p}) },
			func(s judging.Submission) error { return send(Event{"submission", submissionOf(s)}) })
	})}, nil
}

func (h judgeHandlers) ListRuns(ctx context.Context, r api.ListRunsRequestObject) (api.ListRunsResponseObject, error) {
	runs, err := h.judge.Runs(ctx, r.Submission)
	if err != nil {
		return nil, err
	}
	list := api.RunList{Items: []api.Run{}}
	for _, run := range runs {
		list.Items = append(list.Items, runOf(run))
	}
	return api.ListRuns200JSONResponse(list), nil
}

// record is a body that is streamed as it was kept.
type record struct{ body io.ReadCloser }

func (h judgeHandlers) GetRunRecord(ctx context.Context, r api.GetRunRecordRequestObject) (api.GetRunRecordResponseObject, error) {
	body, err := h.judge.Record(ctx, r.Run)
	if err != nil {
		return nil, err
	}
	return record{body}, nil
}

func submissionOf(s judging.Submission) api.Submission {
	labels := s.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	return api.Submission{
		ID: s.ID, Problem: s.Problem, ProblemVersion: s.Version, User: s.Login, Language: s.Language, Digest: s.Digest, Labels: labels,
		ReceivedAt: s.Received, Run: runOf(s.Run),
	}
}

func runOf(r judging.Run) api.Run {
	out := api.Run{
		ID: r.ID, State: api.RunState(r.State), ProblemVersion: r.Version, Verdict: api.Verdict(r.Verdict), Reason: r.Reason, FailedCase: r.FailedCase,
		Score: number(r.Score), TimeUs: r.TimeUS, MemoryBytes: r.Memory, Node: r.Node, Rejudge: r.Rejudge, Tries: r.Tries, CreatedAt: r.Created, EndedAt: r.Ended,
	}
	if r.Result == nil {
		return out
	}
	out.CompilerOutput = r.Result.Compile.Output
	for _, c := range r.Result.Cases {
		out.Cases = append(out.Cases, api.CaseResult{
			Number: c.Number, Name: c.Name, Sample: c.Sample, Verdict: api.Verdict(c.Verdict), Reason: c.Reason, Message: c.Message,
			TimeUs: c.TimeUS, MemoryBytes: c.MemoryBytes, Score: number(c.Score),
		})
	}
	for _, g := range r.Result.Groups {
		out.Groups = append(out.Groups, api.GroupResult{Name: g.Name, Verdict: api.Verdict(g.Verdict), Score: number(g.Score), Max: number(g.Max)})
	}
	return out
}

func number(s *judge.Score) *float64 {
	if s == nil {
		return nil
	}
	f := s.Float()
	return &f
}
