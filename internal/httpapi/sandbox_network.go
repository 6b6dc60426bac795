package httpapi

import (
	"context"

	"assay/api"
	"assay/internal/sandbox"
	"assay/internal/sandboxes"
)

// policyOf gives the policy of a request; one without a list is none.
func policyOf(p api.NetworkPolicy) *sandbox.NetworkPolicy {
	if p.Allow == nil {
		return nil
	}
	return &sandbox.NetworkPolicy{Allow: p.Allow, Phase: sandbox.NetworkPhase(p.Phase)}
}

func networkView(n sandboxes.Network) api.SandboxNetwork {
	v := api.SandboxNetwork{Attempts: n.Used.Attempts, SentBytes: n.Used.Sent, ReceivedBytes: n.Used.Received}
	if n.Policy != nil {
		v.Policy = api.NetworkPolicy{Allow: append([]string{}, n.Policy.Allow...), Phase: api.NetworkPolicyPhase(n.Policy.Phase)}
	}
	return v
}

func (h sandboxHandlers) GetSandboxNetwork(ctx context.Context, r api.GetSandboxNetworkRequestObject) (api.GetSandboxNetworkResponseObject, error) {
	n, err := h.service.Network(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	return api.GetSandboxNetwork200JSONResponse(networkView(n)), nil
}

func (h sandboxHandlers) SetSandboxNetwork(ctx context.Context, r api.SetSandboxNetworkRequestObject) (api.SetSandboxNetworkResponseObject, error) {
	n, err := h.service.SetNetwork(ctx, r.ID, sandbox.NetworkPolicy{Allow: r.Body.Allow, Phase: sandbox.NetworkPhase(r.Body.Phase)})
	if err != nil {
		return nil, err
	}
	return api.SetSandboxNetwork200JSONResponse(networkView(n)), nil
}

func (h sandboxHandlers) ShutSandboxNetwork(ctx context.Context, r api.ShutSandboxNetworkRequestObject) (api.ShutSandboxNetworkResponseObject, error) {
	n, err := h.service.SetNetwork(ctx, r.ID, sandbox.NetworkPolicy{})
	if err != nil {
		return nil, err
	}
	return api.ShutSandboxNetwork200JSONResponse(networkView(n)), nil
}

func (h sandboxHandlers) EndSandboxSetup(ctx context.Context, r api.EndSandboxSetupRequestObject) (api.EndSandboxSetupResponseObject, error) {
	n, err := h.service.EndSetup(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	return api.EndSandboxSetup200JSONResponse(networkView(n)), nil
}
