package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"assay/internal/account"
	"assay/internal/account/oidc"
	"assay/internal/blob"
	"assay/internal/bus"
	"assay/internal/classes"
	"assay/internal/compat/pandastack"
	"assay/internal/config"
	"assay/internal/fault"
	"assay/internal/httpapi"
	"assay/internal/judge"
	"assay/internal/judging"
	"assay/internal/sandboxes"
	"assay/internal/sqlstore"
	"assay/internal/work"
)

// ServerOptions are what a server is opened with.
type ServerOptions struct {
	Config config.Server
	// DataDir holds all that is not kept elsewhere by the configuration.
	DataDir string
	// BinDir, Driver and Accel are the engine's: see Config.
	BinDir  string
	Driver  string
	Accel   string
	Version string
	Log     *slog.Logger
}

// Server is the whole product in one process: stores, engine, services, workers
// and the API. Open it, Run it, Close it.
type Server struct {
	Accounts  *account.Service
	Judging   *judging.Service
	Classes   *classes.Service
	Sandboxes *sandboxes.Service
	// Engine is nil where this process runs no sandboxes.
	Engine *Engine

	config   config.Server
	dataDir  string
	version  string
	log      *slog.Logger
	db       *sqlstore.DB
	bus      *bus.Bus
	blobs    blob.Store
	registry *prometheus.Registry
	// worker and heart are nil where this process runs no sandboxes.
	worker *work.Worker
	heart  *work.Heart
	// prepared is closed when the workers may begin.
	prepared    chan struct{}
	prepareOnce sync.Once
	listener    net.Listener
	// previewer is nil where no previews are shown.
	previewer net.Listener
	doors     httpapi.Doors
	nodes     *nodes
	meters    *meters
}

// OpenServer opens all parts of a server, and reclaims what a dead one left in
// its data directory. It listens, but answers nobody before Run.
func OpenServer(ctx context.Context, o ServerOptions) (_ *Server, err error) {
	if err := o.Config.Check(); err != nil {
		return nil, err
	}
	s := &Server{config: o.Config, dataDir: o.DataDir, version: o.Version, log: o.Log, registry: prometheus.NewRegistry(), prepared: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	// First: links have the address, and port 0 is whichever is free.
	if s.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.config.Listen); err != nil {
		return s, fault.Errorf(fault.Unavailable, "listen on %s: %w", s.config.Listen, err).WithHint("is another server running there? choose another --listen ADDRESS:PORT")
	}
	if err := s.listenForPreviews(ctx); err != nil {
		return s, err
	}
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s.meters = newMeters(s.registry)
	if err := s.openStores(ctx, o.DataDir); err != nil {
		return s, err
	}
	if err := s.openServices(ctx, o); err != nil {
		return s, err
	}
	s.nodes = s.openNodes()
	s.registry.MustRegister(state{s})
	if s.doors, err = s.openDoors(); err != nil {
		return s, err
	}
	if s.heart != nil {
		s.heart.Node.Address = s.nodeURL()
	}
	return s, nil
}

func (s *Server) openStores(ctx context.Context, dataDir string) (err error) {
	c := s.config
	if c.DatabaseURL != "" {
		s.db, err = sqlstore.OpenURL(ctx, c.DatabaseURL.Reveal())
	} else {
		s.db, err = sqlstore.Open(ctx, filepath.Join(dataDir, "assay.db"))
	}
	if err != nil {
		return err
	}
	if s.blobs, err = openBlobs(ctx, c, dataDir); err != nil {
		return err
	}
	if c.NATSURL != "" {
		s.bus, err = bus.Dial(ctx, c.NATSURL.Reveal())
	} else {
		s.bus, err = bus.OpenEmbedded(ctx, filepath.Join(dataDir, "bus"))
	}
	return err
}

// openBlobs gives nil, and no nil pointer in an interface, with an error: there
// is nothing to close then.
func openBlobs(ctx context.Context, c config.Server, dataDir string) (blob.Store, error) {
	if c.BlobURL == "" {
		f, err := blob.OpenFolder(filepath.Join(dataDir, "blobs"))
		if err != nil {
			return nil, err
		}
		return f, nil
	}
	b, err := blob.OpenS3(ctx, c.BlobURL.Reveal(), dataDir)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (s *Server) openServices(ctx context.Context, o ServerOptions) (err error) {
	accounts := account.Config{}
	if s.config.OIDC.Issuer != "" {
		provider, err := oidc.New(oidc.Config{
			Issuer: s.config.OIDC.Issuer, ClientID: s.config.OIDC.ClientID, ClientSecret: s.config.OIDC.ClientSecret.Reveal(),
			Redirect: s.URL() + httpapi.SignOnPath,
		})
		if err != nil {
			return err
		}
		accounts.OIDC = account.OIDCConfig{Provider: provider, Domains: s.config.OIDC.Domains, Role: account.Role(s.config.OIDC.Role)}
	}
	if s.Accounts, err = account.New(s.db.Accounts(), accounts, s.log); err != nil {
		return err
	}
	s.Judging, err = judging.New(judging.Options{
		Store: countedRuns{s.db.Judging(), s.meters}, Blobs: s.blobs, Queue: s.bus, Events: live{s.bus}, CacheDir: filepath.Join(o.DataDir, "packages"),
		PerMinute: s.config.Quota.Submissions,
	})
	if err != nil {
		return err
	}
	s.Classes, err = classes.New(classes.Options{
		Store: countedGradings{s.db.Classes(), s.meters}, Blobs: s.blobs, Queue: s.bus, Events: live{s.bus}, Accounts: addresses{s.db.Accounts()}, CacheDir: filepath.Join(o.DataDir, "uploads"),
		PerMinute: s.config.Quota.Submissions,
	})
	if err != nil {
		return err
	}
	own := sandboxes.Options{
		Store: s.db.Sandboxes(), Node: s.nodeName(), Quota: s.quota, TokenQuota: tokenQuota, Actor: s.actor,
		MaxPreview: s.config.PreviewMax, Log: s.log,
	}
	if !s.config.Runs() {
		own.Machines, own.Templates = sandboxes.NoMachines{}, sandboxes.NoMachines{}
		s.Sandboxes, err = sandboxes.Open(ctx, own)
		return err
	}
	if s.Engine, err = OpenEngine(ctx, Config{DataDir: o.DataDir, Driver: o.Driver, Accel: o.Accel, BinDir: o.BinDir, Pool: s.config.Pool, Keeper: serverKeeper, Observe: s.meters.engine(), Log: s.log}); err != nil {
		return err
	}
	if s.Sandboxes, err = s.Engine.Sandboxes(ctx, own); err != nil {
		return err
	}
	return s.openWorkers()
}

// quota is what each user may have.
func (s *Server) quota(account.Actor) sandboxes.Quota {
	c := s.config.Quota
	return sandboxes.Quota{Sandboxes: c.Sandboxes, CPUPerDay: c.CPUPerDay, SnapshotBytes: c.Disk, Snapshots: c.Snapshots}
}

// serverKeeper is who adopts the persistent sandboxes of a server.
const serverKeeper = "server"

// actor is who made a sandbox, as far as its quotas ask. A token that is not to
// be found has none of its own: the user's hold all the same.
func (s *Server) actor(ctx context.Context, user, token string) account.Actor {
	a := account.Actor{User: user, Token: token}
	if token == "" {
		return a
	}
	t, err := s.db.Accounts().Token(ctx, token)
	if err != nil {
		s.log.WarnContext(ctx, "find the quotas of a token", "token", token, "error", err)
		return a
	}
	a.Quotas = t.Quotas
	return a
}

// tokenQuota is what may be had with a token, within the user's quota.
func tokenQuota(a account.Actor) sandboxes.Quota {
	t := a.Quotas
	return sandboxes.Quota{
		Sandboxes: t.SandboxesAtOnce, CPUPerDay: time.Duration(t.CPUSecondsPerDay) * time.Second, DiskBytes: t.DiskBytes, Snapshots: t.Snapshots,
	}
}

// judgeOf makes the judge that the workers use.
func (s *Server) judgeOf() (*judge.Judge, error) { return s.Engine.Judge(judge.Options{}) }

// URL is how users reach this server: by the configuration, or by the address
// that it listens on.
func (s *Server) URL() string { return cmp.Or(s.config.PublicURL, s.listensAt()) }

// Address is where it listens.
func (s *Server) Address() net.Addr { return s.listener.Addr() }

// SetupLink is a one-time link with which somebody becomes the first admin; ""
// once there is one.
func (s *Server) SetupLink(ctx context.Context) (string, error) {
	code, err := s.Accounts.SetupCode(ctx)
	if err != nil || code == "" {
		return "", err
	}
	return s.URL() + "/setup?code=" + code, nil
}

// Run answers requests and does work until ctx ends. Then it takes no more, lets
// what is under way end for as long as the configuration says, and returns when
// all has ended. A failure of one part ends all.
func (s *Server) Run(ctx context.Context) error {
	requests, endRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer endRequests()
	var handling sync.WaitGroup
	server := func(h http.Handler) *http.Server {
		return &http.Server{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				handling.Add(1)
				defer handling.Done()
				h.ServeHTTP(w, r)
			}),
			ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
			BaseContext: func(net.Listener) context.Context { return requests },
			ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
			// Websockets need HTTP/1.1.
			TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		}
	}
	web := map[net.Listener]*http.Server{s.listener: server(s.doors.API)}
	if s.previewer != nil {
		web[s.previewer] = server(s.doors.Previews)
	}
	group, ctx := errgroup.WithContext(ctx)
	for listener, server := range web {
		group.Go(func() error {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve: %w", err)
			}
			return nil
		})
	}
	group.Go(func() error {
		<-ctx.Done()
		// Streams and waits would hold the end up; who follows comes back.
		soon := time.AfterFunc(min(s.config.Drain, streamGrace), endRequests)
		defer soon.Stop()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.Drain)
		defer cancel()
		err := shutdown(last, slices.Collect(maps.Values(web)))
		// WebSockets are none of Shutdown's, and what they use is closed next.
		endRequests()
		return errors.Join(err, waitFor(&handling, streamGrace))
	})
	group.Go(func() error { return s.Accounts.Run(ctx) })
	group.Go(func() error { return s.Sandboxes.Run(ctx) })
	group.Go(func() error { return s.runSweeps(ctx) })
	if s.worker != nil {
		group.Go(func() error { return s.runWork(ctx) })
	}
	return group.Wait()
}

// shutdown lets the servers' requests end, and closes what has not in time.
func shutdown(ctx context.Context, servers []*http.Server) error {
	errs := make([]error, len(servers))
	var ending sync.WaitGroup
	for i, server := range servers {
		ending.Go(func() {
			if err := server.Shutdown(ctx); err != nil {
				errs[i] = errors.Join(fmt.Errorf("end requests: %w", err), server.Close())
			}
		})
	}
	ending.Wait()
	return errors.Join(errs...)
}

// waitFor waits for requests whose contexts have ended.
func waitFor(handling *sync.WaitGroup, most time.Duration) error {
	ended := make(chan struct{})
	go func() { // ends with the requests; with this process, if they do not
		handling.Wait()
		close(ended)
	}()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ended:
		return nil
	case <-timer.C:
		return fault.Errorf(fault.Internal, "requests go on %s after they were told to end", most)
	}
}

// streamGrace is how long requests may go on after a signal to end before their
// contexts end, and how long they may take to end after that.
const streamGrace = 5 * time.Second

// Close closes all parts in the reverse order of opening. Run has returned.
func (s *Server) Close() error {
	var errs []error
	if s.listener != nil {
		// Run's Shutdown has closed it, if it ran.
		_ = s.listener.Close()
	}
	if s.previewer != nil {
		_ = s.previewer.Close()
	}
	if s.nodes != nil {
		s.nodes.CloseIdleConnections()
	}
	if s.Sandboxes != nil {
		errs = append(errs, s.Sandboxes.Close())
	}
	if s.Engine != nil {
		errs = append(errs, s.Engine.Close())
	}
	if s.Judging != nil {
		errs = append(errs, s.Judging.Close())
	}
	if s.bus != nil {
		errs = append(errs, s.bus.Close())
	}
	if s.blobs != nil {
		errs = append(errs, s.blobs.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	return errors.Join(errs...)
}

// ready says which of the parts that everything needs are gone or full.
func (s *Server) ready(ctx context.Context) error {
	parts := map[string]func(context.Context) error{"disk": func(context.Context) error { return roomLeft(s.dataDir) }}
	maps.Copy(parts, s.parts())
	answers := askAll(ctx, readyWait, parts)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		if err := answers[name]; err != nil {
			// Anybody may ask: addresses and paths are for the log.
			s.log.WarnContext(ctx, "not ready", "part", name, "error", err)
			errs = append(errs, fault.Errorf(fault.KindOf(err), "%s: %s", name, fault.KindOf(err)))
		}
	}
	return errors.Join(errs...)
}

// parts are those that everything needs, with how to ask them.
func (s *Server) parts() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{"database": s.db.Ping, "events": s.bus.Ping, "blobs": s.blobs.Ping}
}

// askAll asks all parts at once, for at most wait: one that does not answer must
// not make the others look gone.
func askAll(ctx context.Context, wait time.Duration, parts map[string]func(context.Context) error) map[string]error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var mu sync.Mutex
	answers := map[string]error{}
	var asked sync.WaitGroup
	for name, ask := range parts {
		asked.Go(func() {
			err := ask(ctx)
			mu.Lock()
			defer mu.Unlock()
			answers[name] = err
		})
	}
	asked.Wait()
	return answers
}

// minRoom is how many bytes of disk a server needs to take work: rows, records
// and what machines write.
const minRoom = 64 << 20

func roomLeft(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fault.Errorf(fault.Unavailable, "look at the data directory: %w", err)
	}
	if free := int64(fs.Bavail) * fs.Bsize; free < minRoom {
		return fault.Errorf(fault.Exhausted, "the data directory has room for %d MiB, at least %d are needed", free>>20, minRoom>>20).WithHint("make room on its disk")
	}
	return nil
}

const readyWait = 3 * time.Second

func (s *Server) openDoors() (httpapi.Doors, error) {
	previews, err := s.previews()
	if err != nil {
		return httpapi.Doors{}, err
	}
	return httpapi.Open(httpapi.Options{
		Log: s.log, Accounts: s.Accounts, People: s.Accounts, PublicURL: s.URL(), Judge: s.Judging, Sandboxes: s.Sandboxes, Classes: s.Classes, Usage: s.usage(), Server: serverInfo{s}, Metrics: s.registry, Ready: s.ready,
		MaxUpload: s.config.MaxUpload, RequestsPerSecond: s.config.Rate, TrustedProxies: s.config.Proxies(),
		Secure: strings.HasPrefix(s.config.PublicURL, "https:"), Nodes: s.nodes, Previews: previews, Mount: s.mount,
	})
}

// mount adds the fronts of other systems' wire formats.
func (s *Server) mount(mux *http.ServeMux) {
	mux.Handle("/v1/", pandastack.Handler(pandastack.Options{
		Service: s.Sandboxes, Authenticate: s.Accounts.ByToken, Templates: pandastack.DefaultTemplates(), Log: s.log,
	}))
}
