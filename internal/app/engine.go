// Package app joins everything: it picks the driver, opens the engine and the
// stores, and hands each part to those that need it. Start with OpenEngine.
//
// It is the only package that knows all others, and only mains and the command
// line know it. It decides nothing that a user sees.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/image"
	"assay/internal/judge"
	"assay/internal/netguard"
	"assay/internal/netguard/netns"
	"assay/internal/sandbox"
	"assay/templates"
)

// Config is what an engine is opened with. The zero value of each field but
// DataDir is the host's default.
type Config struct {
	// DataDir holds templates, snapshots, journal and event logs.
	DataDir string
	// BinDir is where guestd, assay-boot and assay-box are; empty is beside this
	// program.
	BinDir string
	// Driver is DriverGVisor or DriverQEMU, for templates that name none; empty is
	// the first.
	Driver string
	// Accel is how driver qemu runs guest code: "kvm", "tcg" or "auto".
	Accel string
	// Pool is how many machines of each template wait, never used.
	Pool int
	// Keeper names what this process is, the same at each start: one that adopts
	// the persistent sandboxes of the last. Empty makes and adopts none.
	Keeper string
	// Memory is how many bytes of machines may live at once; zero is three
	// quarters of what the host has.
	Memory int64
	// Observe hears what the engine does.
	Observe sandbox.Observer
	// Outside is how the proxy of sandboxes with a network reaches the world;
	// the zero value is the host's resolver and network.
	Outside netguard.Options
	Log     *slog.Logger
}

// Engine is the sandbox engine with its templates, running.
type Engine struct {
	Manager   *sandbox.Manager
	Templates *image.Store

	dataDir  string
	networks *netns.Networks
	stop     context.CancelFunc
	ran      sync.WaitGroup

	warm warmStates

	mu    sync.Mutex
	built map[string]sandbox.Template
	inUse []func()
}

// OpenEngine opens the engine of a data directory, reclaims what died in it,
// adopts what is the keeper's and starts keeping deadlines. Close it.
func OpenEngine(ctx context.Context, c Config) (_ *Engine, err error) {
	if c.BinDir == "" {
		exe, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find companion programs: %w", err)
		}
		c.BinDir = filepath.Dir(exe)
	}
	if c.Memory == 0 {
		if c.Memory, err = hostMemory(); err != nil {
			return nil, err
		}
	}
	driver, err := openDriver(c, c.Driver)
	if err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
	templateStore, err := image.Open(filepath.Join(c.DataDir, "templates"), image.Options{
		Guestd:  filepath.Join(c.BinDir, "guestd"),
		Builtin: templates.FS,
	})
	if err != nil {
		return nil, err
	}
	networks := openNetworks(c)
	manager, err := sandbox.Open(ctx, sandbox.Options{
		Networks: engineNetworks{networks},
		Driver:   driver, Drivers: func(name string) (sandbox.Driver, error) { return openDriver(c, name) }, Others: reclaimers, Dir: filepath.Join(c.DataDir, "engine"),
		CPUs: runtime.NumCPU(), Memory: c.Memory, Pool: c.Pool, Keeper: c.Keeper, Observe: c.Observe, Log: c.Log,
	})
	if err != nil {
		return nil, err
	}
	runCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	e := &Engine{Manager: manager, Templates: templateStore, stop: stop, dataDir: c.DataDir, networks: networks, built: map[string]sandbox.Template{}}
	e.ran.Go(func() { _ = manager.Run(runCtx) }) // ends with its context only
	return e, nil
}

// Close destroys all sandboxes of this engine but persistent ones, and stops it.
func (e *Engine) Close() error {
	e.stop()
	e.ran.Wait()
	err := errors.Join(e.warm.close(e.Manager), e.Manager.Close(), e.networks.Close())
	for _, release := range e.inUse {
		release()
	}
	return err
}

// Template gives a template, built if need be, and keeps it from being removed
// while the engine is open. The observer sees the building; it may be nil.
func (e *Engine) Template(ctx context.Context, name string, obs image.Observer) (sandbox.Template, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t, ok := e.built[name]; ok {
		return t, nil
	}
	t, err := e.Templates.Build(ctx, name, obs)
	if err != nil {
		return sandbox.Template{}, err
	}
	release, err := e.Templates.Use(ctx, t)
	if err != nil {
		return sandbox.Template{}, err
	}
	e.built[name] = t
	e.inUse = append(e.inUse, release)
	return t, nil
}

// Judge gives a judge whose machines come from this engine. Compiled jury
// programs are kept in the data directory, unless o brings a cache of its own.
func (e *Engine) Judge(o judge.Options) (*judge.Judge, error) {
	languages, err := judge.DefaultLanguages()
	if err != nil {
		return nil, err
	}
	if o.Host == (judge.HostInfo{}) {
		o.Host = hostInfo("/")
	}
	if o.Cache == nil {
		if o.Cache, err = openProgramCache(filepath.Join(e.dataDir, "judge", "programs")); err != nil {
			return nil, err
		}
	}
	return judge.New(judgeMachines{e}, languages, o), nil
}

func hostMemory() (int64, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, fault.Errorf(fault.Internal, "read the host's memory: %w", err)
	}
	total := int64(info.Totalram) * int64(info.Unit)
	return total / 4 * 3, nil
}
