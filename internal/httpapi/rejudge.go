package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"assay/api"
	"assay/internal/judge"
	"assay/internal/judging"
)

func (h judgeHandlers) ListRejudges(ctx context.Context, r api.ListRejudgesRequestObject) (api.ListRejudgesResponseObject, error) {
	after, n, err := pageOf(r.Params.Cursor, r.Params.Limit)
	if err != nil {
		return nil, err
	}
	sets, err := h.judge.Rejudges(ctx, after, n)
	if err != nil {
		return nil, err
	}
	page := api.RejudgePage{Items: []api.Rejudge{}}
	for _, s := range sets {
		page.Items = append(page.Items, rejudgeOf(s))
	}
	if len(sets) == n {
		page.Next = cursorOf(sets[n-1].Page())
	}
	return api.ListRejudges200JSONResponse(page), nil
}

func (h judgeHandlers) CreateRejudge(ctx context.Context, r api.CreateRejudgeRequestObject) (api.CreateRejudgeResponseObject, error) {
	set, err := h.judge.NewRejudge(ctx, judging.NewRejudge{
		Problem: r.Body.Problem, Version: r.Body.Version, Verdict: judge.Verdict(r.Body.Verdict), Submissions: r.Body.Submissions, Reason: r.Body.Reason,
	})
	if err != nil {
		return nil, err
	}
	return api.CreateRejudge201JSONResponse(rejudgeOf(set)), nil
}

func (h judgeHandlers) GetRejudge(ctx context.Context, r api.GetRejudgeRequestObject) (api.GetRejudgeResponseObject, error) {
	set, err := h.judge.Rejudge(ctx, r.Rejudge)
	if err != nil {
		return nil, err
	}
	return api.GetRejudge200JSONResponse(rejudgeOf(set)), nil
}

func (h judgeHandlers) ApplyRejudge(ctx context.Context, r api.ApplyRejudgeRequestObject) (api.ApplyRejudgeResponseObject, error) {
	set, err := h.judge.EndRejudge(ctx, r.Rejudge, judging.RejudgeApplied)
	if err != nil {
		return nil, err
	}
	return api.ApplyRejudge200JSONResponse(rejudgeOf(set)), nil
}

func (h judgeHandlers) CancelRejudge(ctx context.Context, r api.CancelRejudgeRequestObject) (api.CancelRejudgeResponseObject, error) {
	set, err := h.judge.EndRejudge(ctx, r.Rejudge, judging.RejudgeCancelled)
	if err != nil {
		return nil, err
	}
	return api.CancelRejudge200JSONResponse(rejudgeOf(set)), nil
}

func rejudgeOf(r judging.Rejudge) api.Rejudge {
	out := api.Rejudge{
		ID: r.ID, Problem: r.Problem, ProblemVersion: r.Version, Reason: r.Reason, State: api.RejudgeState(r.State), By: r.By, CreatedAt: r.Created, EndedAt: r.Ended,
		Total: r.Total, Done: r.Done, Failed: r.Failed, Changes: []api.RejudgeChange{},
	}
	for _, c := range r.Changes {
		out.Changes = append(out.Changes, api.RejudgeChange{Submission: c.Submission, User: c.Login, Before: outcomeOf(c.Before), After: outcomeOf(c.After)})
	}
	return out
}

func outcomeOf(r judging.Run) api.Outcome {
	return api.Outcome{Run: r.ID, Verdict: api.Verdict(r.Verdict), Score: number(r.Score)}
}

// VisitGetRunRecordResponse writes the record as it was kept.
func (r record) VisitGetRunRecordResponse(w http.ResponseWriter) error {
	defer r.body.Close()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	if _, err := io.Copy(w, r.body); err != nil {
		return fmt.Errorf("send record: %w", err)
	}
	return nil
}
