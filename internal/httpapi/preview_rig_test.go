package httpapi

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"assay/api"
	"assay/internal/account"
	"assay/internal/sandbox"
	"assay/internal/sandbox/fake"
	"assay/internal/sandboxes"
)

// gallery is a server with previews over fake machines, in which real servers
// listen on ports.
type gallery struct {
	t       *testing.T
	doors   Doors
	service *sandboxes.Service
	// web is where previews are listened for.
	web *httptest.Server
	// ann has a browser's way of asking: it keeps cookies and follows nothing.
	ann *http.Client
}

// listeners are who listens on ports of the machines.
type listeners map[int]string

// newGallery makes one; the ports are of all its machines.
func newGallery(t *testing.T, ports listeners, change ...func(*Options)) *gallery {
	t.Helper()
	driver := fake.New()
	driver.SetPorts(func(port int) (net.Conn, error) {
		if at, ok := ports[port]; ok {
			return net.Dial("tcp", at)
		}
		return nil, fmt.Errorf("nobody listens on %d", port)
	})
	g := &gallery{t: t, service: fakeSandboxes(t, func(o *sandbox.Options) { o.Driver = driver }), web: httptest.NewUnstartedServer(nil)}
	u, err := url.Parse("http://localhost:" + portOf(g.web.Listener.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	o := doorOptions()
	o.Sandboxes, o.Previews = g.service, &PreviewOptions{URL: u}
	o.Accounts = people{
		"ann": {User: "ann", Name: "ann", Role: account.Member, Token: "t1"},
		"bob": {User: "bob", Name: "bob", Role: account.Staff, Token: "t2"},
	}
	for _, f := range change {
		f(&o)
	}
	if g.doors, err = Open(o); err != nil {
		t.Fatal(err)
	}
	g.web.Config.Handler = g.doors.Previews
	g.web.Start()
	t.Cleanup(func() {
		g.web.CloseClientConnections()
		g.web.Close()
	})
	g.ann = g.browser()
	return g
}

// browser takes every name for the previews' address.
func (g *gallery) browser() *http.Client {
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, g.web.Listener.Addr().String())
	}}
	g.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// create makes a sandbox of ann's.
func (g *gallery) create() string {
	g.t.Helper()
	return read[api.Sandbox](g.t, as(g.doors.API, "ann", "POST", "/api/v1/sandboxes", `{"template":"base"}`), 201).ID
}

// link makes a link of ann's, with more fields of JSON.
func (g *gallery) link(id string, port int, more string) string {
	g.t.Helper()
	w := as(g.doors.API, "ann", "POST", "/api/v1/sandboxes/"+id+"/previews", fmt.Sprintf(`{"port":%d%s}`, port, more))
	return read[api.Preview](g.t, w, 201).URL
}

// page is what a browser was answered.
type page struct {
	status int
	header http.Header
	body   string
}

// get asks as a browser that shows what it gets; headers are pairs.
func (g *gallery) get(method, address string, body io.Reader, header ...string) page {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), method, address, body)
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html,*/*")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := g.ann.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return page{res.StatusCode, res.Header, string(b)}
}

// enter visits a link and gives the cookie that it gave, and the clean address.
func (g *gallery) enter(link string) (cookie, address string) {
	g.t.Helper()
	p := g.get("GET", link, nil)
	if p.status != http.StatusSeeOther {
		g.t.Fatalf("the link gave %d %s", p.status, p.body)
	}
	cookie, _, _ = strings.Cut(p.header.Get("Set-Cookie"), ";")
	return cookie, p.header.Get("Location")
}

// serveIn starts a server that listens inside, and gives its address.
func serveIn(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.Listener.Addr().String()
}

// sayIn starts one that answers every connection with the same bytes, whatever
// they are, and then ends it.
func sayIn(t *testing.T, answer string) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_, _ = c.Write([]byte(answer))
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	return l.Addr().String()
}
