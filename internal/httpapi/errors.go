package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/api"
	"assay/internal/fault"
	"assay/internal/sandboxes"
)

// statuses is the one table from a fault's kind to the status.
var statuses = map[fault.Kind]int{
	fault.Invalid:         http.StatusBadRequest,
	fault.Unauthenticated: http.StatusUnauthorized,
	fault.Denied:          http.StatusForbidden,
	fault.NotFound:        http.StatusNotFound,
	fault.Conflict:        http.StatusConflict,
	fault.Limited:         http.StatusTooManyRequests,
	fault.Internal:        http.StatusInternalServerError,
	fault.Unsupported:     http.StatusNotImplemented,
	fault.Exhausted:       http.StatusServiceUnavailable,
	fault.Unavailable:     http.StatusServiceUnavailable,
}

// retryAfter is what a busy or broken server tells clients to wait when it does
// not know better.
const retryAfter = 5 * time.Second

// things names what a path is about, for codes: the segment after the version.
var things = map[string]string{
	"audit": "audit", "courses": "course", "device": "device", "languages": "language", "links": "link", "me": "account", "nodes": "node",
	"problems": "problem", "quota": "quota", "rejudges": "rejudge", "regrades": "regrade", "runs": "run", "sandboxes": "sandbox", "server": "server", "session": "session",
	"snapshots": "snapshot", "submissions": "submission", "templates": "template", "tokens": "token", "usage": "usage", "users": "user",
}

// codeOf is the error's code: "problem.not_found".
func codeOf(path string, kind fault.Kind) string {
	thing := "request"
	if rest, ok := strings.CutPrefix(path, "/api/v1/"); ok {
		segment, _, _ := strings.Cut(rest, "/")
		if known := things[segment]; known != "" {
			thing = known
		}
	}
	return thing + "." + kind.String()
}

// Fail answers with an error as JSON. What has no kind is our own failure: it is
// logged in full, and the caller gets the request's ID. Doors beside this one
// with the same form of errors use it, too.
func Fail(log *slog.Logger, w http.ResponseWriter, r *http.Request, err error) {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		write(w, r, http.StatusRequestEntityTooLarge, api.Error{
			Error: "the request's body is larger than " + strconv.FormatInt(tooLarge.Limit, 10) + " bytes", Code: "request.too_large",
			Hint: "send less at once",
		})
		return
	case r.Context().Err() != nil && errors.Is(err, context.Canceled):
		// Nobody is there to read an answer; the status is for the log.
		w.WriteHeader(499)
		return
	}
	kind := fault.KindOf(err)
	answer := api.Error{Error: err.Error(), Code: codeOf(r.URL.Path, kind), Hint: fault.HintOf(err)}
	status := statuses[kind]
	if errors.Is(err, sandboxes.ErrKeyReused) {
		status, answer.Code = http.StatusUnprocessableEntity, "request.key_reused"
	}
	if status >= 500 {
		log.ErrorContext(r.Context(), "request failed", "error", err, "kind", kind.String(), "method", r.Method, "path", r.URL.Path)
	}
	if kind == fault.Internal {
		answer.Error, answer.Hint = "internal error", "try again; the server's log has the details under the request's ID"
	}
	if status == http.StatusServiceUnavailable && foreign(err) {
		// What a database, a disk or a network says has addresses and paths in it.
		answer.Error = "the server cannot do this now: something that it needs is gone or full"
	}
	if wait := waitOf(err, status); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(wait))
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="assay"`)
	}
	write(w, r, status, answer)
}

// foreign reports whether something that is no fault is at the bottom of an
// error: its text was not written for users.
func foreign(err error) bool {
	switch e := err.(type) { //nolint:errorlint // each layer is looked at by itself
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), foreign)
	case interface{ Unwrap() error }:
		if below := e.Unwrap(); below != nil {
			return foreign(below)
		}
	}
	_, ours := err.(*fault.Error) //nolint:errorlint // the bottom itself
	return !ours
}

// waitOf is how long to wait before trying again, in seconds; 0 is not said.
func waitOf(err error, status int) int {
	wait := fault.AfterOf(err)
	if wait == 0 && status == http.StatusServiceUnavailable {
		wait = retryAfter
	}
	return int(math.Ceil(wait.Seconds()))
}

func write(w http.ResponseWriter, r *http.Request, status int, e api.Error) {
	e.RequestID = RequestID(r.Context())
	data, err := json.Marshal(e)
	if err != nil {
		data = []byte(`{"error":"internal error","code":"request.internal","request_id":""}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// A caller that went away is no failure.
	_, _ = w.Write(append(data, '\n'))
}
