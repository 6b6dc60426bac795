package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"

	"assay/internal/app"
	"assay/internal/config"
)

// serveCmd runs the server until it is asked to end.
type serveCmd struct {
	config.Server
	File    kong.ConfigFlag `name:"config" env:"ASSAY_CONFIG" placeholder:"FILE" help:"YAML file with settings: the flags' names are its keys."`
	Samples string          `name:"samples" placeholder:"DIR" help:"Put samples on the server: the packages in DIR/problems with their submissions, and a small class of DIR/assignments/shopping-cart."`
}

func (serveCmd) Help() string {
	return `Serves the API and the pages, keeps the queue and judges and grades what comes. Everything is kept in the data directory, unless the database, NATS or blobs are elsewhere.

The first start prints a link with which somebody becomes the admin. A signal ends it: it takes no more, waits for what is under way (--drain) and goes; a second signal ends it at once, and the next start takes up what was left.`
}

func (c *serveCmd) Run(ctx context.Context, env *Env) (err error) {
	if err := c.Check(); err != nil {
		return err
	}
	if c.Runs() {
		if err := enterRoot(ctx, env, c.Templates...); err != nil {
			return err
		}
	}
	s, err := app.OpenServer(ctx, app.ServerOptions{Config: c.Server, DataDir: env.DataDir, Driver: env.Driver, Accel: env.Accel, Version: version, Log: c.logger(env)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	// Requests are answered while templates are still built: only judging waits.
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() {
		err := s.Run(running)
		cancel(err)
		ended <- err
	}()
	if err := c.prepare(running, env, s); err != nil {
		asked := ctx.Err() != nil
		cancel(err)
		rerr := <-ended
		switch {
		case asked: // it was to end before it was ready, which is no failure
			return rerr
		case errors.Is(err, rerr):
			return err
		}
		return errors.Join(err, rerr)
	}
	return <-ended
}

func (c *serveCmd) logger(env *Env) *slog.Logger {
	var level slog.Level
	// Its words were checked with the flags.
	_ = level.UnmarshalText([]byte(c.LogLevel))
	o := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(env.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(env.Stderr, o))
}

// prepare makes templates ready, loads the samples, and says where to look.
func (c *serveCmd) prepare(ctx context.Context, env *Env, s *app.Server) error {
	if c.Runs() {
		for _, name := range c.Templates {
			if _, err := prepareShown(ctx, env, s.Engine, name); err != nil {
				return err
			}
		}
	}
	s.Prepared()
	if c.Samples != "" {
		if err := c.loadSamples(ctx, env, s); err != nil {
			return err
		}
	}
	env.UI.Printf("Assay is ready: %s\n", s.URL())
	link, err := s.SetupLink(ctx)
	if err != nil {
		return err
	}
	if link != "" {
		env.UI.Printf("Become its admin (the link works once, for a day): %s\n", link)
	}
	if c.Samples != "" {
		token, err := s.SampleToken(ctx)
		if err != nil {
			return err
		}
		env.UI.Printf("From another shell, for a day:\n  export ASSAY_SERVER=%s ASSAY_TOKEN=%s\n", s.URL(), token)
		for _, command := range []string{"status", "submit addition examples/problems/addition/submissions/accepted/sum.py", "logs SUBMISSION"} {
			env.UI.Printf("  %s %s\n", os.Args[0], command)
		}
	}
	if u := s.PreviewURL(); u != "" {
		scheme, host, _ := strings.Cut(u, "://")
		env.UI.Printf("  %-30s %s://PORT-SANDBOX.%s\n", "ports of sandboxes, with a link", scheme, host)
	}
	for _, line := range [][2]string{
		{"API, with every call to try", "/api/docs"}, {"health", "/healthz"}, {"metrics", "/metrics"},
	} {
		env.UI.Printf("  %-30s %s%s\n", line[0], s.URL(), line[1])
	}
	return nil
}

func (c *serveCmd) loadSamples(ctx context.Context, env *Env, s *app.Server) error {
	p := env.UI.Progress("judge the sample problems", 0)
	counts := map[string]int{}
	var wrong [][]string
	err := s.LoadSamples(ctx, filepath.Join(c.Samples, "problems"), func(r app.SampleRun, done, total int) {
		p.Set(int64(done), int64(total))
		counts[r.Problem]++
		if !r.Outcome.Met {
			wrong = append(wrong, []string{r.Problem, r.Outcome.Submission, r.Outcome.Expected, string(r.Outcome.Verdict), oneLine(r.Outcome.Mismatch)})
		}
	})
	if err != nil {
		return err
	}
	total := 0
	for _, n := range counts {
		total += n
	}
	p.Finish(fmt.Sprintf("%d submissions to %d problems, %d verdicts as labelled", total, len(counts), total-len(wrong)))
	if len(wrong) > 0 {
		env.UI.Table([]Column{Left("PROBLEM"), Left("SUBMISSION"), Left("EXPECTED"), Left("VERDICT"), Left("MISMATCH")}, wrong)
	}
	p = env.UI.Progress("grade a sample class", 0)
	n, err := s.LoadSampleClass(ctx, filepath.Join(c.Samples, "assignments", "shopping-cart"), p.Stage)
	if err != nil {
		return err
	}
	p.Finish(fmt.Sprintf("%d hand-ins", n))
	return nil
}

// envSet reports whether a flag is set in the environment.
func envSet(flag *kong.Flag) bool {
	for _, name := range flag.Envs {
		if _, ok := os.LookupEnv(name); ok {
			return true
		}
	}
	return false
}
