package httpapi

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/internal/sandboxes"
)

// showPreview passes a visitor's request on to the server in the sandbox. To that server
// it looks like a visit of http://localhost:PORT by a browser on its own machine:
// hosts, origins and redirects are put into those words, so that what checks one
// against the other is content.
func (s *server) showPreview(w http.ResponseWriter, r *http.Request, at place, visit *sandboxes.Visit) {
	inside := "localhost:" + strconv.Itoa(at.port)
	outside := url.URL{Scheme: s.Previews.URL.Scheme, Host: r.Host}
	out := &slowWriter{ResponseWriter: w, control: http.NewResponseController(w), ctx: visit.Context()}
	r = r.WithContext(visit.Context())
	_ = out.control.EnableFullDuplex() // else what was not read when an answer begins is lost
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &slowBody{r.Body, out.control}
	}
	(&httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "http", inside, inside
			// As it came, also what a URL's rules would clean away.
			p.Out.URL.RawQuery = p.In.URL.RawQuery
			onlyOwn(p.Out.Header)
			from(p.Out.Header, "Origin", outside, inside)
			from(p.Out.Header, "Referer", outside, inside)
		},
		ModifyResponse: func(res *http.Response) error {
			ofOneHost(res.Header)
			back(res.Header, inside, at.port)
			switched(w, res)
			return nil
		},
		Transport: &http.Transport{
			DisableKeepAlives: true, // a connection belongs to one visit
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				c, err := visit.Dial(ctx)
				if err != nil {
					return nil, err
				}
				return quietConn{c, previewQuiet}, nil
			},
			ResponseHeaderTimeout: previewWait, MaxResponseHeaderBytes: maxPreviewHeader, DisableCompression: true,
		},
		// Streams are followed while they come.
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			s.Log.DebugContext(r.Context(), "a preview gave no answer", "sandbox", at.sandbox, "port", at.port, "err", err)
			s.refuseVisit(w, r, visitFault(visit, err))
		},
	}).ServeHTTP(out, r)
}

// onlyOwn takes out of a request what the server in the sandbox must not learn:
// secrets of this server and of others, who the visitor is, and what is between
// proxies. Cookies that are left are its own, of this host.
func onlyOwn(h http.Header) {
	for name := range h {
		switch name {
		case "Authorization", "Proxy-Authorization", "Forwarded", "X-Real-Ip", "Via", forwardedBy:
			h.Del(name)
		default:
			if strings.HasPrefix(name, "X-Forwarded-") {
				h.Del(name)
			}
		}
	}
	if up := h.Get("Upgrade"); up != "" && !strings.EqualFold(up, "websocket") {
		h.Del("Upgrade")
		h.Del("Connection")
	}
	var kept []string
	for _, line := range h.Values("Cookie") {
		for _, part := range strings.Split(line, ";") {
			part = strings.TrimSpace(part)
			if name, _, _ := strings.Cut(part, "="); part != "" && !ours(name) {
				kept = append(kept, part)
			}
		}
	}
	h.Del("Cookie")
	if kept != nil {
		h.Set("Cookie", strings.Join(kept, "; "))
	}
}

// ours reports whether a cookie of this name is of this server, and none that a
// server in a sandbox may see or set.
func ours(cookie string) bool {
	return slices.ContainsFunc([]string{previewPlain, previewSecure, cookiePlain, cookieSecure}, func(name string) bool {
		return strings.EqualFold(strings.TrimSpace(cookie), name)
	})
}

// from puts an address of the outside into the words of the inside.
func from(h http.Header, name string, outside url.URL, inside string) {
	u, err := url.Parse(h.Get(name))
	if err == nil && u.Scheme == outside.Scheme && strings.EqualFold(u.Host, outside.Host) {
		u.Scheme, u.Host = "http", inside
		h.Set(name, u.String())
	}
}

// back leads a redirect to the server's own address to its preview.
func back(h http.Header, inside string, port int) {
	for _, name := range []string{"Location", "Content-Location"} {
		u, err := url.Parse(h.Get(name))
		if err != nil || u.Scheme != "http" && u.Scheme != "" || u.Host == "" {
			continue
		}
		if u.Host != inside && u.Host != net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) && u.Host != net.JoinHostPort("::1", strconv.Itoa(port)) {
			continue
		}
		path := u.EscapedPath()
		if strings.HasPrefix(path, "//") {
			continue // it would name a host
		}
		if path == "" {
			path = "/"
		}
		rest := url.URL{RawQuery: u.RawQuery, Fragment: u.Fragment}
		h.Set(name, path+rest.String())
	}
}

// notOfSandboxes are headers of an answer by which a server in a sandbox would
// speak for more than its own pages: for this server's other hosts, for whatever
// reports errors, and for a proxy in front that takes orders from answers.
var notOfSandboxes = []string{
	"Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "Nel", "Report-To", "Reporting-Endpoints", "X-Sendfile", "X-Lighttpd-Send-File", "X-Reproxy-Url",
}

// forgetOrders takes them out.
func forgetOrders(h http.Header) {
	for _, name := range notOfSandboxes {
		h.Del(name)
	}
	for name := range h {
		if strings.HasPrefix(name, "X-Accel-") {
			h.Del(name)
		}
	}
}

// ofOneHost makes an answer one of its own host only.
func ofOneHost(h http.Header) {
	forgetOrders(h)
	cookies := h.Values("Set-Cookie")
	h.Del("Set-Cookie")
	for _, line := range cookies {
		if line, ok := hostOnly(line); ok {
			h.Add("Set-Cookie", line)
		}
	}
	// No page may call itself of the domain above, where its neighbours are.
	h.Set("Origin-Agent-Cluster", "?1")
	if h.Get("Referrer-Policy") == "" {
		h.Set("Referrer-Policy", "same-origin")
	}
}

// hostOnly takes the domain out of a cookie, which makes it one of this host. Our
// own names are refused.
func hostOnly(line string) (string, bool) {
	parts := strings.Split(line, ";")
	name, _, ok := strings.Cut(parts[0], "=")
	// Browsers take a cookie without a name as one whose name is its value's start.
	if !ok || strings.TrimSpace(name) == "" || ours(name) {
		return "", false
	}
	parts = slices.DeleteFunc(parts, func(part string) bool {
		attribute, _, _ := strings.Cut(part, "=")
		return strings.EqualFold(strings.TrimSpace(attribute), "domain")
	})
	return strings.Join(parts, ";"), true
}

// quietConn ends when nothing went either way for so long.
type quietConn struct {
	net.Conn
	most time.Duration
}

func (c quietConn) Read(p []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(c.most)) // a closed one says so below
	return c.Conn.Read(p)
}

func (c quietConn) Write(p []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(c.most))
	return c.Conn.Write(p)
}

// slowWriter gives up on a visitor who takes nothing.
type slowWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	ctx     context.Context
}

func (w *slowWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(previewStuck)) // tests have writers without
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the writer below.
func (w *slowWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack gives the visitor's connection for a WebSocket. It ends with the visit,
// also while somebody waits for it.
func (w *slowWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := w.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(w.ctx, func() { _ = c.Close() })
	return socketConn{quietConn{c, previewQuiet}, stop}, rw, nil
}

// socketConn is a visitor's connection that was handed over.
type socketConn struct {
	net.Conn
	stop func() bool
}

func (c socketConn) Close() error {
	c.stop()
	return c.Conn.Close()
}

// slowBody gives up on a visitor who sends nothing.
type slowBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *slowBody) Read(p []byte) (int, error) {
	_ = b.control.SetReadDeadline(time.Now().Add(previewStuck))
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.control.SetReadDeadline(time.Time{}) // of the next request it is another's
	}
	return n, err
}
