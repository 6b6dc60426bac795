package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"assay/api"
	"assay/internal/account"
	"assay/internal/blob"
	"assay/internal/judge"
	"assay/internal/judge/problempkg"
	"assay/internal/judging"
	"assay/internal/sqlstore"
	"assay/internal/work"
)

// court is a door with the judge over a real store, and a worker without
// machines.
type court struct {
	http.Handler
	t       testing.TB
	db      *sqlstore.DB
	service *judging.Service
	w       *judging.Worker
	// submission is ada's, to the open problem "sum"; run is its run.
	submission, run string
}

// sameVerdict gives every submission the same.
type sameVerdict struct{}

func (sameVerdict) Ready(context.Context, string) error { return nil }
func (sameVerdict) Options() judge.Options              { return judge.Options{} }

func (sameVerdict) Run(_ context.Context, _ judge.Problem, s judge.Submission, _ judge.Observer) (judge.Run, error) {
	return judge.Run{
		Verdict: judge.WrongAnswer, Reason: "secret reason", FailedCase: 2, Submission: judge.SubmissionInfo{Name: s.Name, Language: s.Language, Digest: s.Digest()},
		Cases: []judge.CaseResult{{Number: 2, Name: "secret/07", Verdict: judge.WrongAnswer, Reason: "secret reason"}},
	}, nil
}

func newCourt(t testing.TB) *court {
	t.Helper()
	dir := t.TempDir()
	db, err := sqlstore.Open(t.Context(), filepath.Join(dir, "assay.db"))
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := blob.OpenFolder(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := judging.New(judging.Options{Store: db.Judging(), Blobs: blobs, Queue: noBus{}, Events: noBus{}, CacheDir: filepath.Join(dir, "cache")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), blobs.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	who := people{
		"ada": {User: "u-ada", Name: "ada", Role: account.Member}, "eve": {User: "u-eve", Name: "eve", Role: account.Member},
		"staff": {User: "u-staff", Name: "staff", Role: account.Staff}, "admin": {User: "u-admin", Name: "admin", Role: account.Admin},
		"other scope": {User: "u-staff", Name: "staff", Role: account.Staff, Token: "tok", Scopes: []account.Scope{account.ScopeClass}},
	}
	h, err := New(Options{
		Log: slog.New(slog.DiscardHandler), Accounts: who, Server: fixedInfo{}, Metrics: prometheus.NewRegistry(), Judge: s,
		Ready: func(context.Context) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &court{Handler: h, t: t, db: db, service: s, w: s.NewWorker(sameVerdict{}, sameVerdict{})}
	for _, id := range []string{"sum", "closed"} {
		c.want(201, "staff", "POST", "/api/v1/problems/"+id+"/versions", "application/zip", packageOf(t, id))
	}
	c.want(200, "staff", "PATCH", "/api/v1/problems/sum", "application/json", []byte(`{"open":true}`))
	var sub api.Submission
	c.read(c.want(201, "ada", "POST", "/api/v1/submissions", "application/json", []byte(submitSum)), &sub)
	now := time.Now()
	j, ok, err := db.Work().Claim(t.Context(), work.Claim{Node: "n", Kinds: []string{judging.JobKind}, Token: work.NewID(), Now: now, Until: now.Add(time.Hour)})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if err := c.w.Run(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	c.submission, c.run = sub.ID, sub.Run.ID
	return c
}

const submitSum = `{"problem":"sum","files":[{"name":"main.py","text":"print(1)"}]}`

// packageOf is a small problem package.
func packageOf(t testing.TB, id string) []byte {
	t.Helper()
	dir := filepath.Join(t.TempDir(), id)
	var b bytes.Buffer
	err := problempkg.New(dir, problempkg.PassFailTemplate, "")
	if err == nil {
		_, err = problempkg.Zip(dir, &b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (c *court) ask(who, method, path, kind string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, bytes.NewReader(body))
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	if who != "" {
		r.Header.Set("Authorization", "Bearer "+who)
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

func (c *court) want(status int, who, method, path, kind string, body []byte) *httptest.ResponseRecorder {
	c.t.Helper()
	w := c.ask(who, method, path, kind, body)
	if w.Code != status {
		c.t.Fatalf("%s %s as %s: %d %s, want %d", method, path, who, w.Code, w.Body, status)
	}
	return w
}

func (c *court) read(w *httptest.ResponseRecorder, v any) {
	c.t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
		c.t.Fatal(err)
	}
}

// TestWhoReachesTheJudge is every route of the judge by every role.
func TestWhoReachesTheJudge(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	who := []string{"", "other scope", "eve", "ada", "staff", "admin"}
	const rejudge = `{"problem":"sum","reason":"new tests"}`
	var set api.Rejudge
	c.read(c.want(201, "staff", "POST", "/api/v1/rejudges", "application/json", []byte(rejudge)), &set)
	rows := []struct {
		method, path, body string
		want               [6]int
	}{
		{"GET", "/api/v1/languages", "", [6]int{200, 200, 200, 200, 200, 200}},
		{"GET", "/api/v1/problems", "", [6]int{401, 403, 200, 200, 200, 200}},
		{"GET", "/api/v1/problems/sum", "", [6]int{401, 403, 200, 200, 200, 200}},
		{"GET", "/api/v1/problems/closed", "", [6]int{401, 403, 404, 404, 200, 200}},
		{"PATCH", "/api/v1/problems/sum", `{"open":true}`, [6]int{401, 403, 403, 403, 200, 200}},
		{"PATCH", "/api/v1/problems/closed", `{"open":false}`, [6]int{401, 403, 404, 404, 200, 200}},
		{"GET", "/api/v1/problems/sum/versions", "", [6]int{401, 403, 403, 403, 200, 200}},
		{"POST", "/api/v1/problems/sum/versions", "zip", [6]int{401, 403, 403, 403, 201, 201}},
		{"GET", "/api/v1/submissions", "", [6]int{401, 403, 200, 200, 200, 200}},
		{"POST", "/api/v1/submissions", submitSum, [6]int{401, 403, 201, 201, 201, 201}},
		{"GET", "/api/v1/submissions/" + c.submission, "", [6]int{401, 403, 404, 200, 200, 200}},
		{"GET", "/api/v1/submissions/" + c.submission + "/files", "", [6]int{401, 403, 404, 200, 200, 200}},
		{"GET", "/api/v1/submissions/" + c.submission + "/events", "", [6]int{401, 403, 404, 200, 200, 200}},
		{"GET", "/api/v1/submissions/" + c.submission + "/runs", "", [6]int{401, 403, 404, 403, 200, 200}},
		{"GET", "/api/v1/runs/" + c.run + "/record", "", [6]int{401, 403, 404, 403, 200, 200}},
		{"GET", "/api/v1/rejudges", "", [6]int{401, 403, 403, 403, 200, 200}},
		{"POST", "/api/v1/rejudges", rejudge, [6]int{401, 403, 403, 403, 201, 201}},
		{"GET", "/api/v1/rejudges/" + set.ID, "", [6]int{401, 403, 403, 403, 200, 200}},
		{"POST", "/api/v1/rejudges/" + set.ID + "/apply", "", [6]int{401, 403, 403, 403, 409, 409}},
		{"POST", "/api/v1/rejudges/" + set.ID + "/cancel", "", [6]int{401, 403, 403, 403, 200, 409}},
	}
	for _, tt := range rows {
		for i, a := range who {
			kind, body := "application/json", []byte(tt.body)
			if tt.body == "zip" {
				kind, body = "application/zip", packageOf(t, "sum")
			}
			w := c.ask(a, tt.method, tt.path, kind, body)
			if w.Code != tt.want[i] {
				t.Errorf("%s %s as %q: %d %s, want %d", tt.method, tt.path, a, w.Code, w.Body, tt.want[i])
			}
			if a != "staff" && a != "admin" && (strings.Contains(w.Body.String(), "secret reason") || strings.Contains(w.Body.String(), "secret/07")) {
				t.Errorf("%s %s shows %q what is hidden: %s", tt.method, tt.path, a, w.Body)
			}
		}
	}
	c.coversTheContract("judge", len(rows)-2) // two are there for a closed problem, too
}

// coversTheContract wants as many routes of a tag as a table has.
func (c *court) coversTheContract(tag string, rows int) {
	c.t.Helper()
	spec, err := api.GetSpec()
	if err != nil {
		c.t.Fatal(err)
	}
	n := 0
	for _, item := range spec.Paths.Map() {
		for _, op := range item.Operations() {
			if op.Tags[0] == tag {
				n++
			}
		}
	}
	if n != rows {
		c.t.Errorf("the contract has %d routes of the %s, the table %d", n, tag, rows)
	}
}

// TestJudgeRefusesBadInput: nothing of it is kept.
func TestJudgeRefusesBadInput(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	for _, tt := range []struct {
		name, method, path, kind, body string
		want                           int
	}{
		{"no_json", "POST", "/api/v1/submissions", "application/json", "{", 400},
		{"wrong_type", "POST", "/api/v1/submissions", "application/json", `{"problem":7,"files":[]}`, 400},
		{"unknown_field", "POST", "/api/v1/submissions", "application/json", `{"problem":"sum","files":[{"name":"a.py","text":"x"}],"verdict":"AC"}`, 400},
		{"no_files", "POST", "/api/v1/submissions", "application/json", `{"problem":"sum","files":[]}`, 400},
		{"both_contents", "POST", "/api/v1/submissions", "application/json", `{"problem":"sum","files":[{"name":"a.py","text":"x","base64":"eA=="}]}`, 400},
		{"no_base64", "POST", "/api/v1/submissions", "application/json", `{"problem":"sum","files":[{"name":"a.py","base64":"!"}]}`, 400},
		{"path_in_name", "POST", "/api/v1/submissions", "application/json", `{"problem":"sum","files":[{"name":"../../etc/a.py","text":"x"}]}`, 400},
		{"line_in_name", "POST", "/api/v1/submissions", "application/json", `{"problem":"sum","files":[{"name":"a\n.py","text":"x"}]}`, 400},
		{"form", "POST", "/api/v1/submissions", "application/x-www-form-urlencoded", "problem=sum", 400},
		{"many_labels", "POST", "/api/v1/submissions", "application/json", `{"problem":"sum","files":[{"name":"a.py","text":"x"}],"labels":{` + labels(33) + `}}`, 400},
		{"cursor", "GET", "/api/v1/submissions?cursor=%21%21", "", "", 400},
		{"limit", "GET", "/api/v1/submissions?limit=100000", "", "", 400},
		{"verdict", "GET", "/api/v1/submissions?verdict=WRONG", "", "", 400},
		{"wait", "GET", "/api/v1/submissions/" + c.submission + "?wait_seconds=1e9", "", "", 400},
		{"package_of_nothing", "POST", "/api/v1/problems/new/versions", "application/zip", "", 400},
		{"package_of_text", "POST", "/api/v1/problems/new/versions", "application/zip", "hello", 400},
		{"package_as_json", "POST", "/api/v1/problems/new/versions", "application/json", "{}", 400},
		{"problem_id", "POST", "/api/v1/problems/..%2f..%2fetc/versions", "application/zip", "zip", 400},
		{"rejudge_without_reason", "POST", "/api/v1/rejudges", "application/json", `{"problem":"sum","reason":""}`, 400},
		{"rejudge_of_others", "POST", "/api/v1/rejudges", "application/json", `{"problem":"sum","reason":"r","submissions":["x"]}`, 404},
		{"rejudge_of_none", "POST", "/api/v1/rejudges", "application/json", `{"problem":"sum","reason":"r","verdict":"TLE"}`, 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := c.ask("staff", tt.method, tt.path, tt.kind, []byte(tt.body))
			var e api.Error
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != tt.want || e.Code == "" {
				t.Errorf("got %d %s, want %d with a code", w.Code, w.Body, tt.want)
			}
		})
	}
	var page api.SubmissionPage
	c.read(c.want(200, "staff", "GET", "/api/v1/submissions", "", nil), &page)
	var problems api.ProblemPage
	c.read(c.want(200, "staff", "GET", "/api/v1/problems", "", nil), &problems)
	if len(page.Items) != 1 || len(problems.Items) != 2 {
		t.Errorf("%d submissions and %d problems are there, want 1 and 2", len(page.Items), len(problems.Items))
	}
}

func labels(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"l%d":"x"`, i))
	}
	return strings.Join(list, ",")
}
