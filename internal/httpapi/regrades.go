package httpapi

import (
	"context"

	"assay/api"
	"assay/internal/classes"
)

func (h classHandlers) ListRegrades(ctx context.Context, r api.ListRegradesRequestObject) (api.ListRegradesResponseObject, error) {
	after, n, err := pageOf(r.Params.Cursor, r.Params.Limit)
	if err != nil {
		return nil, err
	}
	sets, err := h.classes.Regrades(ctx, r.Course, after, n)
	if err != nil {
		return nil, err
	}
	page := api.RegradePage{Items: []api.Regrade{}}
	for _, s := range sets {
		page.Items = append(page.Items, regradeOf(s))
	}
	if len(sets) == n {
		page.Next = cursorOf(sets[n-1].Page())
	}
	return api.ListRegrades200JSONResponse(page), nil
}

func (h classHandlers) CreateRegrade(ctx context.Context, r api.CreateRegradeRequestObject) (api.CreateRegradeResponseObject, error) {
	set, err := h.classes.NewRegrade(ctx, classes.NewRegrade{
		Course: r.Course, Assignment: r.Body.Assignment, Version: r.Body.VersionNumber, Attempts: r.Body.Attempts, Reason: r.Body.Reason,
	})
	if err != nil {
		return nil, err
	}
	return api.CreateRegrade201JSONResponse(regradeOf(set)), nil
}

func (h classHandlers) GetRegrade(ctx context.Context, r api.GetRegradeRequestObject) (api.GetRegradeResponseObject, error) {
	set, err := h.classes.Regrade(ctx, r.Course, r.Regrade)
	if err != nil {
		return nil, err
	}
	return api.GetRegrade200JSONResponse(regradeOf(set)), nil
}

func (h classHandlers) ApplyRegrade(ctx context.Context, r api.ApplyRegradeRequestObject) (api.ApplyRegradeResponseObject, error) {
	set, err := h.classes.ApplyRegrade(ctx, r.Course, r.Regrade, r.Body.Plan)
	if err != nil {
		return nil, err
	}
	return api.ApplyRegrade200JSONResponse(regradeOf(set)), nil
}

func (h classHandlers) CancelRegrade(ctx context.Context, r api.CancelRegradeRequestObject) (api.CancelRegradeResponseObject, error) {
	set, err := h.classes.CancelRegrade(ctx, r.Course, r.Regrade)
	if err != nil {
		return nil, err
	}
	return api.CancelRegrade200JSONResponse(regradeOf(set)), nil
}

func regradeOf(r classes.Regrade) api.Regrade {
	out := api.Regrade{
		ID: r.ID, Assignment: r.Assignment, VersionNumber: r.Version, Reason: r.Reason, State: api.RegradeState(r.State), By: r.By,
		CreatedAt: r.Created, EndedAt: r.Ended, Total: r.Total, Done: r.Done, Failed: r.Failed,
	}
	if r.Plan == nil {
		return out
	}
	p := api.RegradePlan{
		Digest: r.PlanDigest, VersionBefore: r.Plan.Before, VersionAfter: r.Plan.After, Same: r.Plan.Same, Failed: orEmpty(r.Plan.Failed),
		Attempts: []api.RegradeAttempt{}, Marks: []api.RegradeMark{},
	}
	for _, a := range r.Plan.Attempts {
		p.Attempts = append(p.Attempts, api.RegradeAttempt{Attempt: a.Attempt, Before: a.Before.Float(), After: a.After.Float(), Why: orEmpty(a.Why)})
	}
	for _, m := range r.Plan.Marks {
		p.Marks = append(p.Marks, api.RegradeMark{Who: m.Who, Before: m.Before.Float(), After: m.After.Float(), Attempt: m.Attempt})
	}
	out.Plan = &p
	return out
}
