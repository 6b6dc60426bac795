package httpapi

import (
	"context"

	"assay/api"
	"assay/internal/sandboxes"
)

func snapshotView(s sandboxes.Snapshot) api.Snapshot {
	return api.Snapshot{
		ID: s.ID, Owner: s.Owner, Node: s.Node, Name: s.Name, Labels: s.Labels, Sandbox: s.Sandbox, Template: s.Template,
		Shape: shapeView(s.Shape), SizeBytes: s.Bytes, CreatedAt: s.Taken.UTC(), ExpiresAt: s.Expires.UTC(),
	}
}

func (h sandboxHandlers) SnapshotSandbox(ctx context.Context, r api.SnapshotSandboxRequestObject) (api.SnapshotSandboxResponseObject, error) {
	snap, err := h.service.Snapshot(ctx, r.ID, sandboxes.SnapshotRequest{
		Keep: seconds(r.Body.KeepSeconds), Name: r.Body.Name, Labels: r.Body.Labels, Key: r.Params.IdempotencyKey,
	})
	if err != nil {
		return nil, err
	}
	return api.SnapshotSandbox201JSONResponse(snapshotView(snap)), nil
}

func (h sandboxHandlers) ListSnapshots(ctx context.Context, r api.ListSnapshotsRequestObject) (api.ListSnapshotsResponseObject, error) {
	q, err := listQuery(r.Params.Cursor, r.Params.Limit, r.Params.Label)
	if err != nil {
		return nil, err
	}
	q.Sandbox = r.Params.Sandbox
	rows, err := h.service.Snapshots(ctx, q)
	if err != nil {
		return nil, err
	}
	list := api.SnapshotList{Items: []api.Snapshot{}}
	for i, row := range rows {
		if i == q.Limit-1 {
			list.Next = nextOf(rows[i-1].Taken, rows[i-1].ID)
			break
		}
		list.Items = append(list.Items, snapshotView(row))
	}
	return api.ListSnapshots200JSONResponse(list), nil
}

func (h sandboxHandlers) GetSnapshot(ctx context.Context, r api.GetSnapshotRequestObject) (api.GetSnapshotResponseObject, error) {
	snap, err := h.service.GetSnapshot(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	return api.GetSnapshot200JSONResponse(snapshotView(snap)), nil
}

func (h sandboxHandlers) RemoveSnapshot(ctx context.Context, r api.RemoveSnapshotRequestObject) (api.RemoveSnapshotResponseObject, error) {
	if err := h.service.RemoveSnapshot(ctx, r.ID); err != nil {
		return nil, err
	}
	return api.RemoveSnapshot204Response{}, nil
}

func templateView(t sandboxes.Template) api.Template {
	return api.Template{
		Name: t.Name, Description: t.Description, Languages: t.Languages, Shape: shapeView(t.Shape), Built: t.Digest != "",
		BuiltAt: t.Built.UTC(), Digest: t.Digest, ImageBytes: t.ImageBytes, Problem: t.Problem,
	}
}

func (h sandboxHandlers) ListTemplates(ctx context.Context, _ api.ListTemplatesRequestObject) (api.ListTemplatesResponseObject, error) {
	all, err := h.service.AllTemplates(ctx)
	if err != nil {
		return nil, err
	}
	list := api.TemplateList{Items: []api.Template{}}
	for _, t := range all {
		list.Items = append(list.Items, templateView(t))
	}
	return api.ListTemplates200JSONResponse(list), nil
}

func (h sandboxHandlers) GetTemplate(ctx context.Context, r api.GetTemplateRequestObject) (api.GetTemplateResponseObject, error) {
	t, err := h.service.OneTemplate(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	return api.GetTemplate200JSONResponse(templateView(t)), nil
}

func (h sandboxHandlers) GetQuota(ctx context.Context, _ api.GetQuotaRequestObject) (api.GetQuotaResponseObject, error) {
	may, has, err := h.service.MyQuota(ctx)
	if err != nil {
		return nil, err
	}
	return api.GetQuota200JSONResponse(api.Quota{
		Limits: api.QuotaAmounts{
			Sandboxes: may.Sandboxes, CPUSecondsToday: may.CPUPerDay.Seconds(), DiskBytes: may.DiskBytes,
			Snapshots: may.Snapshots, SnapshotBytes: may.SnapshotBytes,
		},
		Used: api.QuotaAmounts{
			Sandboxes: has.Sandboxes, CPUSecondsToday: has.CPU.Seconds(), DiskBytes: has.DiskBytes,
			Snapshots: has.Snapshots, SnapshotBytes: has.SnapshotBytes,
		},
	}), nil
}
