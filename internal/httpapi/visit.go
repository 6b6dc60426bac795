package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"assay/internal/account"
)

// visit is what a request brings besides its content.
type visit struct {
	from account.Caller
	// cookie is what the session's cookie is called here, secret what it holds.
	cookie, secret string
	secure         bool
}

type visitKey struct{}

func visitOf(ctx context.Context) visit {
	v, _ := ctx.Value(visitKey{}).(visit)
	return v
}

// visited puts the visit into the context, for handlers that are given no
// request.
func (s *server) visited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := visit{from: account.Caller{Address: s.from(r), Agent: r.UserAgent()}, cookie: s.CookieName(r), secure: s.secure(r)}
		if c, err := r.Cookie(v.cookie); err == nil {
			v.secret = c.Value
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
	})
}

// sessionCookie holds a session's secret; the browser forgets it when the
// session ends in any case.
func (v visit) sessionCookie(secret string, expires time.Time) *http.Cookie {
	return &http.Cookie{
		Name: v.cookie, Value: secret, Path: "/", Expires: expires, HttpOnly: true, Secure: v.secure, SameSite: http.SameSiteLaxMode,
	}
}

// noCookie makes the browser forget the session.
func (v visit) noCookie() *http.Cookie {
	c := v.sessionCookie("", time.Unix(1, 0))
	c.MaxAge = -1
	return c
}

// audited writes down each request that changes something, when it has been
// answered: this is the only place where that is done, so no handler can forget
// it. Services say what it was about (account.NoteOf); otherwise the path does.
func (s *server) audited(next http.Handler) http.Handler {
	if s.People == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := w.(*answer)
		if !ok {
			a = &answer{ResponseWriter: w}
		}
		ctx, note := account.WithNote(r.Context())
		r = r.WithContext(ctx)
		ended := false
		defer func() {
			status := a.status
			switch {
			case status == 0 && ended:
				status = http.StatusOK // nothing was written, which is an answer, too
			case status == 0:
				status = http.StatusInternalServerError // the panic is answered further up
			}
			s.writeDown(r, note, status)
		}()
		next.ServeHTTP(a, r)
		ended = true
	})
}

func (s *server) writeDown(r *http.Request, note *account.Note, status int) {
	ctx := r.Context()
	actor := account.ActorOf(ctx)
	e := note.Entry(actor)
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
	// What nobody asked for and nothing came of is in the server's log only.
	if !note.Set() && (reads || !actor.Known() && e.Who == "") {
		return
	}
	e.Action, e.Outcome, e.From, e.Request = action(r), status, visitOf(ctx).from.Address, RequestID(ctx)
	if e.Thing == "" {
		e.Thing, e.Target = subject(r)
	}
	if err := s.People.Audit(ctx, e); err != nil {
		// The log keeps what the store could not.
		s.Log.ErrorContext(ctx, "write the audit log", "error", err, "entry", e)
	}
}

// action is the method and the route, which has no secret in it as a path might.
func action(r *http.Request) string {
	if r.Pattern == "" {
		return r.Method
	}
	if strings.Contains(r.Pattern, " ") {
		return r.Pattern
	}
	return r.Method + " " + r.Pattern
}

// subject is what a route is about: "/api/v1/sandboxes/{sandbox}/exec".
func subject(r *http.Request) (account.Kind, string) {
	_, path, _ := strings.Cut(action(r), " ")
	kind := ""
	for _, segment := range strings.Split(path, "/") {
		if known := things[segment]; known != "" && kind == "" {
			kind = known
		}
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			name = strings.TrimSuffix(strings.TrimSuffix(name, "}"), "...")
			return account.Kind(kind), r.PathValue(name)
		}
	}
	return account.Kind(kind), ""
}
