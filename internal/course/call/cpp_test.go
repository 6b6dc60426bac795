package call

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/course"
)

func TestCppSignature(t *testing.T) {
	t.Parallel()
	type parts struct {
		Name  string
		Types []string
		Typed bool
	}
	for text, want := range map[string]parts{
		"gcd":        {"gcd", nil, false},
		"::geo::f":   {"geo::f", nil, false},
		"f()":        {"f", nil, true},
		"maxOf<int>": {"maxOf<int>", nil, false},
		"f(std::map<int, std::pair<int,int>> &, int (*)(int, int))": {"f", []string{"std::map<int, std::pair<int,int>> &", "int (*)(int, int)"}, true},
	} {
		name, types, typed := cppSignature(text)
		if d := cmp.Diff(want, parts{name, types, typed}); d != "" {
			t.Errorf("%s (-want +got):\n%s", text, d)
		}
	}
}

// TestCppMain holds that what a student has not written is not bound, and that
// nothing of what is expected gets into the machine.
func TestCppMain(t *testing.T) {
	t.Parallel()
	tests := []course.Test{}
	for _, text := range []string{
		"call: gcd\nargs: [123456]\nvalue: 654321", "call: lcm\nargs: [1]\nvalue: 1", "new: Stack\nargs: [1]\nsteps: [{call: push, args: [777777]}, {get: top, value: 888888}]",
	} {
		c, err := ParseTest(mapping(text))
		if err != nil {
			t.Fatal(err)
		}
		tests = append(tests, course.Test{Call: c})
	}
	x := &session{
		assignment: &course.Assignment{Tests: tests}, entry: "a.cpp",
		files: []course.File{{Name: "a.cpp", Data: []byte("int gcd(int); // not lcm_of\nclass Stack;")}},
	}
	text := cppMain(x)
	for _, part := range []string{`{"gcd", `, "call<void>(c, &::gcd)", `{"Stack", `, "make<::Stack, 1>(c)", `{"Stack.push", `, `{"Stack.top", `} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	for _, part := range []string{"lcm", "123456", "654321", "777777", "888888"} {
		if strings.Contains(text, part) {
			t.Errorf("%q is in\n%s", part, text)
		}
	}
}
