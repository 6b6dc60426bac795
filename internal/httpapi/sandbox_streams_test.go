package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"assay/internal/account"
	"assay/internal/guest"
)

// deadKeyboard is that of a terminal whose command has ended.
type deadKeyboard struct{}

func (deadKeyboard) Write([]byte) (int, error) { return 0, errors.New("the command has ended") }
func (deadKeyboard) Resize(context.Context, guest.TerminalSize) error {
	return errors.New("the command has ended")
}

// TestTypingAfterTheEndKeepsTheConnection: who types while the command ends must
// still hear how it ended.
func TestTypingAfterTheEndKeepsTheConnection(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.CloseNow() }()
		typed(r.Context(), c, deadKeyboard{})
	}))
	defer srv.Close()
	c, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(srv.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	for _, m := range []struct {
		kind websocket.MessageType
		text string
	}{{websocket.MessageBinary, "x"}, {websocket.MessageText, `{"type":"resize","rows":2,"cols":2}`}, {websocket.MessageText, "nonsense"}} {
		if err := c.Write(t.Context(), m.kind, []byte(m.text)); err != nil {
			t.Fatal(err)
		}
	}
	// What is no message ends it, and nothing before did.
	if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusUnsupportedData {
		t.Errorf("the connection ended with %v", err)
	}
}

// TestPortsForgetTheCaller: a server in a sandbox learns no secret of who asks it.
func TestPortsForgetTheCaller(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("GET", "/x?access_token=pds_secret&a=1", nil)
	r.Header = http.Header{
		"Authorization": {"Bearer secret"}, "Proxy-Authorization": {"secret"}, "Cookie": {"assay=secret"}, "X-Forwarded-For": {"192.0.2.1"},
		"Assay-Forwarded": {"1"}, "Sec-Websocket-Protocol": {"vnc, bearer.secret", "bearer.secret,binary"}, "Accept": {"*/*"},
	}
	forgetCaller(r)
	want := http.Header{"Sec-Websocket-Protocol": {"vnc, binary"}, "Accept": {"*/*"}}
	if diff := cmp.Diff(want, r.Header); diff != "" || r.URL.RawQuery != "a=1" {
		t.Errorf("query %q; headers: want -, got +:\n%s", r.URL.RawQuery, diff)
	}
	r.Header = http.Header{"Sec-Websocket-Protocol": {"bearer.secret"}}
	if forgetCaller(r); len(r.Header) != 0 {
		t.Errorf("headers %v", r.Header)
	}
}

// TestPortsSpeakForNoOrigin: an answer of a sandbox changes nothing of how a
// browser treats this server.
func TestPortsSpeakForNoOrigin(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	for _, name := range []string{"Set-Cookie", "Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "Service-Worker-Allowed", "NEL", "Report-To", "Reporting-Endpoints", "Content-Security-Policy"} {
		h.Set(name, "of the sandbox")
	}
	h.Set("Content-Type", "text/html")
	ofNoOrigin(h)
	want := http.Header{"Content-Type": {"text/html"}, "Content-Security-Policy": {"sandbox allow-scripts allow-forms"}}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Error(diff)
	}
}

// TestHintsAreNoAnswer: the status of a request is that of its answer, whatever
// came before.
func TestHintsAreNoAnswer(t *testing.T) {
	t.Parallel()
	a := &answer{ResponseWriter: httptest.NewRecorder()}
	a.WriteHeader(http.StatusEarlyHints)
	if a.status != 0 {
		t.Errorf("status %d before the answer", a.status)
	}
	a.WriteHeader(http.StatusNotFound)
	if a.status != http.StatusNotFound {
		t.Errorf("status %d", a.status)
	}
}

// TestWhoIsFoundOutLateIsWrittenDown: a front that finds its caller by itself, as
// by a key in the query, leaves the same traces as any other door.
func TestWhoIsFoundOutLateIsWrittenDown(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options, _ *account.Config) {
		o.Mount = func(mux *http.ServeMux) {
			mux.HandleFunc("POST /v1/sandboxes", func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Has("access_token") {
					r = Identified(r, account.Actor{User: "u7", Name: "ann", Role: account.Member, Token: "t7"})
				}
				if account.ActorOf(r.Context()).User != "u7" {
					w.WriteHeader(http.StatusUnauthorized)
				}
			})
		}
	})
	for query, want := range map[string]int{"?access_token=x": http.StatusOK, "": http.StatusUnauthorized} {
		if got := ask(s, "POST", "/v1/sandboxes"+query).Code; got != want {
			t.Errorf("%q: %d, want %d", query, got, want)
		}
	}
	entries, err := s.store.Audit(t.Context(), account.AuditQuery{Limit: 10})
	if err != nil || len(entries) != 1 || entries[0].Who != "u7" || entries[0].Token != "t7" || entries[0].Action != "POST /v1/sandboxes" || entries[0].Outcome != 200 {
		t.Errorf("the audit log has %+v, %v", entries, err)
	}
	if !strings.Contains(s.log.String(), `"user":"ann","token":"t7"`) {
		t.Error("the server's log does not say who it was")
	}
}
