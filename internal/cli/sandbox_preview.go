package cli

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"time"

	"assay/client"
	"assay/internal/fault"
	"assay/internal/supervisor"
)

type sandboxPreviewCmd struct {
	oneSandbox
	Port    int              `arg:"" name:"port" help:"Port on the sandbox's loopback."`
	Path    string           `name:"path" default:"/" help:"Where the link leads."`
	Expires positiveDuration `name:"expires" default:"1h" help:"How long a server's link works."`
	Revoke  bool             `name:"revoke" help:"Take back all links to the sandbox's ports first; of a server."`
	Listen  string           `name:"listen" default:"127.0.0.1:0" help:"Local address for a sandbox of this host; port 0 takes a free one."`
	// Sandboxes of this host are what these commands speak of unless a server is
	// named, so who is logged in to one need not say anything.
	serverFlags
}

func (sandboxPreviewCmd) Help() string {
	return `With --server (or ASSAY_SERVER) prints a link that shows the port of a sandbox on that server to whoever has it, until it expires. The ID is a whole one then.

Without, prints an address on this host and serves it until Ctrl-C or the end of the sandbox. It has a host of its own, so that the page shares no cookies with others on this host.`
}

func (c sandboxPreviewCmd) Run(ctx context.Context, env *Env) error {
	if c.Port < 1 || c.Port > 65535 {
		return fault.Errorf(fault.Invalid, "port %d is not between 1 and 65535", c.Port)
	}
	if !strings.HasPrefix(c.Path, "/") {
		return fault.Errorf(fault.Invalid, "--path: %.200q does not begin with /", c.Path)
	}
	if c.Server != "" {
		return c.link(ctx, env)
	}
	if c.Revoke {
		return fault.Errorf(fault.Invalid, "--revoke is for a sandbox on a server").WithHint("name it with --server; end a local preview with Ctrl-C")
	}
	return c.serve(ctx, env)
}

// link asks a server for one.
func (c sandboxPreviewCmd) link(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	if c.Revoke {
		r, err := api.RevokeSandboxPreviewsWithResponse(ctx, c.ID)
		if err := answered(r, err); err != nil {
			return err
		}
	}
	r, err := api.CreateSandboxPreviewWithResponse(ctx, c.ID, client.PreviewCreate{Port: c.Port, Path: c.Path, TTLSeconds: time.Duration(c.Expires).Seconds()})
	if err := answered(r, err); err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(r.JSON201)
	}
	env.UI.Printf("%s\n", r.JSON201.URL)
	return nil
}

// serve shows the port on this host.
func (c sandboxPreviewCmd) serve(ctx context.Context, env *Env) error {
	supervised, err := connect(ctx, env)
	if err != nil {
		return err
	}
	defer supervised.Close()
	sb, err := supervised.Get(ctx, c.ID)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fault.Errorf(fault.Invalid, "listen on %s: %w", c.Listen, err).WithHint("give another address with --listen")
	}
	defer func() { _ = ln.Close() }()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		return err
	}
	host := net.JoinHostPort(strconv.Itoa(c.Port)+"-"+sb.ID+".localhost", port)
	if env.JSON {
		err = env.PrintJSON(map[string]any{"sandbox": sb.ID, "port": c.Port, "url": "http://" + host + c.Path})
	} else {
		env.UI.Printf("http://%s%s\n", host, c.Path)
	}
	if err != nil {
		return err
	}
	serve, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	server := &http.Server{
		Handler: localPreview(supervised, sb.ID, c.Port, host), ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return serve }, ErrorLog: log.New(io.Discard, "", 0),
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cancel(untilEnd(serve, supervised, sb.ID))
		_ = server.Close()
	}()
	err = server.Serve(ln)
	switch cause := context.Cause(serve); {
	case ctx.Err() != nil:
		err = nil // Ctrl-C is how it ends
	case cause != nil:
		err = cause
	case errors.Is(err, http.ErrServerClosed):
		err = nil
	}
	cancel(nil)
	<-ended
	return err
}

// localPreview passes requests for one host on to a port. Under another name, as
// 127.0.0.1, a browser would send along the cookies of everything on this host.
func localPreview(supervised *supervisor.Client, id string, port int, host string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.EqualFold(r.Host, host) {
			http.Error(w, "There is no preview at this address.", http.StatusNotFound)
			return
		}
		// What a visit opened ends with it.
		visit := r.Context()
		(&httputil.ReverseProxy{
			Rewrite: func(p *httputil.ProxyRequest) { p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "http", host, host },
			Transport: &http.Transport{
				DisableKeepAlives: true, DisableCompression: true,
				DialContext: func(context.Context, string, string) (net.Conn, error) {
					ours, theirs := net.Pipe()
					go func() { // ends with the visit
						_ = supervised.Forward(visit, id, port, wholePipe{theirs}) // a broken connection is seen on ours
						_ = theirs.Close()
					}()
					return ours, nil
				},
			},
			FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
				w.Header().Set("Refresh", "2")
				http.Error(w, "Nothing in the sandbox answers on this port yet. This page looks again by itself.", http.StatusBadGateway)
			},
		}).ServeHTTP(w, r)
	})
}

// wholePipe is a pipe that cannot be closed by halves: who serves HTTP has said
// all when it closes its half.
type wholePipe struct{ net.Conn }

func (p wholePipe) CloseWrite() error { return p.Close() }
