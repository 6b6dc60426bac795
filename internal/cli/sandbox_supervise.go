package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"assay/internal/app"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/supervisor"
)

// supervisorKeeper is who adopts the persistent sandboxes of a supervisor.
const supervisorKeeper = "supervisor"

// sandboxSuperviseCmd is the supervisor itself.
type sandboxSuperviseCmd struct {
	Started bool `name:"started" hidden:"" help:"Another command started this one and waits to hear that it is ready."`
}

func (c sandboxSuperviseCmd) Run(ctx context.Context, env *Env) (err error) {
	var lock *os.File
	var pipe io.WriteCloser = discardCloser{}
	if c.Started {
		lock, pipe = supervisor.Inherited()
	}
	ln, err := supervisor.Listen(env.DataDir, lock)
	if err != nil {
		return errors.Join(err, supervisor.SayReady(pipe, supervisor.Hello{}, err))
	}
	defer func() { err = errors.Join(err, ln.Close()) }()
	log := slog.New(slog.NewTextHandler(env.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	e, err := app.OpenEngine(ctx, app.Config{DataDir: env.DataDir, Driver: env.Driver, Accel: env.Accel, Keeper: supervisorKeeper, Log: log})
	if err != nil {
		if said := supervisor.SayReady(pipe, supervisor.Hello{}, err); said != nil || !c.Started {
			return errors.Join(err, said)
		}
		return errors.Join(status(1), supervisor.DropEmptyLog(env.DataDir)) // it has been said
	}
	defer func() { err = closeEngine(e, err) }()
	hello := supervisor.Hello{Version: supervisor.Version, PID: os.Getpid(), Reclaimed: e.Manager.Reclaimed(), Adopted: e.Manager.Adopted(), Driver: e.Manager.Driver().Name()}
	if hello.Reclaimed > 0 {
		log.Warn("removed machines of a supervisor that died", "machines", hello.Reclaimed)
	}
	if err := supervisor.SayReady(pipe, hello, nil); err != nil {
		log.Warn("the command that started the supervisor did not wait", "err", err)
	}
	err = supervisor.Serve(ctx, ln, supervisor.Options{
		Manager: e.Manager, EventDir: filepath.Join(env.DataDir, "engine", "events"), Grace: supervisor.DefaultGrace, Log: log,
		Template: func(ctx context.Context, name string, tell func(supervisor.Progress)) (sandbox.Template, error) {
			t, err := e.Template(ctx, name, buildTeller{name, tell})
			if err != nil || e.Manager.Prepared(t) {
				return t, err
			}
			tell(supervisor.Progress{Title: "warm up " + filepath.Base(name)})
			_, err = e.Manager.Prepare(ctx, t)
			return t, err
		},
	})
	if err != nil || !c.Started {
		return err
	}
	return supervisor.DropEmptyLog(env.DataDir)
}

// buildTeller tells the supervisor's client what a build does.
type buildTeller struct {
	name string
	tell func(supervisor.Progress)
}

func (b buildTeller) Progress(p image.Progress) {
	out := supervisor.Progress{Title: "build " + filepath.Base(b.name), Stage: stageNames[p.Stage], Done: p.Done, Total: p.Total}
	if p.Stage == image.StageUnpack || p.Stage == image.StageImage {
		out.Done, out.Total = out.Done>>20, out.Total>>20
	}
	b.tell(out)
}

// discardCloser is nobody who waits.
type discardCloser struct{}

func (discardCloser) Write(p []byte) (int, error) { return len(p), nil }
func (discardCloser) Close() error                { return nil }
