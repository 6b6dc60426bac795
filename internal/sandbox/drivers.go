package sandbox

import (
	"sync"

	"assay/internal/fault"
)

// drivers are those of a manager: one for all templates that name none, and
// those that templates name, each opened when the first of them is used.
type drivers struct {
	main Driver
	open func(name string) (Driver, error)

	mu     sync.Mutex
	opened map[string]Driver
}

func newDrivers(main Driver, open func(string) (Driver, error)) *drivers {
	return &drivers{main: main, open: open, opened: map[string]Driver{main.Name(): main}}
}

// named gives the driver of a name, "" is the main one's. A driver that could
// not be opened is tried again the next time: the host may have been mended.
func (d *drivers) named(name string) (Driver, error) {
	if name == "" {
		return d.main, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if got, ok := d.opened[name]; ok {
		return got, nil
	}
	if d.open == nil {
		return nil, fault.Errorf(fault.Unsupported, "there is no driver %s here", name).WithHint("name another in the template, or none")
	}
	got, err := d.open(name)
	if err != nil {
		return nil, err
	}
	d.opened[name] = got
	return got, nil
}

// emulates reports whether a driver's machines have an emulated processor.
func emulates(d Driver) bool {
	e, ok := d.(Emulator)
	return ok && e.Emulated()
}
