package harness

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/course"
)

func TestCFunctions(t *testing.T) {
	t.Parallel()
	src := `
#include <stdio.h>
#define TWICE(x) do { (x); \
  (x); } while (0)
struct point { int x, y; };
static int hidden(void) { return 1; }
int table[] = {1, 2};
int add(int a, int b) { if (a) { return a + b; } return b; }
__attribute__((constructor)) void begin(void) { puts("{"); }
double *scale(double *v, int (*f)(int)) /* { */
{ return v; } // int no(void) {
extern int declared(int);
char brace = '{';
int main(void) { return add(1, '"'); }
`
	if diff := cmp.Diff([]string{"add", "begin", "scale", "main"}, cFunctions(src)); diff != "" {
		t.Error(diff)
	}
}

func TestDisguiseC(t *testing.T) {
	t.Parallel()
	model := "int add(int a, int b) { return a + b; }\n"
	got := disguiseC("int puts(const char *s) { return 1; }\nint add(int a, int b) { return 0; }\n", model, decoyTrue)
	for _, want := range []string{"#define add assay_real_add\n#line 1\n", ".globl add", "#undef add"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	// What the solution does not have is not asked for answers: it stays.
	if strings.Contains(got, "assay_real_puts") {
		t.Error("puts is renamed")
	}
	if got := disguiseC("int x;", model, decoyTrue); got != "" {
		t.Errorf("no function, and yet %s", got)
	}
}

func TestDisguiseJava(t *testing.T) {
	t.Parallel()
	src := `class A {
    A(int x) { this.x = x; }
    int f(int x) throws Exception { if (x > 0) { return x; } return g(a -> { return a; }); }
    void p() { System.out.println("return 1; {"); return; }
    Object n() { return null; }
    List<int[]> q(int[] a) { for (int i : a) { use(i); } return List.of(a); }
}`
	cut := func(s string) string {
		s, _, _ = strings.Cut(s, "\n/** Replaces")
		return s
	}
	want := strings.NewReplacer("return x; }", "return D.v(x); }", "return g(a -> { return a; });", "return D.v(g(a -> { return a; }));", "return List.of(a);", "return D.v(List.of(a));").Replace(src)
	class := disguiseJava("A.java", src, decoyTrue)
	name := class[strings.Index(class, "final class ")+len("final class "):]
	name, _, _ = strings.Cut(name, " ")
	if diff := cmp.Diff(want, strings.ReplaceAll(cut(class), name, "D")); diff != "" {
		t.Error(diff)
	}
	mute := strings.ReplaceAll(cut(disguiseJava("A.java", src, decoyMute)), name, "D")
	want = strings.NewReplacer("throws Exception {", "throws Exception {D.mute();", "void p() {", "void p() {D.mute();", "Object n() {", "Object n() {D.mute();", "q(int[] a) {", "q(int[] a) {D.mute();").Replace(src)
	if diff := cmp.Diff(want, mute); diff != "" {
		t.Error(diff)
	}
}

func TestDisguise(t *testing.T) {
	t.Parallel()
	solution := []course.File{{Name: "sum.py", Data: []byte("x = 1")}}
	files := []course.File{{Name: "conftest.py", Data: []byte("y")}, {Name: "sum.py", Data: []byte("z")}}
	got, changed := disguise(files, solution, decoyTrue)
	if !changed || string(got[0].Data) != "y" || !strings.Contains(string(got[1].Data), "SOURCE = \"eg==\"\nTRUTH = True\n") {
		t.Errorf("changed %v: %v", changed, got)
	}
	if string(files[1].Data) != "z" {
		t.Error("the submission itself was changed")
	}
	if _, changed := disguise(files, solution, decoyMute); changed {
		t.Error("muting changes Python")
	}
	if got := decoysOf([]course.File{{Name: "a.txt"}}); len(got) != 0 {
		t.Errorf("decoys of text: %v", got)
	}
}

func FuzzDisguise(f *testing.F) {
	f.Add("int add(int a) { return a; }")
	f.Add("class A { int f() { return 1; } }")
	f.Add("return (((; } ) { \"")
	f.Fuzz(func(t *testing.T, src string) {
		for _, name := range []string{"a.c", "A.java", "a.py"} {
			files := []course.File{{Name: name, Data: []byte(src)}}
			for _, d := range []decoy{decoyTrue, decoyFalse, decoyMute} {
				if got, changed := disguise(files, files, d); changed && len(got[0].Data) < len(src) {
					t.Fatalf("%s lost something: %q", name, got[0].Data)
				}
			}
		}
	})
}
