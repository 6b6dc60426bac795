package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/supervisor"
)

type sandboxPortCmd struct {
	oneSandbox
	Port   int    `arg:"" name:"port" help:"Port on the sandbox's loopback."`
	Listen string `name:"listen" default:"127.0.0.1:0" help:"Local address; port 0 takes a free one."`
}

func (sandboxPortCmd) Help() string {
	return `Prints the local address and forwards until Ctrl-C or the end of the sandbox. No network is attached to the sandbox for it.`
}

func (c sandboxPortCmd) Run(ctx context.Context, env *Env) error {
	if c.Port < 1 || c.Port > 65535 {
		return fault.Errorf(fault.Invalid, "port %d is not between 1 and 65535", c.Port)
	}
	client, err := connect(ctx, env)
	if err != nil {
		return err
	}
	defer client.Close()
	sb, err := client.Get(ctx, c.ID)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fault.Errorf(fault.Invalid, "listen on %s: %w", c.Listen, err).WithHint("give another address with --listen")
	}
	defer func() { _ = ln.Close() }()
	if env.JSON {
		err = env.PrintJSON(map[string]any{"sandbox": sb.ID, "port": c.Port, "listen": ln.Addr().String()})
	} else {
		env.UI.Printf("%s -> %s:%d\n", ln.Addr(), sb.ID, c.Port)
	}
	if err != nil {
		return err
	}
	serve, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		cancel(untilEnd(serve, client, sb.ID))
		_ = ln.Close()
	})
	for {
		conn, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil // Ctrl-C is how it ends
			}
			cancel(fault.Errorf(fault.Internal, "accept on %s: %w", ln.Addr(), err))
			return context.Cause(serve)
		}
		all.Go(func() {
			if err := client.Forward(serve, sb.ID, c.Port, conn); err != nil && serve.Err() == nil {
				env.UI.Warnf("connection from %s: %s", conn.RemoteAddr(), err)
			}
		})
	}
}

// untilEnd waits for the end of a sandbox and makes an error of it.
func untilEnd(ctx context.Context, client *supervisor.Client, id string) error {
	r, err := client.Wait(ctx, id)
	if err != nil {
		return err
	}
	return fault.Errorf(fault.Conflict, "sandbox %s has ended: %s", r.ID, r.Ended)
}

type sandboxWatchCmd struct {
	oneSandbox
	Dir     string   `arg:"" optional:"" name:"dir" default:"." help:"Directory to watch with all below it; relative to the user's home."`
	Exclude []string `name:"exclude" short:"x" sep:"none" placeholder:"PATTERN" help:"Leave out paths that match, for example node_modules/**; may be repeated."`
}

func (sandboxWatchCmd) Help() string {
	return `Prints one line for each path that changed, until Ctrl-C or the end of the sandbox: time, what happened, how many changes were gathered, path. With --json one object a line. "overflow" says that changes were lost: look at the files anew.`
}

func (c sandboxWatchCmd) Run(ctx context.Context, env *Env) error {
	client, err := connect(ctx, env)
	if err != nil {
		return err
	}
	defer client.Close()
	spec := guest.WatchSpec{Dir: inGuest(c.Dir), Exclude: c.Exclude}
	err = client.Watch(ctx, c.ID, spec, func() { env.UI.Notef("watching %s", spec.Dir) }, func(e guest.Event) error {
		if env.JSON {
			return json.NewEncoder(env.Stdout).Encode(e)
		}
		suffix := ""
		if e.Type == guest.TypeDir {
			suffix = "/"
		}
		if e.Reason != "" {
			suffix += " (" + e.Reason + ")"
		}
		_, err := fmt.Fprintf(env.Stdout, "%s %-8s %3d %q%s\n", e.Time.Local().Format(time.TimeOnly), e.Op, e.Count, e.Path, suffix)
		return err
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // Ctrl-C is how it ends
	}
	return err
}
