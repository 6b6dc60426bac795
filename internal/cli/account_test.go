package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rogpeppe/go-internal/testscript"

	"assay/api"
	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/httpapi"
	"assay/internal/sqlstore"
)

// accountServer is a server that has accounts and nothing else.
type accountServer struct {
	url    string
	people *account.Service
	admin  account.User
	// codes are those that programs were told to show.
	codes chan string
}

type noNodes struct{}

func (noNodes) About() api.Server { return api.Server{Name: "assay", Version: "1"} }

func (noNodes) Nodes(context.Context) ([]httpapi.NodeState, error) { return nil, nil }

// startAccountServer starts one with an admin "root". done stops it.
func startAccountServer(ctx context.Context, dir string) (_ *accountServer, done func(), err error) {
	db, err := sqlstore.Open(ctx, filepath.Join(dir, "assay.db"))
	if err != nil {
		return nil, nil, err
	}
	s := &accountServer{codes: make(chan string, 8)}
	log := slog.New(slog.DiscardHandler)
	cfg := account.Config{Hash: account.HashCost{Memory: 64, Passes: 1, Threads: 1}, DevicePoll: time.Second}
	if s.people, err = account.New(db.Accounts(), cfg, log); err != nil {
		return nil, nil, err
	}
	// It listens before it serves: the links that the door makes have its address.
	web := httptest.NewUnstartedServer(nil)
	s.url = "http://" + web.Listener.Addr().String()
	door, err := httpapi.New(httpapi.Options{
		Log: log, Accounts: s.people, People: s.people, PublicURL: s.url, Server: noNodes{},
		Metrics: prometheus.NewRegistry(), Ready: func(context.Context) error { return nil },
	})
	if err != nil {
		return nil, nil, err
	}
	web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.listen(door, w, r) })
	web.Start()
	code, err := s.people.SetupCode(ctx)
	if err != nil {
		return nil, nil, err
	}
	in, err := s.people.UseLink(ctx, code, account.NewUser{Login: "root"}, "correct horse battery", account.Caller{Address: "127.0.0.1"})
	s.admin = in.User
	return s, func() {
		web.Close()
		// Nothing was written that the test wants.
		_ = db.Close()
	}, err
}

// listen hears which codes programs are given.
func (s *accountServer) listen(door http.Handler, w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/api/v1/device" {
		door.ServeHTTP(w, r)
		return
	}
	heard := httptest.NewRecorder()
	door.ServeHTTP(heard, r)
	var d api.DeviceCodes
	if json.Unmarshal(heard.Body.Bytes(), &d) == nil && d.UserCode != "" {
		s.codes <- d.UserCode
	}
	for k, v := range heard.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(heard.Code)
	// The client's end of it is what the test looks at.
	_, _ = io.Copy(w, bytes.NewReader(heard.Body.Bytes()))
}

// as gives a context in which a user asks with a browser.
func (s *accountServer) as(ctx context.Context, login string) (context.Context, error) {
	root := account.WithActor(ctx, account.Actor{User: s.admin.ID, Name: "root", Role: account.Admin})
	u, err := s.people.User(root, login)
	return account.WithActor(ctx, account.Actor{User: u.ID, Name: u.Login, Role: u.Role}), err
}

// TestAccountScripts runs the commands of accounts against a server; each
// script has one of its own. "answer LOGIN approve|deny" is what a person does
// in a browser with the code that the program shows.
func TestAccountScripts(t *testing.T) {
	t.Parallel()
	type key struct{}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "account"),
		Setup: func(env *testscript.Env) error {
			s, done, err := startAccountServer(context.Background(), env.WorkDir)
			if err != nil {
				return err
			}
			env.Defer(done)
			env.Values[key{}] = s
			env.Setenv("SERVER", s.url)
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"answer": func(ts *testscript.TestScript, _ bool, args []string) {
				s, ok := ts.Value(key{}).(*accountServer)
				if !ok || len(args) != 2 {
					ts.Fatalf("usage: answer LOGIN approve|deny")
				}
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				select {
				case code := <-s.codes:
					ctx, err := s.as(ctx, args[0])
					ts.Check(err)
					_, err = s.people.DecideDevice(ctx, code, args[1] == "approve")
					ts.Check(err)
				case <-ctx.Done():
					ts.Fatalf("no program asked")
				}
			},
			// mode FILE MODE checks who may read a file.
			"mode": func(ts *testscript.TestScript, _ bool, args []string) {
				info, err := os.Stat(ts.MkAbs(args[0]))
				ts.Check(err)
				if got := info.Mode().Perm().String(); got != args[1] {
					ts.Fatalf("%s is %s, want %s", args[0], got, args[1])
				}
			},
			// keep NAME VALUE-FILE puts a file's one line into the environment.
			"keep": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
			},
		},
	})
}

func TestTokenLife(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text    string
		seconds int64
		never   bool
		bad     bool
	}{
		{"", 0, false, false},
		{"never", 0, true, false},
		{"12h", 43200, false, false},
		{"90d", 7776000, false, false},
		{"1m", 60, false, false},
		{"0d", 0, false, true},
		{"-1d", 0, false, true},
		{"30s", 0, false, true},
		{"99999d", 0, false, true},
		{"d", 0, false, true},
		{"soon", 0, false, true},
		{"5", 0, false, true},
	} {
		seconds, never, err := life(tt.text)
		if seconds != tt.seconds || never != tt.never || (err != nil) != tt.bad || tt.bad && !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %d, %v, %v", tt.text, seconds, never, err)
		}
	}
}

func FuzzReadToken(f *testing.F) {
	f.Add("asy_abc\n")
	f.Add("a b\x00")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := readToken(strings.NewReader(text))
		if err == nil && (token == "" || strings.ContainsAny(token, " \r\n\t\x00") || len(token) > maxTokenLine) {
			t.Errorf("%q gives %q", text, token)
		}
	})
}
