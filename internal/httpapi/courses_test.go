package httpapi

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
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
	"assay/internal/classes"
	"assay/internal/course"
	"assay/internal/course/grading"
	"assay/internal/sqlstore"
	"assay/internal/usage"
	"assay/internal/work"
)

// classroom is a door with courses over a real store, and a worker without
// machines.
type classroom struct {
	http.Handler
	t      *testing.T
	db     *sqlstore.DB
	worker *classes.Worker
}

// noBus wakes and tells nobody: rows are the truth.
type noBus struct{}

func (noBus) Wake(string)            {}
func (noBus) Publish(string, []byte) {}
func (noBus) Subscribe(context.Context, string) (<-chan []byte, func(), error) {
	return nil, func() {}, nil
}

// nameGrader passes the tests whose names are in the file.
type nameGrader struct{}

func (nameGrader) Ready(context.Context, string) error               { return nil }
func (nameGrader) Prepare(context.Context, *course.Assignment) error { return nil }

func (nameGrader) Grade(_ context.Context, a *course.Assignment, s course.Submission, _ func(string)) (course.Grade, error) {
	var r course.Report
	for _, t := range a.Tests {
		f := course.Finding{Test: t.ID, Status: course.Failed, Detail: "detail of " + t.Name}
		if strings.Contains(string(s.Files[0].Data), t.Name) {
			f.Status = course.Passed
		}
		r.Findings = append(r.Findings, f)
	}
	return course.Decide(a, s, r), nil
}

func (g nameGrader) Verify(ctx context.Context, a *course.Assignment, _ grading.VerifyOptions) ([]grading.Check, error) {
	return []grading.Check{{Kind: "solution", Name: "solution", OK: true}}, nil
}

type courseAddresses struct{}

func (courseAddresses) Email(_ context.Context, user string) (string, error) {
	return strings.TrimPrefix(user, "u-") + "@example.org", nil
}

// roles are those who ask, by their tokens.
var roles = []string{"", "eve", "bo", "ada", "tea", "staff", "admin"}

func newClassroom(t *testing.T) *classroom {
	t.Helper()
	dir := t.TempDir()
	db, err := sqlstore.Open(t.Context(), filepath.Join(dir, "assay.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	blobs, err := blob.OpenFolder(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := classes.New(classes.Options{
		Store: db.Classes(), Blobs: blobs, Queue: noBus{}, Events: noBus{}, Accounts: courseAddresses{}, CacheDir: filepath.Join(dir, "cache"),
	})
	if err != nil {
		t.Fatal(err)
	}
	who := people{}
	for _, name := range roles[1:] {
		who[name] = account.Actor{User: "u-" + name, Name: name, Role: account.Member}
		if name == "staff" || name == "admin" {
			who[name] = account.Actor{User: "u-" + name, Name: name, Role: account.Role(name)}
		}
		if err := db.Accounts().CreateUser(t.Context(), account.User{ID: "u-" + name, Login: name, Role: who[name].Role, Created: time.Unix(1, 0)}); err != nil {
			t.Fatal(err)
		}
	}
	h, err := New(Options{
		Log: slog.New(slog.DiscardHandler), Accounts: who, Server: fixedInfo{}, Metrics: prometheus.NewRegistry(), Classes: s,
		Usage: usage.New(db.Usage(), usage.Rates{Currency: "EUR", CPUHour: 36}), Ready: func(context.Context) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return &classroom{h, t, db, s.NewWorker(nameGrader{}, nameGrader{})}
}

func (c *classroom) work() {
	c.t.Helper()
	for {
		now := time.Now()
		j, ok, err := c.db.Work().Claim(c.t.Context(), work.Claim{
			Node: "n", Kinds: []string{classes.GradeJob, classes.CheckJob}, Token: work.NewID(), Now: now, Until: now.Add(time.Minute),
		})
		if err != nil {
			c.t.Fatal(err)
		}
		if !ok {
			return
		}
		if err := c.worker.Run(c.t.Context(), j); err != nil {
			c.t.Fatal(err)
		}
	}
}

// ask sends a request; what begins with "{" is JSON, other bodies have their
// kind before a space.
func (c *classroom) ask(who, method, path, body string) *httptest.ResponseRecorder {
	c.t.Helper()
	kind := "application/json"
	if body != "" && body[0] != '{' {
		kind, body, _ = strings.Cut(body, " ")
	}
	r := httptest.NewRequest(method, "/api/v1"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", kind)
	}
	if who != "" {
		r.Header.Set("Authorization", "Bearer "+who)
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

// must is ask that wants a status, and reads the answer.
func (c *classroom) must(status int, who, method, path, body string, into any) {
	c.t.Helper()
	w := c.ask(who, method, path, body)
	if w.Code != status {
		c.t.Fatalf("%s %s by %q: got %d %s, want %d", method, path, who, w.Code, w.Body, status)
	}
	if into != nil {
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			c.t.Fatal(err)
		}
	}
}

const labTask = `title: Total
mode: io
language: python3
files: [total.py]
tests:
  - {name: open, points: 4, stdin: "1", stdout: "1"}
  - {name: secret, points: 6, stdin: "2", stdout: "2", visibility: after_published}
`

func zipOf(t *testing.T, files map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, text := range files {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const classCSV = "text/csv email,name,role\nada@example.org,Ada,student\nbo@example.org,Bo,student\ntea@example.org,Tea,ta\n"

// lab makes the course c with lab1 open and an attempt of Ada's graded.
func (c *classroom) lab() api.Attempt {
	c.t.Helper()
	c.must(201, "staff", "POST", "/courses", `{"id":"c","zone":"Europe/Warsaw"}`, nil)
	var plan api.RosterPlan
	c.must(200, "staff", "POST", "/courses/c/roster/preview", classCSV, &plan)
	if len(plan.Added) != 3 {
		c.t.Fatalf("the plan is %+v", plan)
	}
	c.must(200, "staff", "PUT", "/courses/c/roster?plan="+plan.Digest, classCSV, nil)
	c.must(201, "tea", "POST", "/courses/c/assignments/lab1/versions", "application/zip "+zipOf(c.t, map[string]string{"assignment.yaml": labTask, "solution/total.py": "open secret"}), nil)
	c.must(409, "tea", "POST", "/courses/c/assignments/lab1/versions/1/open", `{}`, nil)
	c.work()
	c.must(200, "tea", "POST", "/courses/c/assignments/lab1/versions/1/open", `{}`, nil)
	var a api.Attempt
	c.must(201, "ada", "POST", "/courses/c/assignments/lab1/attempts", `{"files":[{"name":"total.py","text":"open"}]}`, &a)
	if a.State != "queued" || a.Graded || a.Who != "Ada" {
		c.t.Fatalf("got %+v", a)
	}
	c.work()
	return a
}

// TestCourseRoutesByRole asks each route as everybody. The statuses are in the
// order of roles: nobody, a stranger, another student, the student, who runs the
// course, staff, an admin.
func TestCourseRoutesByRole(t *testing.T) {
	t.Parallel()
	c := newClassroom(t)
	a := c.lab()
	set := api.Regrade{}
	c.must(201, "staff", "POST", "/courses/c/regrades", `{"assignment":"lab1","reason":"x"}`, &set)
	for _, tt := range []struct {
		method, path, body string
		want               string
	}{
		{"GET", "/courses", "", "401 200 200 200 200 200 200"},
		{"POST", "/courses", `{"id":"c","zone":"UTC"}`, "401 403 403 403 403 409 409"},
		{"GET", "/courses/c", "", "401 404 200 200 200 200 200"},
		{"GET", "/courses/other", "", "401 404 404 404 404 404 404"},
		{"GET", "/courses/c/roster", "", "401 404 403 403 200 200 200"},
		{"POST", "/courses/c/roster/preview", classCSV, "401 404 403 403 200 200 200"},
		{"PUT", "/courses/c/roster?plan=x", classCSV, "401 404 403 403 409 409 409"},
		{"GET", "/courses/c/assignments", "", "401 404 200 200 200 200 200"},
		{"GET", "/courses/c/assignments/lab1", "", "401 404 200 200 200 200 200"},
		{"GET", "/courses/c/assignments/lab2", "", "401 404 404 404 404 404 404"},
		{"PATCH", "/courses/c/assignments/lab1", `{"open":true}`, "401 404 403 403 200 200 200"},
		{"GET", "/courses/c/assignments/lab1/starter", "", "401 404 200 200 200 200 200"},
		{"GET", "/courses/c/assignments/lab1/versions", "", "401 404 403 403 200 200 200"},
		{"GET", "/courses/c/assignments/lab1/versions/1", "", "401 404 403 403 200 200 200"},
		{"POST", "/courses/c/assignments/lab1/versions", "application/zip no zip", "401 404 403 403 404 404 404"},
		{"POST", "/courses/c/assignments/lab1/versions/1/open", `{}`, "401 404 403 403 200 200 200"},
		{"GET", "/courses/c/assignments/lab1/groups", "", "401 404 403 403 200 200 200"},
		{"POST", "/courses/c/assignments/lab1/groups", `{"members":[{"who":"bo@example.org","group":"red"}]}`, "401 404 403 403 200 200 200"},
		{"POST", "/courses/c/assignments/lab1/extensions", `{"who":"bo@example.org","days":1,"reason":"x"}`, "401 404 403 403 409 409 409"},
		{"POST", "/courses/c/assignments/lab1/adjustments", `{"who":"bo@example.org","points":"+1","reason":"x"}`, "401 404 403 403 201 201 201"},
		{"POST", "/courses/c/notes/none/revoke", `{"reason":"x"}`, "401 404 403 403 404 404 404"},
		{"GET", "/courses/c/history?who=ada@example.org", "", "401 404 403 403 200 200 200"},
		{"POST", "/courses/c/assignments/lab1/attempts", `{"files":[{"name":"other.py","text":""}]}`, "401 404 400 400 409 409 409"},
		{"POST", "/courses/c/assignments/lab1/attempts/upload?name=x.zip", "application/octet-stream x", "401 404 400 400 409 409 409"},
		{"GET", "/courses/c/attempts", "", "401 404 200 200 200 200 200"},
		{"GET", "/courses/c/attempts/ATTEMPT", "", "401 404 404 200 200 200 200"},
		{"GET", "/courses/c/attempts/ATTEMPT/files", "", "401 404 404 200 200 200 200"},
		{"GET", "/courses/c/attempts/ATTEMPT/events", "", "401 404 404 200 200 200 200"},
		{"GET", "/courses/c/gradebook", "", "401 404 200 200 200 200 200"},
		{"GET", "/courses/c/gradebook/export", "", "401 404 403 403 200 200 200"},
		{"POST", "/courses/c/gradebook/fill?format=canvas", "text/csv x", "401 404 403 403 400 400 400"},
		{"GET", "/courses/c/assignments/lab1/marks", "", "401 404 403 403 200 200 200"},
		{"GET", "/courses/c/assignments/lab1/similarity", "", "401 404 403 403 200 200 200"},
		{"GET", "/courses/c/regrades", "", "401 404 403 403 200 200 200"},
		{"POST", "/courses/c/regrades", `{"assignment":"lab1","version_number":9,"reason":"x"}`, "401 404 403 403 404 404 404"},
		{"GET", "/courses/c/regrades/SET", "", "401 404 403 403 200 200 200"},
		{"POST", "/courses/c/regrades/SET/apply", `{}`, "401 404 403 403 409 409 409"},
		{"POST", "/courses/c/regrades/none/cancel", "", "401 404 403 403 404 404 404"},
		{"GET", "/usage", "", "401 200 200 200 200 200 200"},
		{"GET", "/usage?user=ada", "", "401 403 403 200 403 200 200"},
		{"GET", "/usage?by=nonsense", "", "400 400 400 400 400 400 400"},
		{"POST", "/courses/c/assignments/lab1/publish", "", "401 404 403 403 200 200 200"},
		{"DELETE", "/courses/c", "", "401 404 403 403 403 409 409"},
		{"PATCH", "/courses/c", `{"archived":true}`, "401 404 403 403 200 200 200"},
		{"PATCH", "/courses/nothing", `{"archived":true}`, "401 404 404 404 404 404 404"},
		{"PATCH", "/courses/nothing", `{"archived":false}`, "401 404 404 404 404 404 404"},
	} {
		path := strings.NewReplacer("ATTEMPT", a.ID, "SET", set.ID).Replace(tt.path)
		var got []string
		for _, who := range roles {
			got = append(got, fmt.Sprint(c.ask(who, tt.method, path, tt.body).Code))
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s %s: got %s, want %s", tt.method, tt.path, strings.Join(got, " "), tt.want)
		}
	}
	for path, want := range map[string]string{
		"/courses/c/attempts/" + a.ID + "/report": "401 404 404 200 200 200 200",
		"/courses/c/assignments/lab1/page":        "401 404 403 403 200 200 200",
		"/courses/c/assignments/lab1/similarity":  "401 404 403 403 200 200 200",
	} {
		var got []string
		for _, who := range roles {
			r := httptest.NewRequest("GET", path, nil)
			if who != "" {
				r.Header.Set("Authorization", "Bearer "+who)
			}
			w := httptest.NewRecorder()
			c.ServeHTTP(w, r)
			got = append(got, fmt.Sprint(w.Code))
			if w.Code == 200 && (!strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") || strings.Contains(w.Body.String(), "<script")) {
				t.Errorf("%s: the page may run something", path)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("GET %s: got %s, want %s", path, strings.Join(got, " "), want)
		}
	}
}

func TestStudentsSeeNoHiddenTestsOverTheAPI(t *testing.T) {
	t.Parallel()
	c := newClassroom(t)
	a := c.lab()
	for _, path := range []string{"/courses/c/attempts/" + a.ID, "/courses/c/attempts/" + a.ID + "/events", "/courses/c/gradebook", "/courses/c/attempts", "/courses/c/assignments/lab1"} {
		w := c.ask("ada", "GET", path, "")
		if w.Code != 200 || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: %d, and a hidden test in it: %s", path, w.Code, w.Body)
		}
	}
	c.must(200, "ada", "GET", "/courses/c/attempts/"+a.ID+"?wait_seconds=5", "", &a)
	if !a.Graded || a.Grade == nil || a.Grade.Score != nil || !a.Grade.HiddenTestsRemain || len(a.Grade.Tests) != 1 {
		t.Errorf("a student sees %+v", a.Grade)
	}
	c.must(200, "tea", "GET", "/courses/c/attempts/"+a.ID, "", &a)
	if a.Grade.Score == nil || *a.Grade.Score != 4 || len(a.Grade.Tests) != 2 {
		t.Errorf("a teacher sees %+v", a.Grade)
	}
	c.must(200, "tea", "POST", "/courses/c/assignments/lab1/publish", "", nil)
	c.must(200, "ada", "GET", "/courses/c/attempts/"+a.ID, "", &a)
	if a.Grade.Score == nil || *a.Grade.Score != 4 || len(a.Grade.Tests) != 2 {
		t.Errorf("after publishing a student sees %+v", a.Grade)
	}
}

func TestHostileHandInsOverTheAPI(t *testing.T) {
	t.Parallel()
	c := newClassroom(t)
	c.lab()
	for name, body := range map[string]string{
		"climbs_out": zipOf(t, map[string]string{"total.py": "", "../x": ""}),
		"bomb":       zipOf(t, map[string]string{"total.py": strings.Repeat("\x00", 30<<20)}),
	} {
		var e api.Error
		c.must(400, "bo", "POST", "/courses/c/assignments/lab1/attempts/upload?name=w.zip", "application/octet-stream "+body, &e)
		if e.Code != "course.invalid" || e.Hint == "" || strings.Contains(e.Error, "/tmp") {
			t.Errorf("%s: got %+v", name, e)
		}
	}
	var e api.Error
	c.must(400, "bo", "POST", "/courses/c/assignments/lab1/attempts", `{"files":[{"name":"total.py","text":""},{"name":"/etc/passwd","text":"x"}]}`, &e)
	if !strings.Contains(e.Error, "/etc/passwd") {
		t.Errorf("got %+v", e)
	}
}

func TestRegradeOverTheAPI(t *testing.T) {
	t.Parallel()
	c := newClassroom(t)
	c.lab()
	c.must(201, "tea", "POST", "/courses/c/assignments/lab1/versions",
		"application/zip "+zipOf(t, map[string]string{"assignment.yaml": strings.Replace(labTask, "points: 4", "points: 9", 1), "solution/total.py": "open secret"}), nil)
	c.work()
	var set api.Regrade
	c.must(201, "tea", "POST", "/courses/c/regrades", `{"assignment":"lab1","version_number":2,"reason":"too few points"}`, &set)
	c.work()
	c.must(200, "tea", "GET", "/courses/c/regrades/"+set.ID, "", &set)
	if set.State != "ready" || set.Plan == nil || len(set.Plan.Marks) != 1 || set.Plan.Marks[0].After != 9 {
		t.Fatalf("got %+v", set)
	}
	c.must(409, "tea", "POST", "/courses/c/regrades/"+set.ID+"/apply", `{"plan":"sha256:other"}`, nil)
	c.must(200, "tea", "POST", "/courses/c/regrades/"+set.ID+"/apply", `{"plan":"`+set.Plan.Digest+`"}`, &set)
	if set.State != "applied" {
		t.Errorf("got %+v", set)
	}
	var page api.RegradePage
	c.must(200, "tea", "GET", "/courses/c/regrades?limit=1", "", &page)
	if len(page.Items) != 1 || page.Next == "" {
		t.Errorf("got %+v", page)
	}
	c.must(200, "tea", "GET", "/courses/c/regrades?cursor="+page.Next, "", &page)
	if len(page.Items) != 0 {
		t.Errorf("after the last page there is %+v", page)
	}
}

func TestUsageOverTheAPI(t *testing.T) {
	t.Parallel()
	c := newClassroom(t)
	c.lab()
	var r api.UsageReport
	c.must(200, "admin", "GET", "/usage?by=course", "", &r)
	if len(r.Items) != 1 || r.Items[0].Key != "c" || r.Items[0].Runs != 1 || r.Rates.Currency != "EUR" {
		t.Errorf("got %+v", r)
	}
	c.must(200, "ada", "GET", "/usage", "", &r)
	if len(r.Items) != 1 || r.Items[0].Key != "ada" {
		t.Errorf("a member sees %+v", r)
	}
	c.must(200, "bo", "GET", "/usage", "", &r)
	if len(r.Items) != 0 {
		t.Errorf("another member sees %+v", r)
	}
	c.must(400, "admin", "GET", "/usage?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "", nil)
	c.must(404, "admin", "GET", "/usage?user=none", "", nil)
}
