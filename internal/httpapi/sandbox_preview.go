package httpapi

import (
	"context"

	"assay/api"
	"assay/internal/fault"
)

func (h sandboxHandlers) CreateSandboxPreview(ctx context.Context, r api.CreateSandboxPreviewRequestObject) (api.CreateSandboxPreviewResponseObject, error) {
	// Who may not know of the sandbox is told nothing else.
	if _, err := h.service.Get(ctx, r.ID); err != nil {
		return nil, err
	}
	if h.previews == nil {
		return nil, fault.Errorf(fault.Unsupported, "this server shows no previews").WithHint("start it with --preview-listen ADDRESS:PORT, or reach the port with a token under /ports/")
	}
	at := place{sandbox: r.ID, port: r.Body.Port}
	// Before anything is made: a path that is wrong is the caller's mistake.
	if _, err := h.previews.link(at, r.Body.Path, ""); err != nil {
		return nil, err
	}
	p, err := h.service.MakePreview(ctx, r.ID, r.Body.Port, seconds(r.Body.TTLSeconds))
	if err != nil {
		return nil, err
	}
	link, err := h.previews.link(at, r.Body.Path, p.Proof)
	if err != nil {
		return nil, err
	}
	return api.CreateSandboxPreview201JSONResponse{URL: link, Port: p.Port, ExpiresAt: p.Expires.UTC()}, nil
}

func (h sandboxHandlers) RevokeSandboxPreviews(ctx context.Context, r api.RevokeSandboxPreviewsRequestObject) (api.RevokeSandboxPreviewsResponseObject, error) {
	if err := h.service.RevokePreviews(ctx, r.ID); err != nil {
		return nil, err
	}
	return api.RevokeSandboxPreviews204Response{}, nil
}
