package httpapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"unicode/utf8"

	"assay/api"
	"assay/internal/fault"
	"assay/internal/sandbox"
	"assay/internal/sandboxes"
)

func execRequest(b *api.Exec, key string) (sandboxes.ExecRequest, error) {
	req := sandboxes.ExecRequest{
		Shell: b.Command, Argv: b.Argv, Dir: b.Cwd, User: string(b.User), Isolated: b.Isolated, Leave: b.Background, StopAtOutput: b.StopAtOutput, Key: key,
		Stdin: []byte(b.Stdin),
		Limits: sandbox.Limits{
			CPU: seconds(b.Limits.CPUSeconds), Wall: seconds(b.TimeoutSeconds), Memory: b.Limits.MemoryBytes, Processes: b.Limits.Processes,
			Output: b.Limits.OutputBytes, FileSize: b.Limits.FileSizeBytes, Disk: b.Limits.DiskBytes, Stack: b.Limits.StackBytes, OpenFiles: b.Limits.OpenFiles,
		},
	}
	if len(b.StdinBase64) > 0 {
		if b.Stdin != "" {
			return req, fault.Errorf(fault.Invalid, "input is given as stdin or as stdin_base64, not both")
		}
		req.Stdin = b.StdinBase64
	}
	var err error
	req.Env, err = environment(b.Env)
	return req, err
}

// environment makes "NAME=value" of a map.
func environment(m map[string]string) ([]string, error) {
	var env []string
	for name, value := range m {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return nil, fault.Errorf(fault.Invalid, "env: %.60q is no name of a variable, or its value has a zero byte", name)
		}
		env = append(env, name+"="+value)
	}
	return env, nil
}

func execView(r sandboxes.ExecResult) api.ExecResult {
	e, u := r.Result.Exit, r.Result.Usage
	v := api.ExecResult{
		Stdout: text(r.Stdout), Stderr: text(r.Stderr), ExitCode: sandboxes.Code(e), Signal: e.Signal, Cause: string(e.Cause),
		TimedOut: e.Cause == "wall_limit", DurationUs: u.Wall.Microseconds(),
		StdoutTruncated: e.StdoutDropped > 0, StderrTruncated: e.StderrDropped > 0,
		StdoutDroppedBytes: e.StdoutDropped, StderrDroppedBytes: e.StderrDropped,
		Usage: api.ExecUsage{
			CPUUserUs: u.CPUUser.Microseconds(), CPUSystemUs: u.CPUSystem.Microseconds(), CPUUs: u.Counted.Microseconds(), WallUs: u.Wall.Microseconds(),
			MemoryPeakBytes: u.MemoryPeak, ProcessesPeak: u.ProcessesPeak, DiskBytes: u.DiskBytes,
		},
	}
	if !utf8.Valid(r.Stdout) {
		v.StdoutBase64 = r.Stdout
	}
	if !utf8.Valid(r.Stderr) {
		v.StderrBase64 = r.Stderr
	}
	return v
}

func text(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// ExecSandbox leaves the work to the writing of the answer, which keeps the
// caller listening meanwhile.
func (h sandboxHandlers) ExecSandbox(ctx context.Context, r api.ExecSandboxRequestObject) (api.ExecSandboxResponseObject, error) {
	req, err := execRequest(r.Body, r.Params.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	return execAnswer{h.log, func(w http.ResponseWriter) error {
		w.Header().Set("Content-Type", "application/json")
		flush := func() { _ = http.NewResponseController(w).Flush() } // a writer that cannot flush holds nothing back
		res, begun, err := sandboxes.WaitAnswer(ctx, w, flush, func(ctx context.Context) (sandboxes.ExecResult, error) {
			return h.service.Exec(ctx, r.ID, req)
		})
		if err != nil && begun {
			h.log.ErrorContext(ctx, "exec failed after its answer had begun", "sandbox", r.ID, "err", err)
			panic(http.ErrAbortHandler)
		}
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := json.NewEncoder(&b).Encode(execView(res)); err != nil {
			return err
		}
		_, _ = w.Write(b.Bytes()) // a caller that went away is no failure
		return nil
	}}, nil
}

type execAnswer struct {
	log   *slog.Logger
	write func(http.ResponseWriter) error
}

func (a execAnswer) VisitExecSandboxResponse(w http.ResponseWriter) error { return a.write(w) }

// chunk is a piece of output in an event.
func chunk(b []byte) any {
	if utf8.Valid(b) {
		return map[string]string{"chunk": string(b)}
	}
	return map[string]string{"base64": base64.StdEncoding.EncodeToString(b)}
}

func (h sandboxHandlers) StreamSandboxExec(ctx context.Context, r api.StreamSandboxExecRequestObject) (api.StreamSandboxExecResponseObject, error) {
	req, err := execRequest(r.Body, "")
	if err != nil {
		return nil, err
	}
	// What can be said by a status is.
	if _, err := h.service.Ended(ctx, r.ID); err != nil {
		return nil, err
	}
	body := stream(ctx, func(ctx context.Context, send func(Event) error) error {
		out := sandboxes.NewText(func(b []byte) error { return send(Event{"stdout", chunk(b)}) })
		errs := sandboxes.NewText(func(b []byte) error { return send(Event{"stderr", chunk(b)}) })
		res, err := h.service.Stream(ctx, r.ID, req, out, errs)
		if err == nil {
			if err = out.Flush(); err == nil {
				err = errs.Flush()
			}
		}
		if err != nil {
			return send(h.errorEvent(ctx, err))
		}
		return send(Event{"exit", execView(sandboxes.ExecResult{Result: res})})
	})
	return sentEvents{body}, nil
}

// sentEvents is a stream of events as an answer. Its end is said in an event, so
// nothing is left to answer when the caller goes away.
type sentEvents struct{ body io.ReadCloser }

func (a sentEvents) write(w http.ResponseWriter) error {
	defer a.body.Close()
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	rc, buf := http.NewResponseController(w), make([]byte, 32<<10)
	for {
		n, err := a.body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return nil //nolint:nilerr // the caller is gone: nobody to tell
			}
			_ = rc.Flush() // the next write says if nobody is there
		}
		if err != nil {
			return nil //nolint:nilerr // the last event said it
		}
	}
}

func (a sentEvents) VisitStreamSandboxExecResponse(w http.ResponseWriter) error { return a.write(w) }

func (a sentEvents) VisitWatchSandboxResponse(w http.ResponseWriter) error { return a.write(w) }

// errorEvent is an error where the status was sent before.
func (h sandboxHandlers) errorEvent(ctx context.Context, err error) Event {
	e := api.Error{Error: err.Error(), Code: "sandbox." + fault.KindOf(err).String(), Hint: fault.HintOf(err), RequestID: RequestID(ctx)}
	if fault.Is(err, fault.Internal) && ctx.Err() == nil {
		h.log.ErrorContext(ctx, "stream failed", "err", err)
		e.Error, e.Hint = "internal error", "try again; the server's log has the details under the request's ID"
	}
	return Event{"error", e}
}
