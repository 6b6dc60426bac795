package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"assay/internal/app"
	"assay/internal/bench"
	"assay/internal/fault"
)

type benchServerCmd struct {
	Clients   int           `name:"clients" default:"200" help:"Clients that read at the same time."`
	Seconds   int           `name:"seconds" default:"10" help:"For how long they read."`
	Pause     time.Duration `name:"pause" default:"200ms" help:"How often each of them reads."`
	Listeners int           `name:"listeners" default:"1000" help:"Listeners that follow one submission; 0 is none."`
	URL       string        `name:"url" placeholder:"URL" help:"A server to measure (default: one is started with a data directory of its own)."`
	Token     string        `name:"token" env:"ASSAY_TOKEN" placeholder:"TOKEN" help:"An admin's token on that server."`
	PID       int           `name:"pid" placeholder:"N" help:"That server's process, to measure its memory."`
	Check     bool          `name:"check" help:"Exit with 1 when a target is missed."`
}

func (benchServerCmd) Help() string {
	return `A server of its own is started without a limit of requests; one that is named should be, too (--rate 0). Clients run on the same host and need its processors as well: on a host with other work the figures say little.`
}

func (c benchServerCmd) Run(ctx context.Context, env *Env) (err error) {
	if c.Clients < 1 || c.Seconds < 1 || c.Listeners < 0 || c.Pause < 0 {
		return fault.Errorf(fault.Invalid, "clients and seconds are at least 1, listeners and pause at least 0")
	}
	o := bench.ServerOptions{
		URL: strings.TrimSuffix(c.URL, "/"), Token: c.Token, PID: c.PID, Clients: c.Clients, For: time.Duration(c.Seconds) * time.Second, Pause: c.Pause,
		Listeners: c.Listeners,
	}
	if o.URL == "" {
		p := env.UI.Progress("start a server", 0)
		own, err := startServer(ctx, env)
		if err != nil {
			return err
		}
		p.Finish("done")
		defer func() { err = errors.Join(err, own.stop()) }()
		o.URL, o.Token, o.PID = own.url, own.token, own.cmd.Process.Pid
	}
	p := env.UI.Progress("bench", 0)
	o.Stage = p.Stage
	report, err := bench.Server(ctx, o)
	if err != nil {
		return err
	}
	p.Finish("done")
	return showReport(env, report, c.Check)
}

// ownServer is a server that was started to be measured.
type ownServer struct {
	cmd        *exec.Cmd
	url, token string
	dir        string
	// ended is closed when the process is gone; failed says how.
	ended  chan struct{}
	failed error
}

// benchTemplate is what the bench's programs run in.
const benchTemplate = "base"

// startServer starts this program as a server with a new data directory.
func startServer(ctx context.Context, env *Env) (_ *ownServer, err error) {
	if err := enterRoot(ctx, env, benchTemplate); err != nil {
		return nil, err
	}
	s := &ownServer{ended: make(chan struct{})}
	if s.dir, err = os.MkdirTemp("", "assay-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(s.dir))
		}
	}()
	templates, err := filepath.Abs(filepath.Join(env.DataDir, "templates"))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(templates, 0o700); err != nil {
		return nil, err
	}
	if err := os.Symlink(templates, filepath.Join(s.dir, "templates")); err != nil {
		return nil, err
	}
	if s.token, err = app.NewServerToken(ctx, s.dir, "bench", rand.Text()); err != nil {
		return nil, err
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	s.url = "http://" + address
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s.cmd = exec.Command(exe, "--data-dir", s.dir, "--quiet", "serve", "--listen", address, "--preview-listen", "off", "--rate", "0", "--log-level", "warn", "--templates", benchTemplate)
	s.cmd.Stderr = env.Stderr
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.ended)
		s.failed = s.cmd.Wait()
	}()
	if err := s.await(ctx); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// freeAddress is one where nobody listens yet.
func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// await waits until the server answers.
func (s *ownServer) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, fault.Errorf(fault.Unavailable, "the server was not ready within a minute"))
	defer cancel()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/readyz", nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(r)
		if err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-s.ended:
			return fault.Errorf(fault.Unavailable, "the server ended: %w", s.failed)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stop ends the server and removes what it kept.
func (s *ownServer) stop() error {
	// One that has ended gets no signal, which is fine; nor does it matter how it
	// ends.
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(time.Minute):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("remove the bench's data: %w", err)
	}
	return nil
}
