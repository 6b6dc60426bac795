package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"assay/api"
)

// TestLinkBecomesACookie: the proof is in the address of the first request only.
func TestLinkBecomesACookie(t *testing.T) {
	t.Parallel()
	g := newGallery(t, listeners{8000: serveIn(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello %s", r.URL.RequestURI()) })})
	id := g.create()
	link := g.link(id, 8000, `,"path":"/a%2Fb?x=1&y"`)
	if !strings.Contains(link, "http://8000-"+id+".localhost:") || !strings.Contains(link, "/a%2Fb?x=1&y&assay-preview=") {
		t.Fatalf("the link is %s", link)
	}
	p := g.get("GET", link, nil)
	clean, _, _ := strings.Cut(link, "&assay-preview=")
	if p.status != 303 || p.header.Get("Location") != clean || p.header.Get("Referrer-Policy") != "no-referrer" || p.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", p.status, p.header)
	}
	c, err := http.ParseSetCookie(p.header.Get("Set-Cookie"))
	if err != nil || c.Name != previewPlain || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Domain != "" || c.Path != "/" || time.Until(c.Expires) > time.Hour+time.Minute {
		t.Errorf("the cookie is %+v, %v", c, err)
	}
	if got := g.get("GET", clean, nil, "Cookie", c.Name+"="+c.Value); got.status != 200 || got.body != "hello /a%2Fb?x=1&y" {
		t.Errorf("%d %s", got.status, got.body)
	}
	// A neighbour's page can set a cookie of the name that hides none.
	if got := g.get("GET", clean, nil, "Cookie", c.Name+"=junk; "+c.Name+"="+c.Value); got.status != 200 {
		t.Errorf("beside a foreign cookie: %d", got.status)
	}
	// It leads nowhere else, whatever the path is.
	if got := g.get("GET", strings.Replace(link, "/a%2Fb", "//evil.example", 1), nil); !strings.HasPrefix(got.header.Get("Location"), "http://8000-"+id+".localhost:") {
		t.Errorf("it leads to %s", got.header.Get("Location"))
	}
	events := read[api.SandboxEventList](t, as(g.doors.API, "ann", "GET", "/api/v1/sandboxes/"+id+"/events", ""), 200)
	if last := events.Items[len(events.Items)-1]; last.Kind != "preview" || strings.Contains(fmt.Sprint(last.Detail), c.Value) {
		t.Errorf("the log says %+v", last)
	}
}

// TestVisitsAreRefusedWithAReason: a page says why, and no more.
func TestVisitsAreRefusedWithAReason(t *testing.T) {
	t.Parallel()
	long := serveIn(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, "inside")
	})
	g := newGallery(t, listeners{
		8000: long, 8001: long, 9000: sayIn(t, "this is no HTTP at all\r\n\r\n"), 9001: sayIn(t, ""),
		9002: sayIn(t, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 2*maxPreviewHeader)+"\r\n\r\n"),
		9003: sayIn(t, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
		9004: sayIn(t, "HTTP/1.1 99999 \x00\r\n\r\n"),
	}, func(o *Options) { o.MaxUpload = 1000 })
	id, other := g.create(), g.create()
	at := func(label string) string {
		return fmt.Sprintf("http://%s.localhost:%s/", label, portOf(g.web.Listener.Addr().String()))
	}
	here := at("8000-" + id)
	link := g.link(id, 8000, "")
	cookie, _ := g.enter(link)
	proof := strings.TrimPrefix(cookie, previewPlain+"=")
	foreign, _ := g.enter(g.link(other, 8000, ""))
	// What the signature is over was changed: the end is later.
	when, mac, _ := strings.Cut(proof, "-")
	forged := previewPlain + "=" + when + "z-" + mac
	paused := g.create()
	pausedCookie, pausedAt := g.enter(g.link(paused, 8000, ""))
	if w := as(g.doors.API, "ann", "POST", "/api/v1/sandboxes/"+paused+"/pause", ""); w.Code != 200 {
		t.Fatal(w.Body)
	}
	ended := g.create()
	endedLink := g.link(ended, 8000, "")
	endedCookie, endedAt := g.enter(endedLink)
	if w := as(g.doors.API, "ann", "DELETE", "/api/v1/sandboxes/"+ended, ""); w.Code != 204 {
		t.Fatal(w.Body)
	}
	odd := func(port int) (string, string) {
		c, a := g.enter(g.link(id, port, ""))
		return a, c
	}
	tests := []struct {
		name, method, address, cookie, body string
		status                              int
		title                               string
	}{
		{"no_link", "GET", here, "", "", 401, "A link is needed"},
		{"no_mac", "GET", here, previewPlain + "=" + when, "", 403, "does not work here"},
		{"nonsense", "GET", here, previewPlain + "=!", "", 403, "does not work here"},
		{"later_end", "GET", here, forged, "", 403, "does not work here"},
		{"other_port", "GET", at("8001-" + id), cookie, "", 403, "does not work here"},
		{"other_sandbox", "GET", here, foreign, "", 403, "does not work here"},
		{"link_of_other_port", "GET", at("8001-"+id) + "?" + previewParam + "=" + proof, "", "", 403, "does not work here"},
		{"link_and_cookie", "GET", here + "?" + previewParam + "=x", cookie, "", 403, "does not work here"},
		{"posted_link", "POST", here + "?" + previewParam + "=" + proof, "", "", 405, "cannot be asked"},
		{"trace", "TRACE", here, cookie, "", 405, "cannot be asked"},
		{"ended", "GET", endedAt, endedCookie, "", 410, "has ended"},
		{"ended_link", "GET", endedLink, "", "", 410, "has ended"},
		{"paused", "GET", pausedAt, pausedCookie, "", 409, "is paused"},
		{"no_sandbox", "GET", at("8000-nothing"), cookie, "", 404, "no such sandbox"},
		{"no_label", "GET", at("x"), cookie, "", 404, "no preview at this address"},
		{"port_zero", "GET", at("0-" + id), cookie, "", 404, "no preview at this address"},
		{"port_too_high", "GET", at("65536-" + id), cookie, "", 404, "no preview at this address"},
		{"below", "GET", at("a.8000-" + id), cookie, "", 404, "no preview at this address"},
		{"base", "GET", "http://localhost/", cookie, "", 404, "no preview at this address"},
		{"other_host", "GET", "http://8000-" + id + ".example.org/", cookie, "", 404, "no preview at this address"},
		{"too_large", "POST", here, cookie, strings.Repeat("x", 1001), 413, "too large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := g.get(tt.method, tt.address, strings.NewReader(tt.body), "Cookie", tt.cookie)
			if p.status != tt.status || !strings.Contains(p.body, tt.title) || strings.Contains(p.body, "inside") {
				t.Errorf("got %d %s, want %d with %q", p.status, p.body, tt.status, tt.title)
			}
			if p.header.Get("Cache-Control") != "no-store" || p.header.Get("Set-Cookie") != "" || !strings.Contains(p.header.Get("Content-Security-Policy"), "default-src 'none'") {
				t.Errorf("headers %v", p.header)
			}
		})
	}
	for port, title := range map[int]string{
		8: "Nobody listens", 9000: "gave no answer", 9001: "gave no answer", 9002: "gave no answer", 9003: "gave no answer", 9004: "gave no answer",
	} {
		t.Run(fmt.Sprint("port_", port), func(t *testing.T) {
			address, cookie := odd(port)
			p := g.get("GET", address, nil, "Cookie", cookie)
			if p.status != 502 || !strings.Contains(p.body, title) || (p.header.Get("Refresh") != "") != (port == 8) {
				t.Errorf("got %d %v %s, want %q", p.status, p.header, p.body, title)
			}
			if p := g.get("GET", address, nil, "Cookie", cookie, "Accept", "application/json"); p.status != 502 || strings.Contains(p.body, "<") || p.header.Get("Refresh") != "" {
				t.Errorf("for a program: %d %v %s", p.status, p.header, p.body)
			}
		})
	}
	t.Run("expired", func(t *testing.T) {
		link := g.link(id, 8000, `,"ttl_seconds":1`)
		cookie, address := g.enter(link)
		for p := (page{status: 200}); p.status != 410; {
			if p = g.get("GET", address, nil, "Cookie", cookie); p.status != 200 && (p.status != 410 || !strings.Contains(p.body, "has expired")) {
				t.Fatalf("%d %s", p.status, p.body)
			}
		}
		if p := g.get("GET", link, nil); p.status != 410 || !strings.Contains(p.body, "has expired") {
			t.Errorf("the link: %d %s", p.status, p.body)
		}
	})
	t.Run("revoked", func(t *testing.T) {
		if w := as(g.doors.API, "ann", "DELETE", "/api/v1/sandboxes/"+id+"/previews", ""); w.Code != 204 {
			t.Fatal(w.Body)
		}
		if p := g.get("GET", here, nil, "Cookie", cookie); p.status != 403 {
			t.Errorf("%d %s", p.status, p.body)
		}
		cookie, _ := g.enter(g.link(id, 8000, ""))
		if p := g.get("GET", here, nil, "Cookie", cookie); p.status != 200 {
			t.Errorf("a new one: %d %s", p.status, p.body)
		}
	})
	t.Run("api", func(t *testing.T) {
		for body, want := range map[string]int{
			`{"port":0}`: 400, `{"port":65536}`: 400, `{}`: 400, `{"port":80,"ttl_seconds":0.5}`: 400, `{"port":80,"ttl_seconds":86401}`: 400,
			`{"port":80,"path":"x"}`: 400, `{"port":80,"path":"//evil.example/"}`: 400, `{"port":80,"path":"http://evil.example/"}`: 400, `{"port":80,"ttl_seconds":86400,"path":"/x"}`: 201,
		} {
			if w := as(g.doors.API, "ann", "POST", "/api/v1/sandboxes/"+id+"/previews", body); w.Code != want {
				t.Errorf("%s: %d %s", body, w.Code, w.Body)
			}
		}
		without := sandboxDoor(t)
		sb := read[api.Sandbox](t, as(without, "ann", "POST", "/api/v1/sandboxes", `{"template":"base"}`), 201)
		if w := as(without, "ann", "POST", "/api/v1/sandboxes/"+sb.ID+"/previews", `{"port":80}`); w.Code != 501 {
			t.Errorf("without previews: %d %s", w.Code, w.Body)
		}
	})
}

// TestServersInsideLearnNoSecret: what a sandbox sees is a visit of its own
// machine, with the cookies of its own host.
func TestServersInsideLearnNoSecret(t *testing.T) {
	t.Parallel()
	g := newGallery(t, listeners{8000: serveIn(t, func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Host", r.Host)
		if err := json.NewEncoder(w).Encode(r.Header); err != nil {
			t.Error(err)
		}
	})})
	cookie, address := g.enter(g.link(g.create(), 8000, ""))
	origin := strings.TrimSuffix(address, "/")
	p := g.get("POST", address, strings.NewReader("x"),
		"Authorization", "Bearer secret", "Proxy-Authorization", "secret", "X-Forwarded-For", "192.0.2.1", "X-Forwarded-Host", "x", "Forwarded", "for=192.0.2.1",
		"X-Real-Ip", "192.0.2.1", "Origin", origin, "Referer", origin+"/page?q=1", "Upgrade", "h2c", "Connection", "Upgrade, Te", "Te", "gzip",
		"Cookie", "a=1; "+cookie+"; assay=secret; __Host-assay=secret; __Host-assay-preview=secret; b=2", "User-Agent", "browser", "Accept-Encoding", "gzip", "X-Own", "kept")
	var got http.Header
	if err := json.Unmarshal([]byte(p.body), &got); err != nil {
		t.Fatal(p.body, err)
	}
	want := http.Header{
		"Host": {"localhost:8000"}, "Origin": {"http://localhost:8000"}, "Referer": {"http://localhost:8000/page?q=1"}, "Cookie": {"a=1; b=2"},
		"User-Agent": {"browser"}, "Accept": {"text/html,*/*"}, "Accept-Encoding": {"gzip"}, "X-Own": {"kept"}, "Content-Length": {"1"}, "Connection": {"close"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

// TestServersInsideSpeakForTheirHostOnly: nothing that they answer reaches beyond
// their own origin.
func TestServersInsideSpeakForTheirHostOnly(t *testing.T) {
	t.Parallel()
	g := newGallery(t, listeners{8000: serveIn(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		for _, name := range []string{"Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "NEL", "Report-To", "Reporting-Endpoints", "X-Accel-Redirect", "X-Accel-Buffering", "X-Sendfile"} {
			h.Set(name, "x")
		}
		for _, c := range []string{
			"a=1; Domain=localhost; Path=/; HttpOnly", "b=2; path=/x;DOMAIN = .example.org ; SameSite=Lax", "assay=x", "assay-preview=x; Path=/", "__HOST-ASSAY=x", "=nameless", "nameless",
		} {
			h.Add("Set-Cookie", c)
		}
		h.Set("Location", r.URL.Query().Get("to"))
		h.Set("Content-Type", "text/plain")
		h["Date"] = nil
		w.WriteHeader(http.StatusFound)
	})})
	cookie, address := g.enter(g.link(g.create(), 8000, ""))
	for to, want := range map[string]string{
		"/login": "/login", "http://localhost:8000/login?x=1#f": "/login?x=1#f", "http://127.0.0.1:8000": "/", "//localhost:8000/y": "/y",
		"http://localhost:8001/": "http://localhost:8001/", "https://elsewhere.example/": "https://elsewhere.example/", "http://localhost:8000//evil.example": "http://localhost:8000//evil.example",
	} {
		p := g.get("GET", address+"?to="+url.QueryEscape(to), nil, "Cookie", cookie)
		p.header.Del("X-Request-Id")
		header := http.Header{
			"Set-Cookie": {"a=1; Path=/; HttpOnly", "b=2; path=/x; SameSite=Lax"}, "Location": {want}, "Content-Type": {"text/plain"},
			"Origin-Agent-Cluster": {"?1"}, "Referrer-Policy": {"same-origin"}, "Content-Length": {"0"},
		}
		p.header.Del("Date")
		if diff := cmp.Diff(header, p.header); diff != "" || p.status != 302 {
			t.Errorf("%s: %d; want -, got +:\n%s", to, p.status, diff)
		}
	}
}

// TestPagesOfOthersAreRefused: previews beside this one are the same site to a
// browser, which sends the cookie with what their pages ask for.
func TestPagesOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	g := newGallery(t, listeners{8000: serveIn(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "inside") })})
	id, other := g.create(), g.create()
	cookie, address := g.enter(g.link(id, 8000, ""))
	port := portOf(g.web.Listener.Addr().String())
	tests := []struct {
		name, method string
		header       []string
		want         int
	}{
		{"own", "POST", []string{"Origin", "http://8000-" + id + ".localhost:" + port, "Sec-Fetch-Site", "same-origin"}, 200},
		{"own_other_port", "POST", []string{"Origin", "http://3000-" + id + ".localhost:" + port, "Sec-Fetch-Site", "same-site"}, 200},
		{"own_by_form_without_referrer", "POST", []string{"Origin", "null", "Sec-Fetch-Site", "same-origin"}, 200},
		{"typed", "GET", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"}, 200},
		{"followed_link", "GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 200},
		{"program", "POST", nil, 200},
		{"neighbour", "GET", []string{"Origin", "http://8000-" + other + ".localhost:" + port, "Sec-Fetch-Site", "same-site"}, 403},
		{"neighbours_image", "GET", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors"}, 403},
		{"neighbours_form", "POST", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate"}, 403},
		{"neighbours_socket", "GET", []string{"Origin", "http://8000-" + other + ".localhost:" + port, "Upgrade", "websocket", "Connection", "Upgrade"}, 403},
		{"other_scheme", "GET", []string{"Origin", "https://8000-" + id + ".localhost:" + port}, 403},
		{"other_listener", "GET", []string{"Origin", "http://8000-" + id + ".localhost:1"}, 403},
		{"the_api", "POST", []string{"Origin", "http://localhost:8080", "Sec-Fetch-Site", "same-site"}, 403},
		{"sandboxed", "GET", []string{"Origin", "null", "Sec-Fetch-Site", "cross-site"}, 403},
		{"old_browser_sandboxed", "POST", []string{"Origin", "null"}, 403},
		{"nonsense", "GET", []string{"Origin", "::"}, 403},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if p := g.get(tt.method, address, nil, append([]string{"Cookie", cookie}, tt.header...)...); p.status != tt.want {
				t.Errorf("%d %s, want %d", p.status, p.body, tt.want)
			}
		})
	}
}

// socketIn is a server that says back what it hears.
func socketIn(t *testing.T) string {
	return serveIn(t, func(w http.ResponseWriter, r *http.Request) {
		// It refuses origins that are not its host.
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"echo"}})
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		c.SetReadLimit(1 << 20)
		for {
			kind, b, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if string(b) == "bye" {
				_ = c.Close(4321, "as you say")
				return
			}
			if c.Write(r.Context(), kind, b) != nil {
				return
			}
		}
	})
}

func (g *gallery) socket(address, cookie string) *websocket.Conn {
	g.t.Helper()
	c, res, err := websocket.Dial(g.t.Context(), address, &websocket.DialOptions{
		HTTPClient: g.ann, Subprotocols: []string{"echo"}, HTTPHeader: http.Header{"Cookie": {cookie}, "Origin": {strings.TrimSuffix(address, "/")}},
	})
	if err != nil || c.Subprotocol() != "echo" {
		g.t.Fatalf("%v, %v", res, err)
	}
	g.t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

// TestSocketsPass: both ways, with their end; and they end with the link, the
// sandbox and the previews.
func TestSocketsPass(t *testing.T) {
	t.Parallel()
	g := newGallery(t, listeners{8000: socketIn(t)})
	say := func(c *websocket.Conn, text string) error {
		if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
			return err
		}
		_, got, err := c.Read(t.Context())
		if err == nil && string(got) != text {
			t.Errorf("%.20q came back as %.20q", text, got)
		}
		return err
	}
	id := g.create()
	c := g.socket(g.both(id, ""))
	c.SetReadLimit(1 << 20)
	for _, text := range []string{"hello", strings.Repeat("x", 300_000)} {
		if err := say(c, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := say(c, "bye"); websocket.CloseStatus(err) != 4321 {
		t.Errorf("it ended with %v", err)
	}
	for name, end := range map[string]func(id string){
		"expired": func(string) {},
		"revoked": func(id string) { as(g.doors.API, "ann", "DELETE", "/api/v1/sandboxes/"+id+"/previews", "") },
		"killed":  func(id string) { as(g.doors.API, "ann", "DELETE", "/api/v1/sandboxes/"+id, "") },
	} {
		id, more := g.create(), ""
		if name == "expired" {
			more = `,"ttl_seconds":2`
		}
		c := g.socket(g.both(id, more))
		if err := say(c, "hello"); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		end(id)
		if _, _, err := c.Read(t.Context()); err == nil {
			t.Errorf("%s: the socket goes on", name)
		}
	}
}

// both gives the address and the cookie of a link to port 8000.
func (g *gallery) both(id, more string) (address, cookie string) {
	g.t.Helper()
	cookie, address = g.enter(g.link(id, 8000, more))
	return address, cookie
}

// TestStreamsPassAsTheyCome: events are not held back, and large bodies not kept.
func TestStreamsPassAsTheyCome(t *testing.T) {
	t.Parallel()
	next := make(chan string)
	g := newGallery(t, listeners{8000: serveIn(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			// It answers while it reads.
			_ = http.NewResponseController(w).EnableFullDuplex()
			n, err := io.Copy(w, r.Body)
			if err != nil {
				t.Errorf("after %d: %v", n, err)
			}
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for text := range next {
			fmt.Fprintf(w, "data: %s\n\n", text)
			_ = http.NewResponseController(w).Flush()
		}
	})})
	address, cookie := g.both(g.create(), "")
	r, err := http.NewRequestWithContext(t.Context(), "GET", address, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Cookie", cookie)
	go func() { next <- "one" }()
	res, err := g.ann.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for _, want := range []string{"one", "two"} {
		// The second is written only when the first has come.
		if !lines.Scan() || lines.Text() != "data: "+want || !lines.Scan() {
			t.Fatalf("got %q, %v", lines.Text(), lines.Err())
		}
		if want == "one" {
			next <- "two"
		}
	}
	close(next)
	const size = 20 << 20
	p := g.get("POST", address, io.LimitReader(zeros{}, size), "Cookie", cookie)
	if p.status != 200 || len(p.body) != size {
		t.Errorf("%d, %d bytes came back", p.status, len(p.body))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestVisitsAreBounded: one sandbox holds so many visits and no more, and gives
// them back.
func TestVisitsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 64
	begun, end := make(chan struct{}, most), make(chan struct{})
	g := newGallery(t, listeners{8000: serveIn(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			begun <- struct{}{}
			select {
			case <-end:
			case <-r.Context().Done():
			}
		}
	})})
	address, cookie := g.both(g.create(), "")
	waited := make(chan int, most)
	for range most {
		go func() {
			r, err := http.NewRequestWithContext(t.Context(), "GET", address+"wait", nil)
			if err != nil {
				t.Error(err)
			}
			r.Header.Set("Cookie", cookie)
			res, err := g.ann.Do(r)
			if err != nil {
				t.Error(err)
				waited <- 0
				return
			}
			_ = res.Body.Close()
			waited <- res.StatusCode
		}()
	}
	for range most {
		<-begun
	}
	if p := g.get("GET", address, nil, "Cookie", cookie); p.status != 503 || p.header.Get("Retry-After") == "" {
		t.Errorf("one more: %d %s", p.status, p.body)
	}
	close(end)
	for range most {
		if got := <-waited; got != 200 {
			t.Errorf("a visit ended with %d", got)
		}
	}
	if p := g.get("GET", address, nil, "Cookie", cookie); p.status != 200 {
		t.Errorf("afterwards: %d %s", p.status, p.body)
	}
}

// TestPreviewsOfOtherNodes: a visit reaches the node that has the sandbox, at the
// address at which processes reach each other, and nothing else does there.
func TestPreviewsOfOtherNodes(t *testing.T) {
	t.Parallel()
	two := newGallery(t, listeners{8000: socketIn(t)})
	id := two.create()
	apiOfTwo := httptest.NewServer(two.doors.API)
	t.Cleanup(func() { apiOfTwo.CloseClientConnections(); apiOfTwo.Close() })
	u, err := url.Parse(apiOfTwo.URL)
	if err != nil {
		t.Fatal(err)
	}
	one := newGallery(t, nil, func(o *Options) {
		o.Nodes = rows{http.DefaultTransport, map[string]*Peer{
			id: {Name: "two", URL: u, Alive: true}, "dead": {Name: "three"}, "ended": {Name: "three", Ended: true}, "refused": {Name: "four", URL: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, Alive: true},
		}}
	})
	link := two.link(id, 8000, "")
	link = strings.Replace(link, ":"+portOf(two.web.Listener.Addr().String()), ":"+portOf(one.web.Listener.Addr().String()), 1)
	cookie, address := one.enter(link)
	c := one.socket(address, cookie)
	if err := c.Write(t.Context(), websocket.MessageText, []byte("over there")); err != nil {
		t.Fatal(err)
	}
	if _, got, err := c.Read(t.Context()); err != nil || string(got) != "over there" {
		t.Errorf("%q, %v", got, err)
	}
	for label, want := range map[string]int{"dead": 503, "ended": 410, "refused": 503, "unknown": 404} {
		if p := one.get("GET", strings.Replace(address, id, label, 1), nil, "Cookie", cookie); p.status != want {
			t.Errorf("%s: %d %s", label, p.status, p.body)
		}
	}
	if p := one.get("GET", address, nil); p.status != 401 {
		t.Errorf("without a cookie: %d", p.status)
	}
	// By its own name the API stays what it is, and a preview's name alone opens
	// nothing there.
	ask := func(h http.Handler, host, hop string) int {
		r := httptest.NewRequestWithContext(context.WithoutCancel(t.Context()), "GET", "http://"+host+"/healthz", nil)
		if hop != "" {
			r.Header.Set(forwardedBy, hop)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	if got := ask(two.doors.API, "8000-"+id+".localhost", ""); got != 200 {
		t.Errorf("a preview's name at the API: %d", got)
	}
	if got := ask(two.doors.API, "8000-"+id+".localhost", "1"); got != 401 {
		t.Errorf("passed on without a link: %d", got)
	}
	if got := ask(two.doors.Previews, "127.0.0.1", ""); got != 404 {
		t.Errorf("the API's name at the previews: %d", got)
	}
}
