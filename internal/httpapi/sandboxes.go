package httpapi

import (
	"context"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"assay/api"
	"assay/internal/fault"
	"assay/internal/sandbox"
	"assay/internal/sandboxes"
)

// sandboxHandlers are the tag sandboxes.
type sandboxHandlers struct {
	service *sandboxes.Service
	log     *slog.Logger
	// previews is nil where none are shown.
	previews *PreviewOptions
}

// seconds makes a span of a number that the contract has bounded.
func seconds(n float64) time.Duration { return time.Duration(math.Round(n * float64(time.Second))) }

func shapeView(s sandbox.Shape) api.Shape {
	return api.Shape{Vcpus: s.VCPUs, MemoryBytes: s.Memory, DiskBytes: s.Disk, Processes: s.Processes}
}

func sandboxView(r sandboxes.Record) api.Sandbox {
	v := api.Sandbox{
		ID: r.ID, Owner: r.Owner, Node: r.Node, Name: r.Name, Labels: r.Labels, State: "running",
		Template: r.Template, TemplateDigest: r.TemplateDigest, Snapshot: r.Snapshot, Parent: r.Parent,
		BootMode: string(r.BootMode), BootUs: r.Boot.Microseconds(), Shape: shapeView(r.Shape), Dedicated: r.Dedicated, Persistent: r.Persistent,
		CreatedAt: r.Created.UTC(), DeadlineAt: r.Deadline.UTC(), IdleSeconds: float32(r.Idle.Seconds()),
		Usage: api.SandboxUsage{CPUUs: r.CPU.Microseconds(), MemoryGibSeconds: r.ByteSeconds / (1 << 30), SnapshotBytes: r.SnapshotBytes},
	}
	switch {
	case !r.Live():
		v.State, v.EndedAt, v.EndReason, v.EndCause = "ended", r.End.At.UTC(), r.End.Why, string(r.End.Cause)
	case r.Paused:
		v.State = "paused"
	}
	return v
}

// listQuery reads what all lists have in common.
func listQuery(cursor string, limit int, labels []string) (q sandboxes.Query, err error) {
	after, n, err := pageOf(cursor, limit)
	if err != nil {
		return q, err
	}
	q.Limit = n + 1 // one more says whether there is a further page
	if after != "" {
		micros, id, _ := strings.Cut(after, " ")
		at, err := strconv.ParseInt(micros, 10, 64)
		if err != nil || id == "" {
			return q, fault.Errorf(fault.Invalid, "cursor: not one that this server gave").WithHint("pass \"next\" of the page before, or nothing")
		}
		q.Before, q.BeforeID = time.UnixMicro(at), id
	}
	for _, l := range labels {
		name, value, _ := strings.Cut(l, "=")
		if q.Labels == nil {
			q.Labels = map[string]string{}
		}
		if old, twice := q.Labels[name]; twice && old != value {
			return q, fault.Errorf(fault.Invalid, "label %q cannot have two values", name)
		}
		q.Labels[name] = value
	}
	return q, nil
}

func nextOf(made time.Time, id string) string {
	return cursorOf(strconv.FormatInt(made.UnixMicro(), 10) + " " + id)
}

func (h sandboxHandlers) ListSandboxes(ctx context.Context, r api.ListSandboxesRequestObject) (api.ListSandboxesResponseObject, error) {
	q, err := listQuery(r.Params.Cursor, r.Params.Limit, r.Params.Label)
	if err != nil {
		return nil, err
	}
	q.Live = r.Params.State != "all"
	if r.Params.Owner != "" {
		q.Owner = &r.Params.Owner
	}
	rows, err := h.service.Sandboxes(ctx, q)
	if err != nil {
		return nil, err
	}
	list := api.SandboxList{Items: []api.Sandbox{}}
	for i, row := range rows {
		if i == q.Limit-1 {
			list.Next = nextOf(rows[i-1].Created, rows[i-1].ID)
			break
		}
		list.Items = append(list.Items, sandboxView(row))
	}
	return api.ListSandboxes200JSONResponse(list), nil
}

func (h sandboxHandlers) CreateSandbox(ctx context.Context, r api.CreateSandboxRequestObject) (api.CreateSandboxResponseObject, error) {
	b := r.Body
	made, err := h.service.Create(ctx, sandboxes.CreateRequest{
		Template: b.Template, Snapshot: b.Snapshot, Dedicated: b.Dedicated, Persistent: b.Persistent, Key: r.Params.IdempotencyKey,
		Terms: sandboxes.Terms{TTL: seconds(b.TTLSeconds), Idle: seconds(b.IdleSeconds), Name: b.Name, Labels: b.Labels, Network: policyOf(b.Network)},
	})
	if err != nil {
		return nil, err
	}
	return api.CreateSandbox201JSONResponse(sandboxView(made)), nil
}

func (h sandboxHandlers) GetSandbox(ctx context.Context, r api.GetSandboxRequestObject) (api.GetSandboxResponseObject, error) {
	row, err := h.service.Get(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	return api.GetSandbox200JSONResponse(sandboxView(row)), nil
}

func (h sandboxHandlers) KillSandbox(ctx context.Context, r api.KillSandboxRequestObject) (api.KillSandboxResponseObject, error) {
	if err := h.service.Kill(ctx, r.ID); err != nil {
		return nil, err
	}
	return api.KillSandbox204Response{}, nil
}

func (h sandboxHandlers) ExtendSandbox(ctx context.Context, r api.ExtendSandboxRequestObject) (api.ExtendSandboxResponseObject, error) {
	row, err := h.service.Extend(ctx, r.ID, seconds(r.Body.TTLSeconds))
	if err != nil {
		return nil, err
	}
	return api.ExtendSandbox200JSONResponse(sandboxView(row)), nil
}

func (h sandboxHandlers) TouchSandbox(ctx context.Context, r api.TouchSandboxRequestObject) (api.TouchSandboxResponseObject, error) {
	if err := h.service.Touch(ctx, r.ID); err != nil {
		return nil, err
	}
	return api.TouchSandbox204Response{}, nil
}

func (h sandboxHandlers) PauseSandbox(ctx context.Context, r api.PauseSandboxRequestObject) (api.PauseSandboxResponseObject, error) {
	row, err := h.service.Pause(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	return api.PauseSandbox200JSONResponse(sandboxView(row)), nil
}

func (h sandboxHandlers) ResumeSandbox(ctx context.Context, r api.ResumeSandboxRequestObject) (api.ResumeSandboxResponseObject, error) {
	row, err := h.service.Resume(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	return api.ResumeSandbox200JSONResponse(sandboxView(row)), nil
}

func (h sandboxHandlers) ListSandboxEvents(ctx context.Context, r api.ListSandboxEventsRequestObject) (api.ListSandboxEventsResponseObject, error) {
	log, err := h.service.Events(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	list := api.SandboxEventList{Items: []api.SandboxEvent{}}
	for _, e := range log {
		list.Items = append(list.Items, api.SandboxEvent{Number: e.Number, At: e.Time.UTC(), Kind: e.Kind, Detail: e.Detail})
	}
	return api.ListSandboxEvents200JSONResponse(list), nil
}

func (h sandboxHandlers) ForkSandbox(ctx context.Context, r api.ForkSandboxRequestObject) (api.ForkSandboxResponseObject, error) {
	children, err := h.service.Fork(ctx, r.ID, forkRequest(r.Body, r.Params.IdempotencyKey))
	if err != nil {
		return nil, err
	}
	return api.ForkSandbox201JSONResponse(childrenView(children)), nil
}

func (h sandboxHandlers) ForkSnapshot(ctx context.Context, r api.ForkSnapshotRequestObject) (api.ForkSnapshotResponseObject, error) {
	children, err := h.service.ForkSnapshot(ctx, r.ID, forkRequest(r.Body, r.Params.IdempotencyKey))
	if err != nil {
		return nil, err
	}
	return api.ForkSnapshot201JSONResponse(childrenView(children)), nil
}

func forkRequest(b *api.Fork, key string) sandboxes.ForkRequest {
	return sandboxes.ForkRequest{
		Count: max(b.Count, 1), Key: key,
		Terms: sandboxes.Terms{TTL: seconds(b.TTLSeconds), Idle: seconds(b.IdleSeconds), Name: b.Name, Labels: b.Labels, Network: policyOf(b.Network)},
	}
}

func childrenView(children []sandboxes.Child) api.ForkResult {
	v := api.ForkResult{Children: []api.ForkChild{}}
	for _, c := range children {
		child := api.ForkChild{Problem: c.Problem}
		if c.Sandbox != nil {
			child.Sandbox = sandboxView(*c.Sandbox)
		}
		v.Children = append(v.Children, child)
	}
	return v
}
