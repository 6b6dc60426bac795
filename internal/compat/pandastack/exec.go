package pandastack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
	"assay/internal/sandboxes"
)

// The format's commands are root's: its clients write where only root may. Even
// root has no power outside the sandbox.
const (
	user = "root"
	home = "/root"
)

type execBody struct {
	Cmd     string  `json:"cmd"`
	Timeout float64 `json:"timeout_seconds"`
}

func (b execBody) request() (sandboxes.ExecRequest, error) {
	if b.Cmd == "" {
		return sandboxes.ExecRequest{}, fault.Errorf(fault.Invalid, "cmd required")
	}
	limit, err := span(b.Timeout, 0)
	return sandboxes.ExecRequest{
		Shell: b.Cmd, User: user, Dir: home, Env: []string{"HOME=" + home, "USER=" + user}, Limits: sandbox.Limits{Wall: limit, Output: sandboxes.MaxOutput},
		// What a command leaves in the background goes on there.
		Leave: true,
	}, err
}

// execResult has more than the format: why it ended, and what was cut.
type execResult struct {
	Stdout          string `json:"stdout"`
	Stderr          string `json:"stderr"`
	ExitCode        int    `json:"exit_code"`
	DurationMS      int64  `json:"duration_ms"`
	TimedOut        bool   `json:"timed_out"`
	Cause           string `json:"cause"`
	StdoutTruncated bool   `json:"stdout_truncated"`
	StderrTruncated bool   `json:"stderr_truncated"`
}

func resultOf(r sandboxes.ExecResult) execResult {
	e := r.Result.Exit
	return execResult{
		strings.ToValidUTF8(string(r.Stdout), "\uFFFD"), strings.ToValidUTF8(string(r.Stderr), "\uFFFD"), sandboxes.Code(e),
		r.Result.Usage.Wall.Milliseconds(), e.Cause == guest.WallLimit, string(e.Cause), e.StdoutDropped > 0, e.StderrDropped > 0,
	}
}

func (s *server) execOf(w http.ResponseWriter, r *http.Request) (sandboxes.Record, sandboxes.ExecRequest, error) {
	rec, err := s.find(r)
	if err != nil {
		return rec, sandboxes.ExecRequest{}, err
	}
	var b execBody
	if err := decode(w, r, &b); err != nil {
		return rec, sandboxes.ExecRequest{}, err
	}
	req, err := b.request()
	return rec, req, err
}

// exec runs a command. At its deadline the answer is its output so far and 124.
func (s *server) exec(w http.ResponseWriter, r *http.Request) error {
	rec, req, err := s.execOf(w, r)
	if err != nil {
		return err
	}
	req.Key = r.Header.Get("Idempotency-Key")
	w.Header().Set("Content-Type", "application/json")
	flush := func() { _ = http.NewResponseController(w).Flush() } // a writer that cannot flush holds nothing back
	res, begun, err := sandboxes.WaitAnswer(r.Context(), w, flush, func(ctx context.Context) (sandboxes.ExecResult, error) {
		return s.Service.Exec(ctx, rec.ID, req)
	})
	if err != nil && begun {
		// The status was sent: only a broken connection says that it failed.
		s.Log.ErrorContext(r.Context(), "exec failed after its answer had begun", "sandbox", rec.ID, "err", err)
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		return err
	}
	b, err := json.Marshal(resultOf(res))
	if err != nil {
		return err
	}
	_, _ = w.Write(append(b, '\n')) // a caller that went away is no failure
	return nil
}

// events writes server-sent events, and shows that the stream lives.
type events struct {
	w  http.ResponseWriter
	rc *http.ResponseController
	mu sync.Mutex
}

func newEvents(w http.ResponseWriter) *events {
	// Clients that are told no charset take another one.
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	e := &events{w: w, rc: http.NewResponseController(w)}
	_ = e.rc.Flush() // a writer that cannot flush holds nothing back
	return e
}

func (e *events) send(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return e.write("event: %s\ndata: %s\n\n", name, b)
}

func (e *events) write(format string, args ...any) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := fmt.Fprintf(e.w, format, args...); err != nil {
		return err
	}
	return e.rc.Flush()
}

// alive sends comments until the context ends.
func (e *events) alive(ctx context.Context) {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if e.write(":\n\n") != nil {
				return
			}
		}
	}
}

func (s *server) execStream(w http.ResponseWriter, r *http.Request) error {
	rec, req, err := s.execOf(w, r)
	if err != nil {
		return err
	}
	e := newEvents(w)
	ctx, cancel := context.WithCancel(r.Context())
	var beating sync.WaitGroup
	beating.Go(func() { e.alive(ctx) })
	defer beating.Wait()
	defer cancel()
	piece := func(name string) *sandboxes.Text {
		return sandboxes.NewText(func(b []byte) error {
			return e.send(name, map[string]string{"chunk": strings.ToValidUTF8(string(b), "\uFFFD")})
		})
	}
	out, errs := piece("stdout"), piece("stderr")
	req.Limits.Output = sandboxes.MaxStreamed
	res, err := s.Service.Stream(ctx, rec.ID, req, out, errs)
	if err != nil {
		_, b := s.describe(r, err)
		_ = e.send("error", b) // a caller that went away is no failure
		return nil
	}
	_, _ = out.Flush(), errs.Flush()
	final := resultOf(sandboxes.ExecResult{Result: res})
	_ = e.send("exit", map[string]any{"exit_code": final.ExitCode, "timed_out": final.TimedOut, "cause": final.Cause, "duration_ms": final.DurationMS})
	return nil
}

// logs are the sandbox's events as lines: there is no serial console.
func (s *server) logs(w http.ResponseWriter, r *http.Request) error {
	rec, err := s.find(r)
	if err != nil {
		return err
	}
	follow := r.URL.Query().Get("follow")
	if follow != "1" && follow != "true" {
		log, err := s.Service.Events(r.Context(), rec.ID)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		for _, e := range log {
			text.WriteString(lineOf(e) + "\n")
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write(text.Bytes()) // a caller that went away is no failure
		return nil
	}
	return s.follow(w, r, rec, func(e *events, ev sandbox.Event) error { return e.send("line", map[string]string{"line": lineOf(ev)}) })
}

func lineOf(e sandbox.Event) string {
	detail, _ := json.Marshal(e.Detail) // it was read from JSON
	return fmt.Sprintf("%s %s %s", e.Time.UTC().Format(time.RFC3339), e.Kind, detail)
}

func (s *server) events(w http.ResponseWriter, r *http.Request) error {
	rec, err := s.find(r)
	if err != nil {
		return err
	}
	if follow := r.URL.Query().Get("follow"); follow == "1" || follow == "true" {
		return s.follow(w, r, rec, func(e *events, ev sandbox.Event) error { return e.send("event", ev) })
	}
	log, err := s.Service.Events(r.Context(), rec.ID)
	if err != nil {
		return err
	}
	s.reply(w, http.StatusOK, map[string]any{"events": log})
	return nil
}

// follow sends the sandbox's events until it has ended.
func (s *server) follow(w http.ResponseWriter, r *http.Request, rec sandboxes.Record, send func(*events, sandbox.Event) error) error {
	ended, err := s.Service.Ended(r.Context(), rec.ID)
	if err != nil {
		return err
	}
	e := newEvents(w)
	if err := e.send("open", map[string]string{"path": "events"}); err != nil {
		return nil //nolint:nilerr // the caller is gone: nobody to tell
	}
	look := time.NewTicker(time.Second)
	defer look.Stop()
	seen, last := 0, false
	for {
		log, err := s.Service.Events(r.Context(), rec.ID)
		if err != nil {
			return nil //nolint:nilerr // the answer has begun; the stream's end says it
		}
		for _, ev := range log[min(seen, len(log)):] {
			if send(e, ev) != nil {
				return nil
			}
		}
		seen = len(log)
		if last {
			return nil
		}
		select {
		case <-look.C:
			if e.write(":\n\n") != nil {
				return nil
			}
		case <-ended:
			last = true
		case <-r.Context().Done():
			return nil
		}
	}
}
