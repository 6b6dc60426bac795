package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"assay/internal/app"
	"assay/internal/fault"
)

// jobeCmd serves Jobe's wire format until it is asked to end.
type jobeCmd struct {
	Listen string `default:"127.0.0.1:4000" placeholder:"ADDRESS" help:"Address and port. Whoever reaches it may run programs: keep it on this host or behind a proxy that asks who it is."`
}

// drain is how long runs under way may take after the command was asked to end.
const drain = 60 * time.Second

func (c *jobeCmd) Run(ctx context.Context, env *Env) (err error) {
	e, err := app.OpenEngine(ctx, app.Config{DataDir: env.DataDir, Driver: env.Driver, Accel: env.Accel, Pool: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	handler, err := e.Jobe(slog.New(slog.NewTextHandler(env.Stderr, nil)))
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fault.Errorf(fault.Invalid, "listen on %s: %w", c.Listen, err).WithHint("choose another --listen ADDRESS:PORT")
	}
	env.UI.Notef("jobe: http://%s/jobe/index.php/restapi", l.Addr())
	// Runs under way get their answer; so their contexts outlive ours.
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err = server.Shutdown(last)
	if serr := <-ended; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}
