package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nats-io/nats-server/v2/server"

	"assay/internal/account"
	"assay/internal/blob/blobtest"
	"assay/internal/config"
	"assay/internal/require"
	"assay/internal/sandbox"
	"assay/internal/sandboxes"
	"assay/internal/sqlstore/sqltest"
	"assay/internal/work"
)

// cluster is a server for users and nodes that share PostgreSQL, NATS and S3.
type cluster struct {
	t     *testing.T
	api   *Server
	nodes []*Server
	token string
}

func clusterNATS(t *testing.T) string {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("NATS is not ready")
	}
	return "nats://" + s.Addr().String()
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	dirs := []string{t.TempDir(), testData(t), testData(t)}
	shared := config.Server{
		Listen: "127.0.0.1:0", PublicURL: "http://assay.example", LogFormat: "text", Lease: 3 * time.Second, Drain: 5 * time.Second,
		DatabaseURL: config.Secret(sqltest.Postgres(t).URL), NATSURL: config.Secret(clusterNATS(t)), BlobURL: config.Secret(blobtest.S3(t).URL),
	}
	c := &cluster{t: t}
	for i, role := range []string{"api", "node", "node"} {
		own := shared
		// As on one host: only the nodes have names that differ.
		own.Role, own.Node = role, []string{"n1", "n1", "n2"}[i]
		s, err := OpenServer(t.Context(), ServerOptions{
			Config: own, DataDir: dirs[i], BinDir: require.Binaries(t), Version: "test",
			Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		var ran sync.WaitGroup
		ran.Go(func() {
			if err := s.Run(ctx); err != nil {
				t.Errorf("%s: %v", role, err)
			}
		})
		t.Cleanup(func() {
			stop()
			ran.Wait()
			if err := s.Close(); err != nil {
				t.Errorf("%s: %v", role, err)
			}
		})
		if role == "api" {
			c.api = s
			continue
		}
		if _, err := s.Engine.Template(t.Context(), "base", nil); err != nil {
			t.Fatal(err)
		}
		s.Prepared()
		c.nodes = append(c.nodes, s)
	}
	c.token = c.signUp()
	for deadline := time.Now().Add(time.Minute); ; {
		all, err := c.api.db.Work().Nodes(t.Context())
		if err != nil || time.Now().After(deadline) {
			t.Fatal(all, err)
		}
		if len(all) == 2 {
			return c
		}
		<-time.After(20 * time.Millisecond)
	}
}

// signUp makes the first admin and gives a token of theirs.
func (c *cluster) signUp() string {
	c.t.Helper()
	ctx := c.t.Context()
	code, err := c.api.Accounts.SetupCode(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	in, err := c.api.Accounts.UseLink(ctx, code, account.NewUser{Login: "ada"}, "correct horse battery", account.Caller{Address: "192.0.2.1"})
	if err != nil {
		c.t.Fatal(err)
	}
	actor, err := c.api.Accounts.BySession(ctx, in.Secret)
	if err != nil {
		c.t.Fatal(err)
	}
	_, secret, err := c.api.Accounts.CreateToken(account.WithActor(ctx, actor), account.NewToken{Name: "test", Scopes: account.Scopes()})
	if err != nil {
		c.t.Fatal(err)
	}
	return secret
}

func (s *Server) at(path string) string { return "http://" + s.Address().String() + path }

// ask sends JSON to a server and reads the answer into v, if it is not nil.
func (c *cluster) ask(s *Server, method, path, body string, want int, v any) {
	c.t.Helper()
	text := c.raw(s, method, path, "application/json", body, want)
	if v != nil {
		if err := json.Unmarshal([]byte(text), v); err != nil {
			c.t.Fatalf("%s: %v", text, err)
		}
	}
}

func (c *cluster) raw(s *Server, method, path, kind, body string, want int) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.at(path), strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("Content-Type", kind)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if res.StatusCode != want {
		c.t.Fatalf("%s %s: %s %s, want %d", method, path, res.Status, text, want)
	}
	return string(text)
}

type madeSandbox struct{ ID, Node, State string }

// TestSlowSandboxCountsBeforeItIsThere: a node that shows that it lives while it
// makes a sandbox must not look as empty as before.
func TestSlowSandboxCountsBeforeItIsThere(t *testing.T) {
	t.Parallel()
	s, _ := sweeper(t)
	s.config = (&backing{}).config()
	s.config.Role = "api"
	n := s.openNodes()
	begin := time.Now()
	room := func(after time.Duration) string {
		t.Helper()
		for _, id := range []string{"n1", "n2"} {
			node := work.Node{ID: id, Address: "http://" + id, Seen: begin.Add(after), Load: work.Load{Memory: 8 << 30}}
			if err := s.db.Work().Beat(t.Context(), node); err != nil {
				t.Fatal(err)
			}
		}
		n.at = time.Time{} // ask again
		p, err := n.Room(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return p.Name
	}
	if one, two := room(0), room(time.Second); one == two {
		t.Errorf("both sandboxes went to %s", one)
	}
	// Much later what was sent has been made, or never will be.
	room(time.Hour)
	if len(n.sent["n1"])+len(n.sent["n2"]) != 1 {
		t.Errorf("what was sent is remembered: %v", n.sent)
	}
}

// TestServersOfACluster runs beside tests that end whole engines: its sandboxes
// live.
func TestServersOfACluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	made := map[string]madeSandbox{}
	for range 2 {
		var b madeSandbox
		c.ask(c.api, "POST", "/api/v1/sandboxes", `{"template":"base"}`, 201, &b)
		made[b.Node] = b
	}
	if len(made) != 2 {
		t.Fatalf("two sandboxes went to %v, want each on a node of its own", made)
	}
	one, two := made["n1"], made["n2"]
	// Each server answers for the sandbox that another one has.
	for name, from := range map[string]struct {
		s   *Server
		box string
	}{"api_n1": {c.api, one.ID}, "api_n2": {c.api, two.ID}, "n1_n2": {c.nodes[0], two.ID}, "n2_n1": {c.nodes[1], one.ID}} {
		t.Run(name, func(t *testing.T) {
			c := *c
			c.t = t
			c.inside(from.s, "/api/v1/sandboxes/"+from.box)
		})
	}
	for _, s := range []*Server{c.api, c.nodes[0], c.nodes[1]} {
		var list struct{ Items []madeSandbox }
		c.ask(s, "GET", "/api/v1/sandboxes", "", 200, &list)
		var ids []string
		for _, b := range list.Items {
			ids = append(ids, b.ID)
		}
		slices.Sort(ids)
		want := []string{one.ID, two.ID}
		slices.Sort(want)
		if !slices.Equal(ids, want) {
			t.Errorf("listed %v, want %v", ids, want)
		}
	}
	c.snapshots(two)
	c.otherFront()
	c.status(one, two)
	c.ask(c.nodes[0], "DELETE", "/api/v1/sandboxes/"+two.ID, "", 204, nil)
	var b madeSandbox
	if c.ask(c.api, "GET", "/api/v1/sandboxes/"+two.ID, "", 200, &b); b.State != "ended" {
		t.Errorf("after its end: %+v", b)
	}
	c.lostNode()
	c.metrics()
}

// metrics reads what the node that made sandboxes tells.
func (c *cluster) metrics() {
	c.t.Helper()
	text := c.raw(c.nodes[0], "GET", "/metrics", "", "", 200)
	for _, want := range []string{
		`assay_up{part="database"} 1`, `assay_up{part="events"} 1`, `assay_up{part="blobs"} 1`,
		`assay_sandboxes_created_total{boot_mode="snapshot",template="base"}`, `assay_sandbox_create_seconds_count{boot_mode="snapshot"}`,
		`assay_sandboxes_live{template="base"} 1`, `assay_execs_total{cause="exited"}`,
		`assay_event_streams 0`, `assay_sandbox_memory_bytes{what="held"}`, `assay_http_requests_total{route="forwarded",status="200"}`,
	} {
		if !strings.Contains(text, "\n"+want) {
			c.t.Errorf("no %s in the metrics", want)
		}
	}
	if c.t.Failed() {
		c.t.Log(text)
	}
	if text := c.raw(c.api, "GET", "/metrics", "", "", 200); strings.Contains(text, "assay_sandboxes_live") || !strings.Contains(text, "assay_up") {
		c.t.Errorf("metrics of a process without sandboxes: %s", text)
	}
}

// inside uses a sandbox: a command, a stream, a file, a terminal.
func (c *cluster) inside(s *Server, box string) {
	t := c.t
	t.Helper()
	var res struct {
		Stdout   string
		ExitCode int `json:"exit_code"`
	}
	c.ask(s, "POST", box+"/exec", `{"command":"echo hello; exit 3"}`, 200, &res)
	if res.Stdout != "hello\n" || res.ExitCode != 3 {
		t.Errorf("exec: %+v", res)
	}
	c.raw(s, "PUT", box+"/files?path=/tmp/b", "application/octet-stream", "some bytes", 200)
	if got := c.raw(s, "GET", box+"/files?path=/tmp/b", "", "", 200); got != "some bytes" {
		t.Errorf("file: %q", got)
	}
	c.ask(s, "GET", box+"/files?path=/tmp/none", "", 404, nil)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	header := http.Header{"Authorization": {"Bearer " + c.token}, "Content-Type": {"application/json"}}
	r, err := http.NewRequestWithContext(ctx, "POST", s.at(box+"/exec/stream"), strings.NewReader(`{"command":"echo one; read x < /tmp/go; echo two"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	c.ask(s, "POST", box+"/exec", `{"command":"mkfifo -m 666 /tmp/go"}`, 200, nil)
	stream, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	var got []string
	for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if got = append(got, data); len(got) == 1 {
			// The command goes on when its first line is here.
			c.ask(s, "POST", box+"/exec", `{"command":"echo > /tmp/go; rm /tmp/go"}`, 200, nil)
		}
	}
	if len(got) != 3 || got[0] != `{"chunk":"one\n"}` || got[1] != `{"chunk":"two\n"}` {
		t.Errorf("stream: %q", got)
	}

	ws, _, err := websocket.Dial(ctx, strings.Replace(s.at(box+"/terminal?command="+url.QueryEscape("read x; echo got $x")), "http:", "ws:", 1), &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	if err := ws.Write(ctx, websocket.MessageBinary, []byte("word\n")); err != nil {
		t.Fatal(err)
	}
	var seen strings.Builder
	for {
		_, data, err := ws.Read(ctx)
		if websocket.CloseStatus(err) == websocket.StatusNormalClosure {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		seen.Write(data)
	}
	if !strings.Contains(seen.String(), "got word") || !strings.Contains(seen.String(), `"exit"`) {
		t.Errorf("terminal: %q", seen.String())
	}
}

// snapshots makes sandboxes of a snapshot where that lies.
func (c *cluster) snapshots(of madeSandbox) {
	c.t.Helper()
	var snap struct{ ID, Node string }
	c.ask(c.api, "POST", "/api/v1/sandboxes/"+of.ID+"/snapshots", `{}`, 201, &snap)
	var b madeSandbox
	c.ask(c.api, "POST", "/api/v1/sandboxes", `{"snapshot":"`+snap.ID+`"}`, 201, &b)
	if snap.Node != of.Node || b.Node != of.Node {
		c.t.Errorf("snapshot on %s and its sandbox on %s, want %s", snap.Node, b.Node, of.Node)
	}
	c.ask(c.nodes[0], "DELETE", "/api/v1/sandboxes/"+b.ID, "", 204, nil)
	var forked struct {
		Children []struct{ Sandbox madeSandbox }
	}
	c.ask(c.nodes[0], "POST", "/api/v1/snapshots/"+snap.ID+"/fork", `{"count":1}`, 201, &forked)
	if len(forked.Children) != 1 || forked.Children[0].Sandbox.Node != of.Node {
		c.t.Fatalf("forked %+v", forked)
	}
	c.ask(c.api, "DELETE", "/api/v1/sandboxes/"+forked.Children[0].Sandbox.ID, "", 204, nil)
	c.ask(c.api, "DELETE", "/api/v1/snapshots/"+snap.ID, "", 204, nil)
	var templates struct{ Items []struct{ Name string } }
	if c.ask(c.api, "GET", "/api/v1/templates", "", 200, &templates); len(templates.Items) == 0 {
		c.t.Error("no templates")
	}
}

func (c *cluster) otherFront() {
	c.t.Helper()
	var b madeSandbox
	c.ask(c.api, "POST", "/v1/sandboxes", `{"template":"code-interpreter"}`, 201, &b)
	var res struct {
		Stdout string
	}
	c.ask(c.api, "POST", "/v1/sandboxes/"+b.ID+"/exec", `{"cmd":"echo front"}`, 200, &res)
	if res.Stdout != "front\n" {
		c.t.Errorf("exec: %+v", res)
	}
	c.ask(c.api, "DELETE", "/v1/sandboxes/"+b.ID, "", 204, nil)
}

// status waits until the list of nodes tells what they hold.
func (c *cluster) status(made ...madeSandbox) {
	c.t.Helper()
	type state struct {
		Name      string
		Alive     bool
		Sandboxes int
		Memory    int64 `json:"memory_bytes"`
	}
	var list struct{ Items []state }
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		c.ask(c.api, "GET", "/api/v1/nodes", "", 200, &list)
		fits := len(list.Items) == 2
		for _, n := range list.Items {
			fits = fits && n.Alive && n.Sandboxes == 1 && n.Memory > 0
		}
		if fits {
			return
		}
	}
	c.t.Errorf("nodes are %+v", list.Items)
	for _, b := range made {
		c.t.Logf("%s", c.raw(c.api, "GET", "/api/v1/sandboxes/"+b.ID, "", "", 200))
	}
}

// lostNode asks for a sandbox whose node is not there any more.
func (c *cluster) lostNode() {
	t := c.t
	t.Helper()
	_, rows := t.Context(), c.api.db.Sandboxes()
	row := sandboxes.Record{
		ID: "lost", Owner: "somebody", Node: "n9", Template: "base", Shape: sandbox.Shape{VCPUs: 1, Memory: 1 << 20, Disk: 1 << 20, Processes: 1},
		Created: time.Now().Add(-time.Hour), Deadline: time.Now().Add(time.Hour),
	}
	if err := rows.AddSandbox(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	var b madeSandbox
	if c.ask(c.api, "GET", "/api/v1/sandboxes/lost", "", 200, &b); b.State != "running" {
		t.Errorf("before it is written off: %+v", b)
	}
	var e struct{ Code, Hint string }
	c.ask(c.api, "POST", "/api/v1/sandboxes/lost/exec", `{"command":"true"}`, 503, &e)
	if e.Code != "sandbox.unavailable" || e.Hint == "" {
		t.Errorf("exec: %+v", e)
	}
	if err := errors.Join(c.api.writeOff(t.Context()), c.nodes[0].writeOff(t.Context())); err != nil {
		t.Fatal(err)
	}
	c.ask(c.api, "DELETE", "/api/v1/sandboxes/lost", "", 204, nil)
	if c.ask(c.api, "GET", "/api/v1/sandboxes/lost", "", 200, &b); b.State != "ended" {
		t.Errorf("after it was written off: %+v", b)
	}
	var list struct{ Items []madeSandbox }
	if c.ask(c.api, "GET", "/api/v1/sandboxes", "", 200, &list); len(list.Items) != 1 {
		t.Errorf("live: %+v", list.Items)
	}
}
