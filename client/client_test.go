package client

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEvents(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, stream string
		want         []Event
	}{
		{"two", "event: a\ndata: 1\n\nevent: b\ndata: {\"x\":2}\n\n", []Event{{"a", []byte("1")}, {"b", []byte(`{"x":2}`)}}},
		{"comments", ":\n\n: alive\nevent: a\ndata: 1\n\n", []Event{{"a", []byte("1")}}},
		{"many_lines", "data: a\ndata: b\n\n", []Event{{"", []byte("a\nb")}}},
		{"windows_lines", "event: a\r\ndata: 1\r\n\r\n", []Event{{"a", []byte("1")}}},
		{"no_space", "event:a\ndata:1\n\n", []Event{{"a", []byte("1")}}},
		{"cut", "event: a\ndata: 1\n", nil},
		{"without_data", "event: a\n\n", nil},
		{"empty", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []Event
			for e, err := range Events(strings.NewReader(tt.stream)) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// endless is a line that is repeated without an end.
type endless string

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n+len(e) <= len(p) {
		n += copy(p[n:], e)
	}
	return n, nil
}

// TestEventsAreBounded: an event that has no end fills nobody's memory, in however
// many lines it comes.
func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{"one_line": "data: xxxxxxxx", "lines": "data: " + strings.Repeat("x", 500) + "\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var last error
			for e, err := range Events(endless(line)) {
				if last = err; err == nil {
					t.Fatalf("an event of %d bytes", len(e.Data))
				}
			}
			if last == nil {
				t.Error("it ended properly")
			}
		})
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("event: a\ndata: 1\n\n")
	f.Add(":\r\ndata\n\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		for e, err := range Events(strings.NewReader(stream)) {
			if err == nil && strings.Contains(e.Name, "\n") {
				t.Errorf("a name over two lines: %q", e.Name)
			}
		}
	})
}

func TestCheck(t *testing.T) {
	t.Parallel()
	answer := func(status int) *http.Response {
		return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Retry-After": {"7"}, "X-Request-Id": {"r1"}}}
	}
	if err := Check(answer(201), nil); err != nil {
		t.Errorf("a success is %v", err)
	}
	err := Check(answer(404), []byte(`{"error":"there is no problem x","code":"problem.not_found","hint":"h","request_id":"r1"}`))
	want := &Failure{Status: 404, Code: "problem.not_found", Text: "there is no problem x", Hint: "h", RequestID: "r1", After: 7 * time.Second}
	if diff := cmp.Diff(error(want), err); diff != "" {
		t.Error(diff)
	}
	if !IsCode(err, "not_found") || IsCode(err, "found") || IsCode(nil, "not_found") {
		t.Error("codes are not told apart")
	}
	if err := Check(answer(502), []byte("<html>")); err == nil || !strings.Contains(err.Error(), "Bad Gateway") {
		t.Errorf("a proxy's page is %v", err)
	}
}

// TestZeroIsLeftOut: a parameter that nobody set must not reach the server.
func TestZeroIsLeftOut(t *testing.T) {
	t.Parallel()
	var query, key string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, key = r.URL.RawQuery, strings.Join(r.Header.Values("Idempotency-Key"), ",")+" "+r.Header.Get("Authorization")
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	api, err := Connect(server.URL, "asy_x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.ListSubmissionsWithResponse(t.Context(), &ListSubmissionsParams{Problem: "a b", Limit: 3}); err != nil {
		t.Fatal(err)
	}
	if query != "limit=3&problem=a+b" {
		t.Errorf("the query is %q", query)
	}
	if _, err := api.SubmitWithResponse(t.Context(), &SubmitParams{}, NewSubmission{}); err != nil {
		t.Fatal(err)
	}
	if key != " Bearer asy_x" {
		t.Errorf("the headers are %q", key)
	}
}
