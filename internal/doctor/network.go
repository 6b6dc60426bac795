package doctor

import (
	"context"

	"assay/internal/fault"
)

// checkNetwork says whether a sandbox with a network policy can be made. Those
// without one work in any case.
func checkNetwork(_ context.Context, h *Host) Finding {
	if h.MakeNetwork == nil {
		return ok("not tried")
	}
	if err := h.MakeNetwork(); err != nil {
		remedy := fault.HintOf(err)
		if remedy == "" {
			remedy = "run \"assay run --allow example.org -- true\" as root, and read its error"
		}
		return warn("no sandbox can have a network policy: "+err.Error(), remedy)
	}
	return ok("a sandbox can have a network policy")
}
