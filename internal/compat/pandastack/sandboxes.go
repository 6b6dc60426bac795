package pandastack

import (
	"context"
	"math"
	"net/http"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/sandbox"
	"assay/internal/sandboxes"
)

// view is a sandbox in the wire format. What says where a machine is on the
// host (guest_ip, host_tap, mac, vsock_cid) does not exist here.
type view struct {
	ID           string            `json:"id"`
	Template     string            `json:"template"`
	CPU          int               `json:"cpu"`
	MemoryMB     int64             `json:"memory_mb"`
	Status       string            `json:"status"`
	Metadata     map[string]string `json:"metadata"`
	FromSnapshot string            `json:"from_snapshot,omitempty"`
	BootMS       int64             `json:"boot_ms"`
	BootMode     string            `json:"boot_mode"`
	CreatedAt    string            `json:"created_at"`
	Persistent   bool              `json:"persistent"`
	// ExpiresAt is more than the format has: the hard end.
	ExpiresAt string `json:"expires_at"`
}

func viewOf(r sandboxes.Record) view {
	v := view{
		ID: r.ID, Template: r.Template, CPU: r.Shape.VCPUs, MemoryMB: r.Shape.Memory >> 20, Status: "running", Metadata: r.Labels,
		FromSnapshot: r.Snapshot, BootMS: r.Boot.Milliseconds(), BootMode: string(r.BootMode), CreatedAt: r.Created.UTC().Format(time.RFC3339Nano),
		Persistent: r.Idle == 0, ExpiresAt: r.Deadline.UTC().Format(time.RFC3339Nano),
	}
	if v.Metadata == nil {
		v.Metadata = map[string]string{}
	}
	if r.BootMode == sandbox.BootPool { // restored before, and never used
		v.BootMode = "snapshot"
	}
	switch {
	case !r.Live():
		v.Status = "deleted"
	case r.Paused:
		v.Status = "paused"
	}
	return v
}

// find gives a live sandbox: in this format those that have ended are not
// there.
func (s *server) find(r *http.Request) (sandboxes.Record, error) {
	rec, err := s.Service.Get(r.Context(), r.PathValue("id"))
	if err == nil && !rec.Live() {
		err = fault.Errorf(fault.NotFound, "sandbox %s has ended: %s", rec.ID, rec.End.Why)
	}
	return rec, err
}

// span makes a time of seconds; 0 is the other one.
func span(seconds float64, otherwise time.Duration) (time.Duration, error) {
	switch {
	case seconds == 0:
		return otherwise, nil
	case seconds < 0 || math.IsNaN(seconds) || seconds > 366*24*3600:
		return 0, fault.Errorf(fault.Invalid, "%v are no seconds to live", seconds)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// terms are those of a sandbox with a ttl: in this format it begins anew with
// every call, so it is the idle limit. The hard end is the server's.
func (s *server) terms(ttl float64, persistent bool, metadata map[string]string) (sandboxes.Terms, error) {
	idle, err := span(ttl, defaultTTL)
	if persistent {
		idle = 0
	}
	return sandboxes.Terms{TTL: s.Service.MaxTTL(), Idle: idle, Labels: metadata}, err
}

func (s *server) create(w http.ResponseWriter, r *http.Request) error {
	var req struct {
		Template   string            `json:"template"`
		TTL        float64           `json:"ttl_seconds"`
		Metadata   map[string]string `json:"metadata"`
		Persistent bool              `json:"persistent"`
		Snapshot   string            `json:"from_snapshot"`
		Volumes    []any             `json:"volumes"`
		DiskGB     float64           `json:"disk_gb"`
	}
	if err := decode(w, r, &req); err != nil {
		return err
	}
	if len(req.Volumes) > 0 {
		return fault.Errorf(fault.Invalid, "this server does not have volumes").WithHint("write files, or make the sandbox of a snapshot that has them")
	}
	terms, err := s.terms(req.TTL, req.Persistent, req.Metadata)
	if err != nil {
		return err
	}
	c := sandboxes.CreateRequest{Snapshot: req.Snapshot, Terms: terms, Key: r.Header.Get("Idempotency-Key")}
	if req.Snapshot == "" {
		c.Template = req.Template
		if other := s.Templates[req.Template]; other != "" {
			c.Template = other
		}
	}
	made, err := s.Service.Create(r.Context(), c)
	if err != nil {
		return err
	}
	s.reply(w, http.StatusCreated, viewOf(made))
	return nil
}

// list gives all live sandboxes of the caller: the format has no pages.
func (s *server) list(w http.ResponseWriter, r *http.Request) error {
	rows, err := s.all(r.Context(), nil)
	if err != nil {
		return err
	}
	list := []view{}
	for _, row := range rows {
		list = append(list, viewOf(row))
	}
	s.reply(w, http.StatusOK, list)
	return nil
}

// all pages through the caller's own live sandboxes.
func (s *server) all(ctx context.Context, labels map[string]string) (all []sandboxes.Record, err error) {
	me := account.ActorOf(ctx).User
	for q := (sandboxes.Query{Owner: &me, Live: true, Labels: labels, Limit: sandboxes.MaxPage}); ; {
		rows, err := s.Service.Sandboxes(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
		if len(rows) < q.Limit {
			return all, nil
		}
		last := rows[len(rows)-1]
		q.Before, q.BeforeID = last.Created, last.ID
	}
}

func (s *server) get(w http.ResponseWriter, r *http.Request) error {
	rec, err := s.find(r)
	if err != nil {
		return err
	}
	s.reply(w, http.StatusOK, viewOf(rec))
	return nil
}

func (s *server) kill(w http.ResponseWriter, r *http.Request) error {
	if err := s.Service.Kill(r.Context(), r.PathValue("id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *server) pause(w http.ResponseWriter, r *http.Request) error {
	return s.verb(w, r, s.Service.Pause)
}

func (s *server) resume(w http.ResponseWriter, r *http.Request) error {
	return s.verb(w, r, s.Service.Resume)
}

func (s *server) verb(w http.ResponseWriter, r *http.Request, f func(context.Context, string) (sandboxes.Record, error)) error {
	rec, err := s.find(r)
	if err == nil {
		_, err = f(r.Context(), rec.ID)
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

type lifecycle struct {
	TTL        float64 `json:"ttl_seconds"`
	Persistent bool    `json:"persistent"`
	// Idle is for how long nobody has called: asking counts as a call.
	Idle      float64 `json:"idle_seconds"`
	ExpiresAt string  `json:"expires_at"`
}

func (s *server) lifecycle(w http.ResponseWriter, r *http.Request) error {
	rec, err := s.find(r)
	if err == nil {
		err = s.Service.Touch(r.Context(), rec.ID)
	}
	if err != nil {
		return err
	}
	s.replyLifecycle(w, rec)
	return nil
}

func (s *server) replyLifecycle(w http.ResponseWriter, rec sandboxes.Record) {
	s.reply(w, http.StatusOK, lifecycle{TTL: rec.Idle.Seconds(), Persistent: rec.Idle == 0, ExpiresAt: rec.Deadline.UTC().Format(time.RFC3339Nano)})
}

func (s *server) changeLifecycle(w http.ResponseWriter, r *http.Request) error {
	var req struct {
		TTL        *float64 `json:"ttl_seconds"`
		Persistent *bool    `json:"persistent"`
	}
	if err := decode(w, r, &req); err != nil {
		return err
	}
	rec, err := s.find(r)
	if err != nil {
		return err
	}
	idle := rec.Idle
	if req.TTL != nil {
		if *req.TTL <= 0 {
			return fault.Errorf(fault.Invalid, "ttl_seconds must be more than 0")
		}
		if idle, err = span(*req.TTL, 0); err != nil {
			return err
		}
	}
	if req.Persistent != nil {
		switch {
		case *req.Persistent:
			idle = 0
		case idle == 0:
			idle = defaultTTL
		}
	}
	if rec, err = s.Service.SetIdle(r.Context(), rec.ID, idle); err != nil {
		return err
	}
	s.replyLifecycle(w, rec)
	return nil
}

func (s *server) metrics(w http.ResponseWriter, r *http.Request) error {
	rec, err := s.find(r)
	if err != nil {
		return err
	}
	before, err := s.Service.Measured(r.Context(), rec.ID)
	if err != nil {
		return err
	}
	const sample = 200 * time.Millisecond
	select {
	case <-time.After(sample):
	case <-r.Context().Done():
		return context.Cause(r.Context())
	}
	now, err := s.Service.Measured(r.Context(), rec.ID)
	if err != nil {
		return err
	}
	s.reply(w, http.StatusOK, map[string]any{
		"uptime_seconds":   time.Since(rec.Created).Seconds(),
		"host_cpu_percent": (now.CPU - before.CPU).Seconds() / sample.Seconds() * 100,
		"host_rss_bytes":   now.Memory, "host_rss_peak_bytes": now.MemoryPeak, "cpu_seconds": now.CPU.Seconds(),
	})
	return nil
}
