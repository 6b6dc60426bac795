package netguard

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

var webPolicy = Policy{Allow: []string{"*.example.org", "example.com"}}

func TestForwardKeepsConnectionsAndHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, webPolicy, Caps{})
	var hosts []string
	w.serve(webAddr, func(rw http.ResponseWriter, r *http.Request) {
		hosts = append(hosts, r.Host)
		if r.Header.Get("Proxy-Connection") != "" || r.Header.Get("X-Forwarded-For") != "" {
			t.Errorf("headers %v", r.Header)
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(rw, "%s %s %s", r.Method, r.URL, body)
	})
	client := w.client(nil)
	for range 3 {
		resp, err := client.Post("http://web.example.org/path?q=1", "text/plain", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if got := string(body); err != nil || got != "POST /path?q=1 hello" {
			t.Errorf("%q, %v", got, err)
		}
	}
	if n := len(w.allDialled()); n != 1 {
		t.Errorf("%d connections to the outside for three requests, want one", n)
	}
	if !slices.Equal(hosts, []string{"web.example.org", "web.example.org", "web.example.org"}) {
		t.Errorf("hosts %q", hosts)
	}
	if !w.logged("", true) {
		t.Errorf("log %v", w.allAttempts())
	}
	if u := w.gate.Usage(); u.Attempts != 3 || u.Sent == 0 || u.Received == 0 {
		t.Errorf("usage %+v", u)
	}
}

func TestConnectCarriesTLSOfTheSameName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, webPolicy, Caps{})
	w.names["example.com"] = []netip.Addr{webAddr}
	pool := w.serveTLS(webAddr, func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, "secure ", r.URL.Path) })
	resp, err := w.client(pool).Get("https://example.com/x")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if got := string(body); err != nil || got != "secure /x" {
		t.Errorf("%q, %v", got, err)
	}
	if !w.logged("", true) {
		t.Errorf("log %v", w.allAttempts())
	}
}

// TestConnectRefusesOtherTraffic has a tunnel opened for an allowed name and
// says something else in it.
func TestConnectRefusesOtherTraffic(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		say  func(io.ReadWriter)
		want Why
	}{
		{"other_name", func(c io.ReadWriter) { hello(c, "next.example.org") }, Mismatch},
		{"no_name", func(c io.ReadWriter) { hello(c, "") }, Mismatch},
		{"not_tls", func(c io.ReadWriter) { fmt.Fprint(c, "SSH-2.0-x\r\n\r\n\r\n\r\n") }, NotTLS},
		{"http", func(c io.ReadWriter) { fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: next.example.org\r\n\r\n") }, NotTLS},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, webPolicy, Caps{})
			w.serveTLS(webAddr, func(http.ResponseWriter, *http.Request) { t.Error("the request arrived") })
			c := w.open()
			fmt.Fprint(c, "CONNECT web.example.org:443 HTTP/1.1\r\nHost: web.example.org:443\r\n\r\n")
			r := bufio.NewReader(c)
			if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
				t.Fatalf("%q, %v", line, err)
			}
			_, _ = r.ReadString('\n')
			tt.say(struct {
				io.Reader
				io.Writer
			}{r, c})
			if rest, _ := io.ReadAll(r); len(rest) > 0 {
				t.Errorf("the tunnel answered %q", rest)
			}
			if !w.logged(tt.want, false) {
				t.Errorf("log %v, want %s", w.allAttempts(), tt.want)
			}
		})
	}
}

// hello says what a TLS client says first.
func hello(c io.ReadWriter, name string) {
	_ = tls.Client(helloWriter{c}, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, request string
		want          Why
	}{
		{"name_beside", "GET http://web.example.net/ HTTP/1.1\r\nHost: web.example.net\r\n\r\n", NotListed},
		{"name_above", "GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n", NotListed},
		{"port_beside", "GET http://web.example.org:22/ HTTP/1.1\r\nHost: web.example.org:22\r\n\r\n", NotListed},
		{"connect_port_beside", "CONNECT web.example.org:22 HTTP/1.1\r\nHost: x\r\n\r\n", NotListed},
		{"connect_without_port", "CONNECT web.example.org HTTP/1.1\r\nHost: x\r\n\r\n", NotListed},
		{"connect_address", "CONNECT 93.184.215.14:443 HTTP/1.1\r\nHost: web.example.org:443\r\n\r\n", NoName},
		{"connect_metadata", "CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: web.example.org:80\r\n\r\n", NoName},
		{"address", "GET http://127.0.0.1/ HTTP/1.1\r\nHost: web.example.org\r\n\r\n", NoName},
		{"decimal", "GET http://2130706433/ HTTP/1.1\r\nHost: web.example.org\r\n\r\n", NoName},
		{"octal", "GET http://0177.0.0.1/ HTTP/1.1\r\nHost: web.example.org\r\n\r\n", NoName},
		{"hexadecimal", "GET http://0x7f000001/ HTTP/1.1\r\nHost: web.example.org\r\n\r\n", NoName},
		{"short", "GET http://127.1/ HTTP/1.1\r\nHost: web.example.org\r\n\r\n", NoName},
		{"mapped", "GET http://[::ffff:127.0.0.1]/ HTTP/1.1\r\nHost: web.example.org\r\n\r\n", NoName},
		{"ipv6_link_local", "GET http://[fe80::1%25eth0]/ HTTP/1.1\r\nHost: web.example.org\r\n\r\n", NoName},
		{"resolves_to_mapped", "GET http://mapped.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n", Special},
		{"resolves_to_metadata", "GET http://metadata.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n", Special},
		{"resolves_to_both", "GET http://both.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n", Special},
		{"resolves_to_host", "GET http://own.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n", OwnAddress},
		{"resolves_to_nothing", "GET http://none.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n", NotResolved},
		{"nobody_there", "GET http://next.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n", NotConnected},
		{"origin_form", "GET / HTTP/1.1\r\nHost: web.example.org\r\n\r\n", NotProxied},
		{"other_scheme", "GET ftp://web.example.org/ HTTP/1.1\r\nHost: web.example.org\r\n\r\n", NotProxied},
		{"https_in_the_clear", "GET https://web.example.org/ HTTP/1.1\r\nHost: web.example.org\r\n\r\n", NotProxied},
		{"user_before_host", "GET http://web.example.org@127.0.0.1/ HTTP/1.1\r\nHost: web.example.org\r\n\r\n", NoName},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, webPolicy, Caps{})
			w.serve(webAddr, func(http.ResponseWriter, *http.Request) { t.Error("the request arrived") })
			line := w.raw(tt.request)
			if !strings.Contains(line, " 4") && !strings.Contains(line, " 502") {
				t.Errorf("answer %q", line)
			}
			if !w.logged(tt.want, false) {
				t.Errorf("log %+v, want %s", w.allAttempts(), tt.want)
			}
			if d := w.allDialled(); tt.want != NotConnected && len(d) > 0 {
				t.Errorf("dialled %v", d)
			}
		})
	}
}

// TestHostHeaderDoesNotDecide asks for an allowed URL with another host's name
// in the header.
func TestHostHeaderDoesNotDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t, webPolicy, Caps{})
	got := make(chan string, 1)
	w.serve(webAddr, func(_ http.ResponseWriter, r *http.Request) { got <- r.Host })
	w.raw("GET http://web.example.org/ HTTP/1.1\r\nHost: next.example.org\r\n\r\n")
	if h := <-got; h != "web.example.org" {
		t.Errorf("the server saw host %q", h)
	}
}

// TestRebindingIsCaught has a resolver that changes its answer.
func TestRebindingIsCaught(t *testing.T) {
	t.Parallel()
	w := newWorld(t, webPolicy, Caps{})
	w.serve(webAddr, func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Set("Connection", "close") })
	w.next["rebind.example.org"] = []netip.Addr{netip.MustParseAddr("169.254.169.254")}
	const ask = "GET http://rebind.example.org/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	if line := w.raw(ask); !strings.Contains(line, "200") {
		t.Fatalf("first answer %q", line)
	}
	if line := w.raw(ask); !strings.Contains(line, "403") {
		t.Errorf("second answer %q", line)
	}
	if d := w.allDialled(); len(d) != 1 || d[0].Addr() != webAddr {
		t.Errorf("dialled %v", d)
	}
	if w.resolved["rebind.example.org"] != 2 {
		t.Errorf("resolved %d times for two connections", w.resolved["rebind.example.org"])
	}
}

// TestRedirectIsTheClientsOwn has an allowed server point to what is not.
func TestRedirectIsTheClientsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, webPolicy, Caps{})
	w.serve(webAddr, func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, "http://169.254.169.254/latest", http.StatusFound)
	})
	client := w.client(nil)
	client.CheckRedirect = nil // follow
	resp, err := client.Get("http://web.example.org/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden || !w.logged(NoName, false) {
		t.Errorf("status %d, log %v", resp.StatusCode, w.allAttempts())
	}
}

func TestSetCutsWhatIsNotPermittedAnyMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, webPolicy, Caps{})
	arrived := make(chan struct{})
	w.serve(webAddr, func(rw http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	answers := make(chan string, 1)
	go func() { answers <- w.raw("GET http://web.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n") }()
	<-arrived
	if err := w.gate.Set(Policy{Allow: []string{"next.example.org"}}); err != nil {
		t.Fatal(err)
	}
	if line := <-answers; !strings.Contains(line, "502") {
		t.Errorf("answer %q", line)
	}
	if line := w.raw("GET http://web.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.Contains(line, "403") {
		t.Errorf("answer %q", line)
	}
	if err := w.gate.Set(Policy{Allow: []string{"*"}}); err == nil {
		t.Error("a policy that means nothing was taken")
	}
}

func TestCaps(t *testing.T) {
	t.Parallel()
	const get = "GET http://web.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n"
	large := func(rw http.ResponseWriter, _ *http.Request) {
		for range 64 {
			if _, err := rw.Write(make([]byte, 16<<10)); err != nil {
				return
			}
		}
	}
	t.Run("request_bytes", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, webPolicy, Caps{RequestBytes: 100 << 10})
		w.serve(webAddr, large)
		resp, err := w.client(nil).Get("http://web.example.org/")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if n, err := io.Copy(io.Discard, resp.Body); err == nil || n > 100<<10 {
			t.Errorf("%d bytes came, %v; want an error", n, err)
		}
	})
	t.Run("total_bytes", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, webPolicy, Caps{TotalBytes: 100 << 10})
		w.serve(webAddr, large)
		resp, err := w.client(nil).Get("http://web.example.org/")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if n, err := io.Copy(io.Discard, resp.Body); err == nil || n > 200<<10 {
			t.Errorf("%d bytes came, %v; want an error", n, err)
		}
		if line := w.raw(get); !strings.Contains(line, "403") || !w.logged(TooLarge, false) {
			t.Errorf("answer %q, log %v", line, w.allAttempts())
		}
	})
	t.Run("rate", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, webPolicy, Caps{Requests: 1})
		w.serve(webAddr, func(http.ResponseWriter, *http.Request) {})
		w.raw(get)
		w.raw(get)
		if !w.logged(TooFast, false) {
			t.Errorf("log %v", w.allAttempts())
		}
	})
	t.Run("connections", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, webPolicy, Caps{Connections: 2})
		w.serve(webAddr, func(http.ResponseWriter, *http.Request) {})
		w.open()
		w.open()
		c := w.open()
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("the third connection was served")
		}
		if !w.logged(TooMany, false) {
			t.Errorf("log %v", w.allAttempts())
		}
	})
}

// TestLogIsBounded has a sandbox that tries to fill the log.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	told, counted := 0, 0
	l := attempts{tell: func(a Attempt) {
		told++
		counted = max(counted, a.Count)
	}}
	for i := range 20_000 {
		l.add(Attempt{How: "http", Target: fmt.Sprint("n", i)})
		l.add(Attempt{How: "http", Target: "same"})
	}
	if told > maxDistinct+20 || counted < 10_000 || l.total != 40_000 {
		t.Errorf("told %d, highest count %d, total %d", told, counted, l.total)
	}
}

// FuzzRequest sends bytes of a hostile sandbox: nothing may be dialled.
func FuzzRequest(f *testing.F) {
	f.Add([]byte("CONNECT 127.0.0.1:80 HTTP/1.1\r\n\r\n"))
	f.Add([]byte("GET http://[::1]/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"))
	f.Add([]byte("GET http://a.b/ HTTP/1.0\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := newWorld(t, Policy{}, Caps{})
		c := w.open()
		_, _ = c.Write(b)
		_ = c.(interface{ CloseWrite() error }).CloseWrite()
		_, _ = io.Copy(io.Discard, c)
		if d := w.allDialled(); len(d) > 0 {
			t.Errorf("%q dialled %v", b, d)
		}
	})
}
