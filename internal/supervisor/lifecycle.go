package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

func view(sb *sandbox.Sandbox) Sandbox {
	v := Sandbox{Info: sb.Info(), State: StateRunning}
	if v.Paused {
		v.State = StatePaused
	}
	return v
}

// spec makes the engine's spec of the terms.
func (t Terms) spec() (sandbox.Spec, error) {
	if t.TTL < 0 || t.Idle < 0 {
		return sandbox.Spec{}, fault.Errorf(fault.Invalid, "time to live and idle limit must not be negative")
	}
	spec := sandbox.Spec{IdleLimit: t.Idle, Metadata: t.Metadata, Network: t.Network, Persistent: t.Persistent}
	if t.TTL > 0 {
		spec.Deadline = time.Now().Add(t.TTL)
	}
	return spec, nil
}

func (s *server) create(w http.ResponseWriter, r *http.Request) error {
	var req CreateRequest
	if err := decode(r, &req); err != nil {
		return err
	}
	st := newStream(w, r)
	sb, err := s.make(r.Context(), req, func(p Progress) { _ = st.sendJSON(guest.FrameEvent, p) })
	if err != nil {
		st.end(nil, err)
		return nil
	}
	s.follow(sb)
	if r.Context().Err() != nil { // nobody learned its ID
		if err := sb.Destroy(); err != nil {
			s.Log.Error("end a sandbox whose caller is gone", "sandbox", sb.Info().ID, "err", err)
		}
		return nil
	}
	st.end(view(sb), nil)
	return nil
}

func (s *server) make(ctx context.Context, req CreateRequest, tell func(Progress)) (*sandbox.Sandbox, error) {
	if (req.Template == "") == (req.Snapshot == "") {
		return nil, fault.Errorf(fault.Invalid, "a sandbox is made of exactly one of template and snapshot")
	}
	if _, err := req.Terms.spec(); err != nil {
		return nil, err
	}
	var template *sandbox.Template
	if req.Template != "" {
		t, err := s.Template(ctx, req.Template, tell)
		if err != nil {
			return nil, err
		}
		template = &t
	}
	// The time to live begins when the template is there.
	spec, err := req.Terms.spec()
	if err != nil {
		return nil, err
	}
	spec.Template, spec.Snapshot = template, req.Snapshot
	spec.Queued = func(place int) { tell(Progress{Queued: place}) }
	return s.Manager.Create(ctx, spec)
}

func (s *server) list(w http.ResponseWriter, _ *http.Request) error {
	all := []Sandbox{}
	for _, sb := range s.Manager.List() {
		all = append(all, view(sb))
	}
	return reply(w, all)
}

func (s *server) info(w http.ResponseWriter, r *http.Request) error {
	sb, err := s.find(r)
	if err != nil {
		return err
	}
	return reply(w, view(sb))
}

// remove is idempotent: that a sandbox has ended before is said, not refused.
func (s *server) remove(w http.ResponseWriter, r *http.Request) error {
	sb, err := s.find(r)
	if err != nil {
		if why := s.ended(r.PathValue("id")); why != "" {
			return reply(w, Removed{ID: r.PathValue("id"), Ended: why})
		}
		return err
	}
	if err := sb.Destroy(); err != nil {
		return err
	}
	return reply(w, Removed{ID: sb.Info().ID})
}

// wait answers when the sandbox has ended, with why.
func (s *server) wait(w http.ResponseWriter, r *http.Request) error {
	sb, err := s.find(r)
	if err != nil {
		return err
	}
	st := newStream(w, r)
	select {
	case <-sb.Ended():
		st.end(Removed{ID: sb.Info().ID, Ended: s.ended(sb.Info().ID)}, nil)
	case <-r.Context().Done():
		st.end(nil, context.Cause(r.Context()))
	}
	return nil
}

func (s *server) pause(w http.ResponseWriter, r *http.Request) error {
	sb, err := s.find(r)
	if err == nil {
		err = sb.Pause(r.Context())
	}
	if err != nil {
		return err
	}
	return reply(w, view(sb))
}

func (s *server) resume(w http.ResponseWriter, r *http.Request) error {
	sb, err := s.find(r)
	if err == nil {
		err = sb.Resume(r.Context())
	}
	if err != nil {
		return err
	}
	return reply(w, view(sb))
}

func (s *server) extend(w http.ResponseWriter, r *http.Request) error {
	var t Terms
	if err := decode(r, &t); err != nil {
		return err
	}
	sb, err := s.find(r)
	if err == nil {
		err = sb.Extend(time.Now().Add(t.TTL))
	}
	if err != nil {
		return err
	}
	return reply(w, view(sb))
}

func (s *server) network(w http.ResponseWriter, r *http.Request) error {
	var req NetworkRequest
	if err := decode(r, &req); err != nil {
		return err
	}
	sb, err := s.find(r)
	switch {
	case err != nil:
	case req.Policy == nil:
		err = sb.EndSetup()
	default:
		err = sb.SetNetwork(*req.Policy)
	}
	if err != nil {
		return err
	}
	return reply(w, view(sb))
}

func (s *server) events(w http.ResponseWriter, r *http.Request) error {
	sb, err := s.find(r)
	if err == nil {
		return reply(w, sb.Events())
	}
	log, logErr := s.pastEvents(r.PathValue("id"))
	if errors.Is(logErr, fs.ErrNotExist) {
		return err
	}
	if logErr != nil {
		return logErr
	}
	return reply(w, log)
}

// pastEvents reads the log of a sandbox that is gone.
func (s *server) pastEvents(id string) ([]sandbox.Event, error) {
	if id == "" || id != filepath.Base(id) || id[0] == '.' {
		return nil, fs.ErrNotExist
	}
	f, err := os.Open(filepath.Join(s.EventDir, id+".jsonl"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := []sandbox.Event{}
	for dec := json.NewDecoder(f); ; {
		var e sandbox.Event
		err := dec.Decode(&e)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // cut short by a crash
			return all, nil
		}
		if err != nil {
			return nil, fault.Errorf(fault.Internal, "read event log of sandbox %s: %w", id, err)
		}
		all = append(all, e)
	}
}

func (s *server) snapshot(w http.ResponseWriter, r *http.Request) error {
	keep, err := strconv.ParseInt(r.URL.Query().Get("keep_ns"), 10, 64)
	if err != nil {
		return fault.Errorf(fault.Invalid, "retention of the snapshot: %w", err)
	}
	sb, err := s.find(r)
	if err != nil {
		return err
	}
	snap, err := sb.Snapshot(r.Context(), time.Duration(keep))
	if err != nil {
		return err
	}
	return reply(w, snap)
}

func (s *server) snapshots(w http.ResponseWriter, _ *http.Request) error {
	list, err := s.Manager.Snapshots()
	if err != nil {
		return err
	}
	if list == nil {
		list = []sandbox.Snapshot{}
	}
	return reply(w, list)
}

func (s *server) removeSnapshot(w http.ResponseWriter, r *http.Request) error {
	if err := s.Manager.RemoveSnapshot(r.PathValue("id")); err != nil {
		return err
	}
	return reply(w, struct{}{})
}

func (s *server) fork(w http.ResponseWriter, r *http.Request) error {
	var req ForkRequest
	if err := decode(r, &req); err != nil {
		return err
	}
	spec, err := req.Terms.spec()
	if err != nil {
		return err
	}
	sb, err := s.find(r)
	if err != nil {
		return err
	}
	children, err := sb.Fork(r.Context(), req.N, spec)
	if err != nil {
		return err
	}
	out := make([]Child, len(children))
	for i, c := range children {
		if c.Err != nil {
			fault := guest.ToWire(c.Err)
			out[i].Error = &fault
			continue
		}
		s.follow(c.Sandbox)
		v := view(c.Sandbox)
		out[i].Sandbox = &v
	}
	if r.Context().Err() != nil { // nobody learned their IDs
		for _, c := range children {
			if c.Err == nil {
				if err := c.Sandbox.Destroy(); err != nil {
					s.Log.Error("end a child whose caller is gone", "sandbox", c.Sandbox.Info().ID, "err", err)
				}
			}
		}
	}
	return reply(w, out)
}
