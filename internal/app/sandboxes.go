package app

import (
	"context"

	"assay/internal/fault"
	"assay/internal/sandbox"
	"assay/internal/sandboxes"
)

// Sandboxes offers the engine to actors. o brings all but the machines and the
// templates. Close the service before the engine.
func (e *Engine) Sandboxes(ctx context.Context, o sandboxes.Options) (*sandboxes.Service, error) {
	o.Machines, o.Templates = e.Manager, sandboxTemplates{e}
	return sandboxes.Open(ctx, o)
}

// sandboxTemplates are the templates of an engine. Those that are not built stay
// so: building takes minutes and runs on the host, which is not for callers of
// an API to begin.
type sandboxTemplates struct{ e *Engine }

func (t sandboxTemplates) Template(ctx context.Context, name string) (sandbox.Template, error) {
	built, err := t.e.Templates.Built(ctx, name)
	if err != nil {
		return sandbox.Template{}, err
	}
	if !built {
		return sandbox.Template{}, fault.Errorf(fault.Conflict, "template %s is not built on this server", name).WithHint("run there: assay template build %s", name)
	}
	return t.e.Template(ctx, name, nil)
}

func (t sandboxTemplates) Templates(context.Context) ([]sandboxes.Template, error) {
	entries, err := t.e.Templates.List()
	if err != nil {
		return nil, err
	}
	list := make([]sandboxes.Template, 0, len(entries))
	for _, e := range entries {
		v := sandboxes.Template{
			Name: e.Name, Description: e.Description, Languages: e.Languages, Digest: e.Digest, ImageBytes: e.ImageBytes, Problem: e.Problem,
			Shape: sandbox.Shape{VCPUs: e.Shape.VCPUs, Memory: int64(e.Shape.Memory), Disk: int64(e.Shape.Disk), Processes: e.Shape.Processes},
		}
		if e.Built != nil {
			v.Built = *e.Built
		}
		list = append(list, v)
	}
	return list, nil
}
