package jobe

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/fault"
)

// echo is a Runner that gives back what it was asked.
type echo struct {
	job    Job
	result Result
	err    error
}

func (e *echo) Languages() [][2]string { return [][2]string{{"c", "17"}, {"python3", "3.11"}} }

func (e *echo) Run(_ context.Context, j Job) (Result, error) {
	e.job = j
	return e.result, e.err
}

func ask(t *testing.T, h http.Handler, method, path, body string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	return w.Code, strings.TrimSpace(w.Body.String())
}

const runs = "/jobe/index.php/restapi/runs"

func TestRun(t *testing.T) {
	t.Parallel()
	r := &echo{result: Result{Outcome: Success, Stdout: []byte("é<\n")}}
	h := Handler(r, slog.New(slog.DiscardHandler))
	body := `{"run_spec": {"language_id": "Python3", "sourcecode": "print(1)", "sourcefilename": "a.py", "input": "x",
		"file_list": [["0123456789abcdef", "data.txt", true]],
		"parameters": {"cputime": 2.5, "memorylimit": 100, "disklimit": "many", "streamsize": 1, "numprocs": 7, "runargs": ["a b"], "compileargs": null}}}`
	if code, text := ask(t, h, "POST", runs, body); code != http.StatusNotFound {
		t.Fatalf("a file that was never sent: %d %s", code, text)
	}
	if code, _ := ask(t, h, "HEAD", "/restapi/files/0123456789abcdef", ""); code != http.StatusNotFound {
		t.Errorf("head before put: %d", code)
	}
	content := base64.StdEncoding.EncodeToString([]byte("42"))
	if code, text := ask(t, h, "PUT", "/jobe/index.php/restapi/files/0123456789abcdef", `{"file_contents": "`+content+`"}`); code != http.StatusNoContent || text != "" {
		t.Fatalf("put: %d %s", code, text)
	}
	if code, _ := ask(t, h, "HEAD", "/restapi/files/0123456789abcdef/", ""); code != http.StatusNoContent {
		t.Errorf("head after put: %d", code)
	}
	code, text := ask(t, h, "POST", runs+"/", body)
	if want := `{"run_id":null,"outcome":15,"cmpinfo":"","stdout":"é<\n","stderr":""}`; code != http.StatusOK || text != want {
		t.Errorf("run: %d %s", code, text)
	}
	want := Job{
		Language: "python3", Name: "a.py", Source: []byte("print(1)"), Input: []byte("x"), Files: []File{{"data.txt", []byte("42")}},
		CPU: 2500 * time.Millisecond, Memory: 100 << 20, Disk: defaultDisk, Output: 1 << 20, Processes: 7, RunArgs: []string{"a b"},
	}
	if diff := cmp.Diff(want, r.job); diff != "" {
		t.Error(diff)
	}
	if code, text := ask(t, h, "GET", "/jobe/index.php/restapi/languages", ""); code != http.StatusOK || text != `[["c","17"],["python3","3.11"]]` {
		t.Errorf("languages: %d %s", code, text)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	r := &echo{}
	h := Handler(r, slog.New(slog.DiscardHandler))
	if code, text := ask(t, h, "POST", runs, `{"run_spec": {"language_id": "java", "sourcecode": "", "sourcefilename": "prog.java", "parameters": []}}`); code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	want := Job{Language: "java", Source: []byte{}, Input: []byte{}, CPU: defaultCPU, Memory: defaultMemory, Disk: defaultDisk, Output: defaultOutput, Processes: defaultProcesses}
	if diff := cmp.Diff(want, r.job); diff != "" {
		t.Error(diff)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	h := Handler(&echo{}, slog.New(slog.DiscardHandler))
	run := func(more string) string {
		return `{"run_spec": {"language_id": "c", "sourcecode": ""` + more + `}}`
	}
	for name, tt := range map[string]struct {
		method, path, body string
		code               int
		want               string
	}{
		"no_json":     {"POST", runs, "x", 400, "not as it must be"},
		"no_spec":     {"POST", runs, "{}", 400, "run_spec"},
		"no_source":   {"POST", runs, `{"run_spec": {"language_id": "c"}}`, 400, "sourcecode"},
		"name":        {"POST", runs, run(`, "sourcefilename": "../a.c"`), 400, "sourcefilename"},
		"hidden_name": {"POST", runs, run(`, "sourcefilename": ".a.c"`), 400, "sourcefilename"},
		"long":        {"POST", runs, run(`, "parameters": {"cputime": 51}`), 400, "cputime"},
		"args":        {"POST", runs, run(`, "parameters": {"runargs": "x"}`), 400, "runargs"},
		"file":        {"POST", runs, run(`, "file_list": [["0123456789", "a/b"]]`), 400, "odd"},
		"file_shape":  {"POST", runs, run(`, "file_list": [["0123456789"]]`), 400, "ID and a name"},
		"large":       {"POST", runs, run(`, "input": "` + strings.Repeat("x", maxBody) + `"`), 413, "larger"},
		"id":          {"PUT", "/restapi/files/short", `{"file_contents": ""}`, 400, "ID"},
		"base64":      {"PUT", "/restapi/files/0123456789", `{"file_contents": "?"}`, 400, "base64"},
		"no_contents": {"PUT", "/restapi/files/0123456789", `{}`, 400, "file_contents"},
		"method":      {"GET", runs, "", 405, ""},
		"path":        {"GET", "/", "", 404, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, text := ask(t, h, tt.method, tt.path, tt.body)
			if code != tt.code || !strings.Contains(text, tt.want) {
				t.Errorf("%d %.200s, want %d with %q", code, text, tt.code, tt.want)
			}
		})
	}
}

// TestFailures finds that our failure never looks like the program's.
func TestFailures(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err     error
		code    int
		outcome Outcome
	}{
		"full":     {fault.Errorf(fault.Exhausted, "no room"), 200, Overload},
		"broken":   {fault.Errorf(fault.Internal, "disk"), 200, Internal},
		"language": {fault.Errorf(fault.NotFound, "no language x"), 400, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := Handler(&echo{err: tt.err}, slog.New(slog.DiscardHandler))
			code, text := ask(t, h, "POST", runs, `{"run_spec": {"language_id": "c", "sourcecode": ""}}`)
			var got outcome
			if code == http.StatusOK {
				if err := json.Unmarshal([]byte(text), &got); err != nil {
					t.Fatal(err)
				}
			}
			if code != tt.code || got.Outcome != tt.outcome {
				t.Errorf("%d %s", code, text)
			}
		})
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"é\x01": "é\x01", "a\x01\xc0\n": `a\x01\xc0` + "\n"} {
		if got := clean([]byte(in)); got != want {
			t.Errorf("%q gives %q, want %q", in, got, want)
		}
	}
}

func TestFilesAreBounded(t *testing.T) {
	t.Parallel()
	f := newFiles(10)
	f.put("a", []byte("1234"))
	f.put("b", []byte("1234"))
	f.get("a")
	f.put("c", []byte("1234"))
	f.put("a", []byte("12"))
	f.put("large", bytes.Repeat([]byte("x"), 11))
	for id, want := range map[string]bool{"a": true, "b": false, "c": true, "large": false} {
		if _, ok := f.get(id); ok != want {
			t.Errorf("%s is kept: %v", id, ok)
		}
	}
	if f.size != 6 {
		t.Errorf("size %d", f.size)
	}
}

func FuzzRun(f *testing.F) {
	f.Add(`{"run_spec": {"language_id": "c", "sourcecode": "", "parameters": {"cputime": 1e300}}}`)
	f.Add(`{"run_spec": {"language_id": "c", "sourcecode": "", "file_list": [[1, 2]]}}`)
	h := Handler(&echo{}, slog.New(slog.DiscardHandler))
	f.Fuzz(func(t *testing.T, body string) {
		if code, text := ask(t, h, "POST", runs, body); code >= 500 {
			t.Fatalf("%d %s", code, text)
		}
	})
}
