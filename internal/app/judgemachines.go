package app

import (
	"context"
	"fmt"
	"io"
	"io/fs"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/judge"
	"assay/internal/sandbox"
)

// judgeMachines gives the judge machines of the engine. A submission's is
// Dedicated: what is judged never shares the processor it was promised, except
// with the checker's machine, which works when it does not.
type judgeMachines struct{ e *Engine }

func (j judgeMachines) Create(ctx context.Context, req judge.MachineRequest) (judge.Machine, error) {
	t, err := j.template(ctx, req)
	if err != nil {
		return nil, err
	}
	spec := sandbox.Spec{Template: &t, Metadata: map[string]string{"for": "judge"}}
	if req.Beside == nil {
		spec.Dedicated, spec.Cores = true, 1
	} else {
		beside, err := ownMachine(req.Beside)
		if err != nil {
			return nil, err
		}
		spec.Beside = beside.s
	}
	for _, later := range req.Besides {
		t, err := j.template(ctx, later)
		if err != nil {
			return nil, err
		}
		spec.BesideMemory += t.Shape.Memory
		// Now, and not when this machine holds a processor: two who do could wait
		// for each other.
		if _, err := j.warm(ctx, t, later, nil); err != nil {
			return nil, err
		}
	}
	if spec.Snapshot, err = j.warm(ctx, t, req, spec.Beside); err != nil {
		return nil, err
	}
	if spec.Snapshot != "" {
		spec.Template = nil
	}
	s, err := j.e.Manager.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	return judgeMachine{s}, nil
}

// warm gives the snapshot in which a machine is to begin, "" where it begins as
// its template does.
func (j judgeMachines) warm(ctx context.Context, t sandbox.Template, req judge.MachineRequest, beside *sandbox.Sandbox) (string, error) {
	if req.Warm == nil {
		return "", nil
	}
	id, err := j.e.warm.of(ctx, j.e.Manager, t, *req.Warm, beside)
	if err != nil {
		return "", fmt.Errorf("warm up a machine of template %s: %w", req.Template, err)
	}
	return id, nil
}

func (j judgeMachines) template(ctx context.Context, req judge.MachineRequest) (sandbox.Template, error) {
	t, err := j.e.Template(ctx, req.Template, nil)
	if err != nil {
		return sandbox.Template{}, err
	}
	return withMemory(t, req.Memory, j.e.Manager.Memory()), nil
}

func ownMachine(m judge.Machine) (judgeMachine, error) {
	own, ok := m.(judgeMachine)
	if !ok {
		return judgeMachine{}, fault.Errorf(fault.Internal, "a machine of another engine")
	}
	return own, nil
}

func (j judgeMachines) Connect(ctx context.Context, a, b judge.Machine) (judge.Wire, error) {
	left, err := ownMachine(a)
	if err != nil {
		return nil, err
	}
	right, err := ownMachine(b)
	if err != nil {
		return nil, err
	}
	w, err := j.e.Manager.Connect(ctx, left.s, right.s)
	if err != nil {
		return nil, err
	}
	return judgeWire{w}, nil
}

// judgeWire names a wire by a method, as the judge wants it.
type judgeWire struct{ *sandbox.Wire }

func (w judgeWire) Name() string { return w.Wire.Name }

type judgeMachine struct{ s *sandbox.Sandbox }

func (m judgeMachine) Exec(ctx context.Context, spec sandbox.ExecSpec, stdin io.Reader, stdout, stderr io.Writer) (sandbox.Result, error) {
	return m.s.Exec(ctx, spec, guest.IO{Stdin: stdin, Stdout: stdout, Stderr: stderr})
}

func (m judgeMachine) WriteFile(ctx context.Context, path string, r io.Reader, mode fs.FileMode) error {
	_, err := m.s.Guest().WriteFile(ctx, path, r, guest.WriteOptions{Mode: mode, Owner: "root"})
	return err
}

func (m judgeMachine) MakeDir(ctx context.Context, path string, mode fs.FileMode) error {
	return m.s.Guest().MakeDir(ctx, path, mode, "root", true)
}

func (m judgeMachine) ReadFile(ctx context.Context, path string) (io.ReadCloser, error) {
	return m.s.Guest().ReadFile(ctx, path)
}

func (m judgeMachine) ReadTree(ctx context.Context, dir string) (io.ReadCloser, error) {
	return m.s.Guest().ReadTree(ctx, dir)
}

func (m judgeMachine) WriteTree(ctx context.Context, dir string, tar io.Reader) error {
	_, err := m.s.Guest().WriteTree(ctx, dir, tar, guest.OwnerRoot)
	return err
}

func (m judgeMachine) Remove(ctx context.Context, path string) error {
	if err := m.s.Guest().Remove(ctx, path, true); !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}

func (m judgeMachine) Describe() judge.MachineInfo {
	i := m.s.Info()
	return judge.MachineInfo{
		Sandbox: i.ID, Template: i.Template, TemplateDigest: i.TemplateDigest, Driver: i.Driver,
		DriverIdentity: i.DriverIdentity, Emulated: m.s.Emulated(), Shape: i.Shape, BootMode: i.BootMode,
	}
}

func (m judgeMachine) Ended() (sandbox.Cause, bool) {
	select {
	case <-m.s.Ended():
		return m.s.EndCause(), true
	default:
		return "", false
	}
}

func (m judgeMachine) Destroy(context.Context) error { return m.s.Destroy() }
