package app

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"assay/api"
	"assay/internal/account"
	"assay/internal/bus"
	"assay/internal/classes"
	"assay/internal/httpapi"
	"assay/internal/judging"
	"assay/internal/usage"
	"assay/internal/work"
)

// live carries a service's events over the bus.
type live struct{ bus *bus.Bus }

// publishWait bounds how long a service waits to tell what happens. The bus needs
// less to find out that its server is stuck, and then to mend it: who gave up
// earlier would wait in vain each time.
const publishWait = 3 * time.Second

// Publish tells those who look now. While the bus is gone they see the rows.
func (l live) Publish(topic string, data []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), publishWait)
	defer cancel()
	// Rows are the truth: who misses an event reads them.
	_, _ = l.bus.Publish(ctx, topic, data)
}

// Subscribe gives what happens from now on.
func (l live) Subscribe(ctx context.Context, topic string) (<-chan []byte, func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	events, err := l.bus.Subscribe(ctx, topic, 0)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	out := make(chan []byte)
	var passing sync.WaitGroup
	passing.Go(func() {
		defer close(out)
		for e := range events {
			select {
			case out <- e.Data: // of a gap it is empty, which says: look again
			case <-ctx.Done():
				return
			}
		}
	})
	return out, func() { cancel(); passing.Wait() }, nil
}

// readyTemplates has templates built and warm on this host.
type readyTemplates struct{ e *Engine }

// Ready builds and warms a template where that was not done yet.
func (r readyTemplates) Ready(ctx context.Context, name string) error {
	t, err := r.e.Template(ctx, name, nil)
	if err != nil || r.e.Manager.Prepared(t) {
		return err
	}
	_, err = r.e.Manager.Prepare(ctx, t)
	return err
}

// addresses are those of accounts, which an admin or a provider has checked.
type addresses struct{ store account.Store }

// Email is the address of an account; "" is none.
func (a addresses) Email(ctx context.Context, user string) (string, error) {
	u, err := a.store.User(ctx, user)
	return u.Email, err
}

// usage tells what was used, at the rates of the configuration.
func (s *Server) usage() *usage.Service {
	c := s.config.Cost
	return usage.New(s.db.Usage(), usage.Rates{Currency: c.Currency, CPUHour: c.CPUHour, GiBHour: c.GiBHour, SnapshotMonth: c.SnapshotMonth})
}

// heartbeat is how often a node shows that it lives, as a part of its lease.
const heartbeat = 6

// openWorkers makes what does the work of this node.
func (s *Server) openWorkers() error {
	j, err := s.judgeOf()
	if err != nil {
		return err
	}
	grader, err := s.Engine.Grading(nil)
	if err != nil {
		return err
	}
	class := s.Classes.NewWorker(grader, readyTemplates{s.Engine})
	capacity := s.config.Jobs
	if capacity == 0 {
		capacity = runtime.NumCPU()
	}
	store := s.db.Work()
	s.worker = &work.Worker{
		Store: store, Wakes: s.bus, Node: s.config.Node, Capacity: capacity, Log: s.log, Lease: s.config.Lease, Grace: s.config.Drain,
		// A machine on a full disk fails: other nodes may have room.
		Ready: func() error { return roomLeft(s.dataDir) },
		Handlers: map[string]work.Handler{
			judging.JobKind: s.Judging.NewWorker(j, readyTemplates{s.Engine}), classes.GradeJob: class, classes.CheckJob: class,
		},
	}
	s.heart = &work.Heart{
		Store: store, Wakes: s.bus, Every: s.config.Lease / heartbeat, Log: s.log,
		Node: work.Node{ID: s.config.Node, Capacity: capacity, Roles: []string{s.config.Role}}, Load: s.load,
	}
	return nil
}

// runWork beats and works until ctx ends, or another process is this node. The
// heart stops last, so that nobody takes this node for dead while it drains.
func (s *Server) runWork(ctx context.Context) (err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var heart sync.WaitGroup
	begun := make(chan struct{})
	s.heart.Begun = func() { close(begun) }
	var replaced error
	heart.Go(func() {
		if replaced = s.heart.Run(beating); replaced != nil {
			end(replaced)
		}
	})
	defer func() {
		stop()
		heart.Wait()
		err = errors.Join(err, replaced)
	}()
	for _, needed := range []<-chan struct{}{begun, s.prepared} {
		select {
		case <-needed:
		case <-ctx.Done():
			return nil
		}
	}
	return s.worker.Run(ctx)
}

// Prepared lets the workers begin: the templates are ready. It may be called
// again.
func (s *Server) Prepared() { s.prepareOnce.Do(func() { close(s.prepared) }) }

// serverInfo tells about this server.
type serverInfo struct{ s *Server }

func (i serverInfo) About() api.Server {
	a := api.Server{Name: "assay", Version: i.s.version}
	if i.s.Engine != nil {
		a.Driver = i.s.Engine.Manager.Driver().Name()
	}
	return a
}

func (i serverInfo) Nodes(ctx context.Context) ([]httpapi.NodeState, error) {
	nodes, err := i.s.db.Work().Nodes(ctx)
	if err != nil {
		return nil, err
	}
	var list []httpapi.NodeState
	for _, n := range nodes {
		state := httpapi.NodeState{
			Name: n.ID, Alive: !n.Dead(time.Now(), i.s.config.Lease/heartbeat), Seen: n.Seen, Processors: n.Capacity,
			Sandboxes: n.Sandboxes, Memory: n.Memory, Jobs: n.Jobs,
		}
		list = append(list, state)
	}
	return list, nil
}
