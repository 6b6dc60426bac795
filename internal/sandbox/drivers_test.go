package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/fault"
	"assay/internal/sandbox"
)

// other is a second driver, with an emulated processor.
type other struct{ *driver }

func (other) Name() string   { return "other" }
func (other) Emulated() bool { return true }

// TestTemplateNamesItsDriver: its machines, and all that is made of them, are of
// that driver; those of other templates are the manager's.
func TestTemplateNamesItsDriver(t *testing.T) {
	second := newDriver(t)
	second.identity = "other 1"
	opened := 0
	open := func(name string) (sandbox.Driver, error) {
		opened++
		if name != "other" {
			return nil, fault.Errorf(fault.Unsupported, "this host lacks it").WithHint("install it")
		}
		return other{second}, nil
	}
	bubble(t, func(o *sandbox.Options) { o.Drivers, o.Pool = open, 1 }, func(e *env) {
		t := e.t // the bubble's
		plain := e.create(nil)
		if i := plain.Info(); i.Driver != "fake" || plain.Emulated() || e.Emulated(e.template) || opened > 0 {
			t.Errorf("a template that names none: %+v, %d drivers opened", i, opened)
		}
		must(t, plain.Destroy())

		named := e.template
		named.Driver = "other"
		if !e.Emulated(named) || e.Prepared(named) {
			t.Errorf("emulated %v, prepared %v", e.Emulated(named), e.Prepared(named))
		}
		must(t, e.WaitPool(t.Context(), named))
		s := e.create(func(s *sandbox.Spec) { s.Template = &named })
		snap := e.snapshot(s, 0)
		children, err := s.Fork(t.Context(), 1, sandbox.Spec{})
		must(t, err)
		must(t, children[0].Err)
		restored, err := e.restore(snap.ID)
		must(t, err)
		for what, s := range map[sandbox.BootMode]*sandbox.Sandbox{sandbox.BootPool: s, sandbox.BootFork: children[0].Sandbox, sandbox.BootSnapshot: restored} {
			i := s.Info()
			if i.BootMode != what || i.Driver != "other" || i.DriverIdentity != "other 1" || !s.Emulated() {
				t.Errorf("%s: %+v", what, i)
			}
			record, err := os.ReadFile(filepath.Join(e.JournalDir(), i.ID+".json"))
			if err != nil || !strings.Contains(string(record), `"driver":"other"`) {
				t.Errorf("%s: the journal says %s, %v", what, record, err)
			}
			run1(t, s, "true")
			must(t, s.Destroy())
		}
		if snap.Driver != "other" || opened != 1 {
			t.Errorf("snapshot of driver %q, opened %d times", snap.Driver, opened)
		}

		named.Driver = "absent"
		for range 2 { // it may have been installed meanwhile
			_, err = e.Create(t.Context(), sandbox.Spec{Template: &named})
			wantKind(t, "a driver that this host lacks", err, fault.Unsupported)
			if !strings.Contains(err.Error(), "template base") || fault.HintOf(err) != "install it" {
				t.Errorf("%v, hint %q", err, fault.HintOf(err))
			}
		}
		if opened != 3 || e.Emulated(named) || e.Prepared(named) {
			t.Errorf("opened %d times", opened)
		}
		e.stop()
		if left := second.Machines(); len(left) > 0 {
			t.Errorf("machines are left: %v", left)
		}
	})
}

// TestNamedDriverAdopts: a persistent sandbox is taken over by the driver that
// made it.
func TestNamedDriverAdopts(t *testing.T) {
	second := newDriver(t)
	second.identity = "other 1"
	bubble(t, func(o *sandbox.Options) {
		o.Drivers = func(string) (sandbox.Driver, error) { return other{second}, nil }
		keeper(o)
	}, func(e *env) {
		t := e.t // the bubble's
		named := e.template
		named.Driver = "other"
		s := e.create(func(s *sandbox.Spec) { s.Template, s.Persistent = &named, true })
		e.leave(true)
		e.open()
		again, err := e.Get(s.Info().ID)
		must(t, err)
		if i := again.Info(); e.Adopted() != 1 || i.Driver != "other" || !again.Emulated() {
			t.Errorf("adopted %d: %+v", e.Adopted(), i)
		}
		run1(t, again, "true")
		must(t, again.Destroy())
		if left := second.Machines(); len(left) > 0 {
			t.Errorf("machines are left: %v", left)
		}
	})
}
