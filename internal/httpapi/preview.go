package httpapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/sandboxes"
)

// PreviewOptions say where ports of sandboxes are shown to browsers.
type PreviewOptions struct {
	// URL is what the origins of previews are made of: port and sandbox become a
	// label in front of its host. It must not be an origin of anything else.
	URL *url.URL
}

// previewParam is how a link brings its proof, and how the cookie is called that
// keeps it. The prefix makes browsers refuse a cookie of that name that another
// host or a plain connection has set.
const (
	previewParam  = "assay-preview"
	previewPlain  = previewParam
	previewSecure = "__Host-" + previewParam
)

// Bounds of a preview.
const (
	// previewQuiet ends a connection on which nothing went either way.
	previewQuiet = 15 * time.Minute
	// previewStuck ends one whose reader takes nothing.
	previewStuck = 2 * time.Minute
	// previewWait is how long a server in a sandbox may think about an answer.
	previewWait = 10 * time.Minute
	// maxPreviewHeader is in bytes.
	maxPreviewHeader = 128 << 10
)

// place is a port of a sandbox.
type place struct {
	sandbox string
	port    int
}

// label is the first part of its host's name.
func (p place) label() string { return strconv.Itoa(p.port) + "-" + p.sandbox }

var previewLabel = regexp.MustCompile(`^([1-9][0-9]{0,4})-([a-z0-9]{1,40})$`)

// place gives what a host's name means. The port of the address does not count:
// processes that share their sandboxes may listen on different ones.
func (o *PreviewOptions) place(host string) (place, bool) {
	if o == nil {
		return place{}, false
	}
	if name, port, err := net.SplitHostPort(host); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return place{}, false
		}
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	label, ok := strings.CutSuffix(host, "."+strings.ToLower(o.URL.Hostname()))
	m := previewLabel.FindStringSubmatch(label)
	if !ok || m == nil {
		return place{}, false
	}
	port, err := strconv.Atoi(m[1])
	return place{m[2], port}, err == nil && port <= 65535
}

func (o *PreviewOptions) secure() bool { return o.URL.Scheme == "https" }

func (o *PreviewOptions) cookieName() string {
	if o.secure() {
		return previewSecure
	}
	return previewPlain
}

// link is the address that a visit begins with. The path may have a query.
func (o *PreviewOptions) link(at place, path, proof string) (string, error) {
	if path == "" {
		path = "/"
	}
	u, err := url.Parse(path)
	if err != nil || !strings.HasPrefix(path, "/") || u.Scheme != "" || u.Host != "" || u.Fragment != "" {
		return "", fault.Errorf(fault.Invalid, "path: %.200q is no path with a query", path).WithHint("for example /notes?page=2")
	}
	u.Scheme, u.Host = o.URL.Scheme, at.label()+"."+o.URL.Host
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += previewParam + "=" + proof
	return u.String(), nil
}

// previews is the door through which browsers see ports of sandboxes.
func (s *server) previews() http.Handler {
	return s.observe(s.previewBound(http.HandlerFunc(s.preview)))
}

// isPassedOnPreview reports whether another process sent a preview's request to
// the address of the API, where processes reach each other.
func (s *server) isPassedOnPreview(r *http.Request) bool {
	_, ok := s.Previews.place(r.Host)
	return ok && r.Header.Get(forwardedBy) != ""
}

// previewBound caps what visitors send, and how often.
func (s *server) previewBound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get(forwardedBy) == "" && !s.rates.allow(account.Actor{}, s.from(r)):
			s.refuseVisit(w, r, fault.Errorf(fault.Limited, "too many requests").TryAfter(time.Second))
			return
		case r.ContentLength > s.MaxUpload:
			s.refuseVisit(w, r, &http.MaxBytesError{Limit: s.MaxUpload})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, s.MaxUpload)
		next.ServeHTTP(w, r)
	})
}

func (s *server) preview(w http.ResponseWriter, r *http.Request) {
	seenOf(r.Context()).route = "preview"
	at, ok := s.Previews.place(r.Host)
	switch {
	case !ok:
		s.refuseVisit(w, r, errNoPlace)
		return
	case r.Method == http.MethodConnect || r.Method == http.MethodTrace:
		s.refuseVisit(w, r, errOddMethod)
		return
	}
	if s.Nodes != nil && r.Header.Get(forwardedBy) == "" {
		peer, err := s.Nodes.Sandbox(r.Context(), at.sandbox)
		switch {
		case err != nil:
			s.refuseVisit(w, r, err)
			return
		case peer != nil && peer.Ended:
			s.refuseVisit(w, r, sandboxes.ErrGone)
			return
		case peer != nil && !peer.Alive:
			s.refuseVisit(w, r, deadNode(peer))
			return
		case peer != nil:
			// That node finds out anew whether the link holds, and decides.
			out := &slowWriter{ResponseWriter: w, control: http.NewResponseController(w), ctx: r.Context()}
			s.relay(peer, out, r, func(*httputil.ProxyRequest) {}, s.refuseVisit)
			return
		}
	}
	if s.Sandboxes == nil {
		s.refuseVisit(w, r, errNoPlace)
		return
	}
	if err := s.sameSandbox(r, at); err != nil {
		s.refuseVisit(w, r, err)
		return
	}
	if proof, clean, ok := takeProof(r.URL.RawQuery); ok {
		s.exchange(w, r, at, proof, clean)
		return
	}
	visit, err := s.Sandboxes.Visit(r.Context(), at.sandbox, at.port, s.proofs(r))
	if err != nil {
		s.refuseVisit(w, r, err)
		return
	}
	defer visit.Close()
	s.showPreview(w, r, at, visit)
}

// proofs are those that a request's cookies bring: a page beside this one can add
// its own under the same name.
func (s *server) proofs(r *http.Request) []string {
	const most = 8
	var list []string
	for _, c := range r.CookiesNamed(s.Previews.cookieName()) {
		if len(list) < most {
			list = append(list, c.Value)
		}
	}
	return list
}

// takeProof takes the proof out of a query and leaves the rest as it was.
func takeProof(query string) (proof, clean string, ok bool) {
	var kept []string
	for _, part := range strings.Split(query, "&") {
		if value, found := strings.CutPrefix(part, previewParam+"="); found {
			proof, ok = value, true
		} else if part != "" {
			kept = append(kept, part)
		}
	}
	return proof, strings.Join(kept, "&"), ok
}

// exchange puts a link's proof into a cookie of this host and leads to the same
// address without it: there it would be in the history, in logs and in what the
// page's links tell others.
func (s *server) exchange(w http.ResponseWriter, r *http.Request, at place, proof, clean string) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		s.refuseVisit(w, r, errOddMethod)
		return
	}
	expires, err := s.Sandboxes.CheckPreview(r.Context(), at.sandbox, at.port, proof)
	if err != nil {
		s.refuseVisit(w, r, err)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: s.Previews.cookieName(), Value: proof, Path: "/", Expires: expires, HttpOnly: true, Secure: s.Previews.secure(), SameSite: http.SameSiteLaxMode,
	})
	h := w.Header()
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	// Absolute: a path that begins with two slashes would lead elsewhere.
	to := url.URL{Scheme: s.Previews.URL.Scheme, Host: r.Host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: clean}
	h.Set("Location", to.String())
	w.WriteHeader(http.StatusSeeOther)
}

// sameSandbox refuses what a page of another site had a browser ask for. Previews
// beside this one are the same site to browsers, which send the cookie along, so
// the cookie alone does not keep another sandbox's page out.
func (s *server) sameSandbox(r *http.Request, at place) error {
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case origin != "" && origin != "null":
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != s.Previews.URL.Scheme || portOf(u.Host) != portOf(r.Host) {
			return errOtherSite
		}
		// Its other ports are the same program's.
		if from, ok := s.Previews.place(u.Host); !ok || from.sandbox != at.sandbox {
			return errOtherSite
		}
	case site == "same-origin", site == "none", site == "" && origin == "":
	case reads && r.Header.Get("Sec-Fetch-Mode") == "navigate": // somebody follows a link
	default:
		return errOtherSite
	}
	return nil
}

// portOf is the port that an address names, or "".
func portOf(host string) string {
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		return ""
	}
	return port
}

var (
	errNoPlace   = fault.Errorf(fault.NotFound, "there is no preview at this address")
	errOddMethod = fault.Errorf(fault.Invalid, "this cannot be asked of a preview")
	errOtherSite = fault.Errorf(fault.Denied, "the request comes from a page of another site")
	// errGarbage and errSlow are a server in a sandbox that does not behave as one.
	errGarbage = fault.Errorf(fault.Unavailable, "the server in the sandbox gave no answer that could be understood")
	errSlow    = fault.Errorf(fault.Unavailable, "the server in the sandbox did not answer in time")
	errDeaf    = fault.Errorf(fault.Unavailable, "nobody listens on this port of the sandbox yet")
)

// visitFault is what went wrong with a visit, as the visitor is told.
func visitFault(visit *sandboxes.Visit, err error) error {
	var tooLarge *http.MaxBytesError
	var slow net.Error
	switch cause := context.Cause(visit.Context()); {
	case errors.As(err, &tooLarge):
		return err
	case errors.Is(cause, sandboxes.ErrLinkExpired), errors.Is(cause, sandboxes.ErrBadLink):
		return cause
	case fault.Is(cause, fault.Conflict), fault.Is(err, fault.Conflict):
		return sandboxes.ErrGone
	case cause != nil:
		return cause // the visitor has gone
	case fault.Is(err, fault.Unavailable):
		return errDeaf
	case errors.As(err, &slow) && slow.Timeout():
		return errSlow
	}
	return errGarbage
}
