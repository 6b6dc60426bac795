// Package pandastack is a front with the wire format of PandaStack, so that its
// published clients (Python and JavaScript) work unchanged on Assay's
// sandboxes. Start with Handler. docs/pandastack.md says what works and where
// it is different on purpose.
//
// It is a door: it decides nothing, and must not know stores or drivers.
package pandastack

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/httpapi"
	"assay/internal/sandboxes"
)

// Options are what the front needs.
type Options struct {
	Service *sandboxes.Service
	// Authenticate says who an API key belongs to: fault.Unauthenticated for one
	// that is wrong. It is asked where no door before has found out who asks.
	Authenticate func(ctx context.Context, key string) (account.Actor, error)
	// Templates gives the names that this front's clients use by default another
	// meaning: "code-interpreter" is "base".
	Templates map[string]string
	Log       *slog.Logger
}

// DefaultTemplates are the names that the published clients ask for when they
// are told none.
func DefaultTemplates() map[string]string {
	return map[string]string{"code-interpreter": "base", "ubuntu-24.04": "base"}
}

// The format's own bounds.
const (
	maxJSON  = 4 << 20
	maxFile  = 32 << 20 // of one write
	maxForks = 16
	// defaultTTL is what the format's documentation promises.
	defaultTTL = time.Hour
)

type server struct{ Options }

// Handler gives the front. Its paths begin with /v1/.
func Handler(o Options) http.Handler {
	s := &server{o}
	mux := http.NewServeMux()
	const box = "/v1/sandboxes/{id}"
	for pattern, h := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /v1/me":      s.me,
		"GET /v1/version": s.version,

		"POST /v1/sandboxes":             s.create,
		"GET /v1/sandboxes":              s.list,
		"GET " + box:                     s.get,
		"DELETE " + box:                  s.kill,
		"POST " + box + "/exec":          s.exec,
		"POST " + box + "/exec/stream":   s.execStream,
		"GET " + box + "/exec/ws":        s.execSocket,
		"GET " + box + "/exec/pty":       s.pty,
		"GET " + box + "/fs":             s.readFile,
		"PUT " + box + "/fs":             s.writeFile,
		"DELETE " + box + "/fs":          s.removeFile,
		"GET " + box + "/fs/dir":         s.listFiles,
		"GET " + box + "/fs/stat":        s.stat,
		"POST " + box + "/snapshots":     s.snapshot,
		"POST " + box + "/fork":          s.fork,
		"POST " + box + "/fork-tree":     s.forkTree,
		"POST " + box + "/promote":       s.promote,
		"POST " + box + "/pause":         s.pause,
		"POST " + box + "/resume":        s.resume,
		"GET " + box + "/lifecycle":      s.lifecycle,
		"PATCH " + box + "/lifecycle":    s.changeLifecycle,
		"GET " + box + "/logs":           s.logs,
		"GET " + box + "/metrics":        s.metrics,
		"GET " + box + "/events":         s.events,
		"GET " + box + "/ports":          s.ports,
		box + "/proxy/{port}/{path...}":  s.proxy,
		"GET /v1/snapshots":              s.snapshots,
		"GET /v1/snapshots/{id}":         s.getSnapshot,
		"DELETE /v1/snapshots/{id}":      s.removeSnapshot,
		"POST /v1/snapshots/{id}/fork":   s.forkSnapshot,
		"GET /v1/templates":              s.templates,
		"GET /v1/templates/{name}":       s.template,
		"POST /v1/templates/build":       missing("building templates", `templates are built on the server: "assay template build"`),
		"/v1/templates/builds/{rest...}": missing("building templates", `templates are built on the server: "assay template build"`),
		"DELETE /v1/templates/{name}":    missing("removing templates", `templates are removed on the server: "assay template rm"`),
		box + "/repl/{rest...}":          missing("a REPL kernel", "run the code with exec, or keep a program's state in a terminal"),
		"POST " + box + "/hibernate":     missing("hibernation", "pause the sandbox, or take a snapshot and make a new one of it"),
		"POST " + box + "/stop":          missing("hibernation", "pause the sandbox, or take a snapshot and make a new one of it"),
		"POST " + box + "/wake":          missing("hibernation", "resume the sandbox, or make a new one of its snapshot"),
		"POST " + box + "/start":         missing("hibernation", "resume the sandbox, or make a new one of its snapshot"),
		"POST " + box + "/ports":         missing("naming ports", "any port can be reached with /proxy/{port}/"),
		"DELETE " + box + "/ports/{p}":   missing("naming ports", "any port can be reached with /proxy/{port}/"),
		"POST " + box + "/preview-token": missing("previews without a key", "use /proxy/{port}/ with your key"),
		box + "/mcp":                     missing("MCP", "use exec and files"),
		box + "/lsp/{lang}":              missing("language servers", "run one with exec and reach it with /proxy/{port}/"),
		box + "/ssh":                     missing("SSH", "use exec/pty"),
		"/v1/volumes":                    missing("volumes", "write files, or make sandboxes of a snapshot that has them"),
		"/v1/volumes/{rest...}":          missing("volumes", "write files, or make sandboxes of a snapshot that has them"),
		"/v1/me/tokens":                  missing("keys on this front", "make them with /api/v1/tokens or on the server's page"),
		"/v1/me/tokens/{rest...}":        missing("keys on this front", "make them with /api/v1/tokens or on the server's page"),
		"/v1/audit":                      missing("the audit log on this front", "it is at /api/v1/audit"),
		"/v1/functions/{rest...}":        missing("functions", "run code with exec"),
		"/v1/schedules/{rest...}":        missing("schedules", "let the host's scheduler call the API"),
		"/v1/databases/{rest...}":        missing("databases", "run one in a sandbox"),
		"/v1/apps/{rest...}":             missing("apps", "run a server in a sandbox"),
		"/v1/":                           nothing,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r, err := s.identify(r)
			if err == nil {
				err = h(w, r)
			}
			if err != nil {
				s.fail(w, r, err)
			}
		})
	}
	return mux
}

// missing answers for what Assay does not have.
func missing(what, instead string) func(http.ResponseWriter, *http.Request) error {
	return func(http.ResponseWriter, *http.Request) error {
		return fault.Errorf(fault.Unsupported, "this server does not have %s", what).WithHint("%s", instead)
	}
}

func nothing(_ http.ResponseWriter, r *http.Request) error {
	return fault.Errorf(fault.NotFound, "there is no %s %.200s", r.Method, r.URL.Path).WithHint("docs/pandastack.md lists what there is")
}

// identify finds out who asks: by what a door before has found, else by the
// key, which WebSockets bring in the query or as a subprotocol. A browser's
// session is not enough: pages of others could use it.
func (s *server) identify(r *http.Request) (*http.Request, error) {
	if a := account.ActorOf(r.Context()); a.System || a.Token != "" {
		return r, nil
	}
	key := ""
	if scheme, secret, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		key = strings.TrimSpace(secret)
	}
	if key == "" {
		key = r.URL.Query().Get("access_token")
	}
	for _, p := range strings.Split(r.Header.Get("Sec-WebSocket-Protocol"), ",") {
		if secret, ok := strings.CutPrefix(strings.TrimSpace(p), "bearer."); ok && key == "" {
			key = secret
		}
	}
	if key == "" {
		return r, fault.Errorf(fault.Unauthenticated, "no API key came with the request").WithHint("set PANDASTACK_API_KEY to a token of this server with the scope \"sandboxes\"")
	}
	a, err := s.Authenticate(r.Context(), key)
	if err != nil {
		return r, err
	}
	return httpapi.Identified(r, a), nil
}

// statuses is the one table from a fault's kind to the status. The clients know
// the class of an error by it.
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

// tame takes out of an error's text what the clients take for a machine that is
// just starting (they repeat the call) or for a command's time-out.
var tame = strings.NewReplacer(
	"connect: connection refused", "nobody listens", "connection refused", "nobody listens", "no route to host", "not reachable",
	"i/o timeout", "took too long", "deadline exceeded", "took too long", "timeout", "time limit", "Timeout", "Time limit",
)

type errorBody struct {
	Error     string `json:"error"`
	Code      string `json:"code"`
	Hint      string `json:"hint,omitempty"`
	RequestID string `json:"request_id"`
}

func (s *server) describe(r *http.Request, err error) (int, errorBody) {
	kind := fault.KindOf(err)
	thing := "sandbox"
	if rest := strings.TrimPrefix(r.URL.Path, "/v1/"); !strings.HasPrefix(rest, "sandboxes") {
		thing, _, _ = strings.Cut(rest, "/")
		thing = strings.TrimSuffix(thing, "s")
	}
	b := errorBody{Error: err.Error(), Code: thing + "." + kind.String(), Hint: fault.HintOf(err), RequestID: httpapi.RequestID(r.Context())}
	status := statuses[kind]
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		status, b.Error, b.Code = http.StatusRequestEntityTooLarge, "the body is too large", thing+".too_large"
	case errors.Is(err, sandboxes.ErrKeyReused):
		status = http.StatusUnprocessableEntity
	case kind == fault.Internal:
		s.Log.ErrorContext(r.Context(), "request failed", "path", r.URL.Path, "err", err)
		b.Error, b.Hint = "internal error", "the server's log has the details"
	}
	b.Error, b.Hint = tame.Replace(b.Error), tame.Replace(b.Hint)
	return status, b
}

func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		return // nobody is there
	}
	status, b := s.describe(r, err)
	if status == http.StatusServiceUnavailable {
		// The clients repeat the making of sandboxes then.
		w.Header().Set("Retry-After", "5")
	}
	s.reply(w, status, b)
}

func (s *server) reply(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		s.Log.Error("write an answer", "err", err)
		status, b = http.StatusInternalServerError, []byte(`{"error":"internal error","code":"request.internal"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // a caller that went away is no failure
}

// decode reads a body of JSON; an empty one is an empty object.
func decode(w http.ResponseWriter, r *http.Request, v any) error {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJSON))
	if err != nil {
		return fault.Errorf(fault.Invalid, "read the body: %w", err)
	}
	if len(strings.TrimSpace(string(b))) == 0 {
		return nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fault.Errorf(fault.Invalid, "the body is not the JSON that is wanted: %w", err)
	}
	return nil
}

func (s *server) me(w http.ResponseWriter, r *http.Request) error {
	a := account.ActorOf(r.Context())
	s.reply(w, http.StatusOK, map[string]any{"id": a.User, "name": a.Name, "role": a.Role, "workspace": a.User})
	return nil
}

func (s *server) version(w http.ResponseWriter, _ *http.Request) error {
	s.reply(w, http.StatusOK, map[string]string{"server": "assay", "api": "v1"})
	return nil
}
