package app

import (
	"context"
	"io"
	"io/fs"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/judge"
	"assay/internal/sandbox"
)

// judgeMachines gives the judge machines of the engine. They are Dedicated:
// what is judged never shares a processor it was promised.
type judgeMachines struct{ e *Engine }

func (j judgeMachines) Create(ctx context.Context, template string) (judge.Machine, error) {
	t, err := j.e.Template(ctx, template, nil)
	if err != nil {
		return nil, err
	}
	s, err := j.e.Manager.Create(ctx, sandbox.Spec{Template: &t, Dedicated: true, Metadata: map[string]string{"for": "judge"}})
	if err != nil {
		return nil, err
	}
	return judgeMachine{s}, nil
}

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
		DriverIdentity: i.DriverIdentity, Shape: i.Shape, BootMode: i.BootMode,
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
