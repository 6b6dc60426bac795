package httpapi

import (
	"context"

	"assay/api"
	"assay/internal/usage"
)

// usageHandlers are the tag usage.
type usageHandlers struct{ usage *usage.Service }

func (h usageHandlers) GetUsage(ctx context.Context, r api.GetUsageRequestObject) (api.GetUsageResponseObject, error) {
	report, err := h.usage.Report(ctx, usage.Query{By: usage.By(r.Params.By), From: r.Params.From, To: r.Params.To}, r.Params.User)
	if err != nil {
		return nil, err
	}
	out := api.UsageReport{
		By: string(report.By), From: report.From, To: report.To, Items: []api.UsageLine{}, Total: usageLineOf(report.Total), Truncated: report.Truncated,
		Rates: api.UsageRates{
			Currency: report.Rates.Currency, CPUHour: report.Rates.CPUHour, MemoryGibHour: report.Rates.GiBHour, SnapshotGibMonth: report.Rates.SnapshotMonth,
		},
	}
	for _, l := range report.Lines {
		out.Items = append(out.Items, usageLineOf(l))
	}
	return api.GetUsage200JSONResponse(out), nil
}

func usageLineOf(l usage.Line) api.UsageLine {
	const gibHour = (1 << 30) * 3600
	return api.UsageLine{
		Key: l.Key, CPUSeconds: l.CPU.Seconds(), MemoryGibHours: l.Memory / gibHour, SnapshotGibHours: l.Snapshots / gibHour,
		Sandboxes: l.Sandboxes, Runs: l.Runs, Cost: l.Cost,
	}
}
