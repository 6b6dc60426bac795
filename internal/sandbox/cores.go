package sandbox

import (
	"log/slog"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// Pinner is what a Machine can be besides, when it can be bound to some of the
// host's processors.
type Pinner interface {
	// Pin lets all that the machine is run on these processors only. It may be
	// called again and again while the machine lives. fault.Unsupported where
	// this host offers no way.
	Pin(cores []int) error
}

// cores binds machines to processors: those with cores of their own to these,
// all others to the rest, and to all when there is no rest.
type cores struct {
	log *slog.Logger
	all []int // what this process may use, ascending

	mu       sync.Mutex
	taken    []int
	machines map[string]*bound // that can be bound, by ID
}

type bound struct {
	Pinner
	on []int // nil: shared
}

func newCores(log *slog.Logger) (*cores, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fault.Errorf(fault.Internal, "list processors: %w", err)
	}
	c := &cores{log: log, machines: map[string]*bound{}}
	for i := 0; len(c.all) < set.Count(); i++ {
		if set.IsSet(i) {
			c.all = append(c.all, i)
		}
	}
	return c, nil
}

// shared is where machines run that have no cores of their own. Caller holds mu.
func (c *cores) shared() []int {
	rest := slices.DeleteFunc(slices.Clone(c.all), func(i int) bool { return slices.Contains(c.taken, i) })
	if len(rest) == 0 {
		return c.all
	}
	return rest
}

// add takes charge of a new machine.
func (c *cores) add(id string, m Machine) {
	p, ok := m.(Pinner)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.machines[id] = &bound{Pinner: p}
	if len(c.taken) > 0 {
		c.pin(id, c.machines[id], c.shared())
	}
}

func (c *cores) remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.machines, id)
}

// pin binds a machine. One that cannot be bound now has died or is about to:
// whoever needs its cores to himself is told by settle. Caller holds mu.
func (c *cores) pin(id string, b *bound, on []int) {
	if err := b.Pin(on); err != nil {
		c.log.Debug("bind machine", "machine", id, "cores", on, "err", err)
	}
}

// settle binds a machine to its own cores, or to those of the sandbox that it
// is beside, and gives those. It gives nil for a machine that has none or whose
// driver cannot bind it.
func (c *cores) settle(id string, beside *Sandbox, own []int) ([]int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.take(own)
	b := c.machines[id]
	if b == nil {
		return nil, nil
	}
	on := own
	if beside != nil {
		if other := c.machines[beside.info.ID]; other != nil {
			on = other.on
		}
	}
	if len(on) == 0 {
		return nil, nil
	}
	err := b.Pin(on)
	if fault.Is(err, fault.Unsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Errorf(fault.Unavailable, "bind machine %s to processors %v: %w", id, on, err)
	}
	b.on = on
	return slices.Clone(on), nil
}

// take moves those who share off cores that somebody has to himself now.
// Caller holds mu.
func (c *cores) take(own []int) {
	if len(own) > 0 {
		before := c.shared()
		c.taken = append(c.taken, own...)
		c.moveShared(before)
	}
}

// giveBack lets everybody use cores again that one machine had to itself, and
// moves those that were beside it.
func (c *cores) giveBack(own []int) {
	if len(own) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.shared()
	had := func(i int) bool { return slices.Contains(own, i) }
	c.taken = slices.DeleteFunc(c.taken, had)
	c.moveShared(before)
	for id, b := range c.machines {
		if slices.ContainsFunc(b.on, had) {
			b.on = nil
			c.pin(id, b, c.shared())
		}
	}
}

// moveShared binds those who share again, if what they share is not what it
// was before. Caller holds mu.
func (c *cores) moveShared(before []int) {
	now := c.shared()
	if slices.Equal(before, now) {
		return
	}
	for id, b := range c.machines {
		if b.on == nil {
			c.pin(id, b, now)
		}
	}
}
