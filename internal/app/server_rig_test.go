package app

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/client"
	"assay/internal/account"
	"assay/internal/blob/blobtest"
	"assay/internal/bus/bustest"
	"assay/internal/config"
	"assay/internal/sqlstore/sqltest"
)

// patience is how long anything may take on a busy host.
const patience = time.Minute

// backing is what a server's rows, events and bytes are kept in. The zero value
// is all of it in the server's own process and data directory.
type backing struct {
	databaseURL string
	nats        *bustest.Server
	s3          *blobtest.Server
}

func (b *backing) shared() bool { return b.nats != nil }

// elsewhere is a PostgreSQL database, a NATS server and an S3 bucket.
func elsewhere(t *testing.T) *backing {
	t.Helper()
	return &backing{sqltest.Postgres(t).URL, bustest.NATS(t), blobtest.S3(t)}
}

// config is that of a server on these stores, for machines that are busy with
// other tests.
func (b *backing) config() config.Server {
	c := config.Server{
		Listen: "127.0.0.1:0", Role: "all", Node: "one", Pool: 0, Jobs: 2, Templates: []string{"base"}, Lease: 5 * time.Second, Drain: patience,
		MaxUpload: 64 << 20, Quota: config.Quota{Sandboxes: 10},
	}
	if b.shared() {
		c.DatabaseURL, c.NATSURL, c.BlobURL = config.Secret(b.databaseURL), config.Secret(b.nats.URL()), config.Secret(b.s3.URL)
	}
	return c
}

// onAllStores runs a test on both kinds of stores.
func onAllStores(t *testing.T, run func(t *testing.T, b *backing)) {
	t.Run("embedded", func(t *testing.T) { run(t, &backing{}) })
	t.Run("elsewhere", func(t *testing.T) { run(t, elsewhere(t)) })
}

// rig is a server that runs in this process.
type rig struct {
	*Server
	base  string
	stop  context.CancelFunc
	ended chan error
}

// start runs a server until the test ends.
func start(t *testing.T, dir string, c config.Server) *rig {
	t.Helper()
	log := io.Discard
	if testing.Verbose() {
		log = os.Stderr
	}
	s, err := OpenServer(t.Context(), ServerOptions{
		Config: c, DataDir: dir, BinDir: os.Getenv("ASSAY_BIN"), Version: "test", Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &rig{Server: s, base: "http://" + s.Address().String(), stop: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- errors.Join(s.Run(ctx), s.Close()) }()
	t.Cleanup(func() { r.end(t) })
	if s.Engine != nil {
		if err := (readyTemplates{s.Engine}).Ready(t.Context(), "base"); err != nil {
			t.Fatal(err)
		}
	}
	s.Prepared()
	return r
}

// end stops the server and waits for it. It may be called again.
func (r *rig) end(t *testing.T) {
	t.Helper()
	r.stop()
	select {
	case err := <-r.ended:
		if err != nil {
			t.Errorf("the server ended with %v", err)
		}
		r.ended <- nil
	case <-time.After(2 * patience):
		t.Fatal("the server does not end")
	}
}

// as gives a client of the server at base for a new user.
func as(t *testing.T, accounts *account.Service, base, login string, role account.Role) *client.ClientWithResponses {
	t.Helper()
	c, err := client.Connect(base, tokenOf(t, accounts, login, role))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func tokenOf(t *testing.T, accounts *account.Service, login string, role account.Role) string {
	t.Helper()
	u, err := accounts.CreateUser(account.WithActor(t.Context(), account.SystemActor()), account.NewUser{Login: login, Name: login, Role: role})
	if err != nil {
		t.Fatal(err)
	}
	ctx := account.WithActor(t.Context(), account.Actor{User: u.ID, Name: u.Login, Role: u.Role})
	_, secret, err := accounts.CreateToken(ctx, account.NewToken{Name: "test", Scopes: []account.Scope{account.ScopeJudge, account.ScopeSandboxes}})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func (r *rig) as(t *testing.T, login string, role account.Role) *client.ClientWithResponses {
	t.Helper()
	return as(t, r.Accounts, r.base, login, role)
}

// secretAnswer is the answer of a hidden case: no contestant may ever see it.
const secretAnswer = "731264"

// sum is a problem of two cases; the second one is hidden, with this answer.
func sum(t *testing.T, answer string) []byte {
	t.Helper()
	return pack(t, map[string]string{
		"problem.yaml": "name: Sum\nlimits:\n  memory: 128\n", ".timelimit": "2\n",
		"data/sample/1.in": "1 2\n", "data/sample/1.ans": "3\n", "data/secret/2.in": "731000 264\n", "data/secret/2.ans": answer + "\n",
		"submissions/accepted/a.py": rightSum,
	})
}

func pack(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, data := range files {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, data); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Programs for the problem.
const (
	rightSum = "print(sum(map(int, input().split())))\n"
	// It knows the sample only.
	wrongSum = "input(); print(3)\n"
	slowSum  = "import time; time.sleep(0.7); print(sum(map(int, input().split())))\n"
)

// upload puts a package on a server and opens the problem.
func upload(t *testing.T, c *client.ClientWithResponses, problem string, pkg []byte) {
	t.Helper()
	r, err := c.UploadProblemWithBodyWithResponse(t.Context(), problem, "application/zip", bytes.NewReader(pkg))
	must(t, r, err)
	o, err := c.ChangeProblemWithResponse(t.Context(), problem, client.ChangeProblemJSONRequestBody{Open: true})
	must(t, o, err)
}

// answer is what all calls of the client give.
type answer interface {
	GetBody() []byte
	StatusCode() int
}

// must wants a call to have succeeded.
func must(t *testing.T, a answer, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if a.StatusCode() >= 300 {
		t.Fatalf("the server answered %d: %s", a.StatusCode(), a.GetBody())
	}
}

// failure is why a call was refused, or nil.
func failure(t *testing.T, a answer, raw *http.Response, err error) *client.Failure {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var f *client.Failure
	errors.As(client.Check(raw, a.GetBody()), &f)
	return f
}

func python(problem, program string) client.NewSubmission {
	return client.NewSubmission{Problem: problem, Language: "python3", Files: []client.SourceFile{{Name: "a.py", Text: program}}}
}

// submit submits a program in Python to the problem "sum".
func submit(t *testing.T, c *client.ClientWithResponses, program string) client.Submission {
	t.Helper()
	r, err := c.SubmitWithResponse(t.Context(), &client.SubmitParams{}, python("sum", program))
	must(t, r, err)
	return *r.JSON201
}

// verdict waits until a submission's run has ended.
func verdict(t *testing.T, c *client.ClientWithResponses, id string) client.Submission {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < patience; {
		r, err := c.GetSubmissionWithResponse(t.Context(), id, &client.GetSubmissionParams{WaitSeconds: 5})
		must(t, r, err)
		if r.JSON200.Run.State == client.RunStateDone {
			return *r.JSON200
		}
	}
	t.Fatalf("submission %s has no verdict after %s", id, patience)
	return client.Submission{}
}

// eventually wants something to become true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); {
		if time.Since(begin) > patience {
			t.Fatalf("after %s it is still not so: %s", patience, what)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// ready is what GET /readyz says.
func ready(t *testing.T, base string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/readyz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// filesBelow are the files in a folder, by their paths in it.
func filesBelow(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			list = append(list, strings.TrimPrefix(path, dir))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
