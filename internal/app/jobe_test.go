package app

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"assay/internal/compat/jobe"
)

// TestJobe sends programs as CodeRunner does.
func TestJobe(t *testing.T) {
	e := withJudge(t)
	h, err := e.Jobe(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	send := func(t *testing.T, method, path string, body any) (int, []byte) {
		t.Helper()
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/jobe/index.php/restapi"+path, strings.NewReader(string(data))))
		return w.Code, w.Body.Bytes()
	}
	for id, content := range map[string]string{"aaaaaaaa1": "NDIK", "aaaaaaaa2": "ZGVmIHR3aWNlKG4pOiByZXR1cm4gMiAqIG4K"} {
		if code, text := send(t, "PUT", "/files/"+id, map[string]string{"file_contents": content}); code != http.StatusNoContent {
			t.Fatalf("put: %d %s", code, text)
		}
	}
	type object = map[string]any
	for name, tt := range map[string]struct {
		spec    object
		outcome jobe.Outcome
		stdout  string
		stderr  string // part
	}{
		"input":    {object{"language_id": "python3", "sourcecode": "print(input())", "input": "é\n"}, jobe.Success, "é\n", ""},
		"files":    {object{"language_id": "python3", "sourcecode": "import double\nprint(double.twice(int(open('n.txt').read())))", "sourcefilename": "test.py", "file_list": [][]string{{"aaaaaaaa1", "n.txt"}, {"aaaaaaaa2", "double.py"}}}, jobe.Success, "84\n", ""},
		"args":     {object{"language_id": "python3", "sourcecode": "import sys; print(sys.argv[1:])", "parameters": object{"runargs": []string{"a b", "c"}}}, jobe.Success, "['a b', 'c']\n", ""},
		"syntax":   {object{"language_id": "python3", "sourcecode": "print("}, jobe.CompileError, "", ""},
		"error":    {object{"language_id": "python3", "sourcecode": "print(1)\n[][1]"}, jobe.RunTimeError, "1\n", "IndexError"},
		"c":        {object{"language_id": "c", "sourcecode": "#include <stdio.h>\nint main() { puts(GREETING); return 3; }", "parameters": object{"compileargs": []string{"-DGREETING=\"hi\""}}}, jobe.Success, "hi\n", ""},
		"crash":    {object{"language_id": "c", "sourcecode": "int main() { return *(volatile int *)8; }"}, jobe.RunTimeError, "", "signal"},
		"loop":     {object{"language_id": "c", "sourcecode": "int main() { for (;;) { } }", "parameters": object{"cputime": 1}}, jobe.TimeLimit, "", ""},
		"memory":   {object{"language_id": "python3", "sourcecode": "b = []\nwhile True: b.append(bytearray(b'x' * 10**7))", "parameters": object{"memorylimit": 100, "cputime": 20}}, jobe.MemoryLimit, "", ""},
		"forks":    {object{"language_id": "python3", "sourcecode": "import os, time\nwhile True:\n  if os.fork() == 0: time.sleep(60)", "parameters": object{"numprocs": 5}}, jobe.RunTimeError, "", ""},
		"much":     {object{"language_id": "c", "sourcecode": "#include <stdio.h>\nint main() { puts(\"x\"); }", "parameters": object{"memorylimit": 200000}}, jobe.Success, "x\n", ""},
		"no_text":  {object{"language_id": "c", "sourcecode": "#include <stdio.h>\nint main() { puts(\"a\\001\\300\"); }"}, jobe.Success, "a\\x01\\xc0\n", ""},
		"language": {object{"language_id": "klingon", "sourcecode": ""}, 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, text := send(t, "POST", "/runs", object{"run_spec": tt.spec})
			if tt.outcome == 0 {
				if code != http.StatusBadRequest {
					t.Errorf("%d %s", code, text)
				}
				return
			}
			var got struct {
				Outcome                 jobe.Outcome
				Stdout, Stderr, CmpInfo string
			}
			if err := json.Unmarshal(text, &got); err != nil || code != http.StatusOK {
				t.Fatalf("%d %s", code, text)
			}
			if got.Outcome != tt.outcome || got.Stdout != tt.stdout || !strings.Contains(got.Stderr, tt.stderr) || (got.CmpInfo == "") == (tt.outcome == jobe.CompileError) {
				t.Errorf("got %s", text)
			}
		})
	}
}
