package similarity

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shape writes tokens as a person can read them: n name, f called name, 1
// number, s string, w word that is kept.
func shape(tokens []token) string {
	var b strings.Builder
	line := int32(1)
	for _, t := range tokens {
		for ; line < t.line; line++ {
			b.WriteByte('\n')
		}
		switch {
		case t.kind == nameKind:
			b.WriteByte('n')
		case t.kind == callKind:
			b.WriteByte('f')
		case t.kind == numberKind:
			b.WriteByte('1')
		case t.kind == stringKind:
			b.WriteByte('s')
		case t.kind>>63 == 1:
			b.WriteByte('w')
		default:
			b.WriteRune(rune(t.kind >> 8))
		}
	}
	return b.String()
}

func TestTokens(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		lang *language
		text string
		want string
	}{
		{"python", &python, "def area(r):  # of a circle\n    return 3.14e+0 * r ** 2", "wf(n):\nw1*n**1"},
		{"python_docstring", &python, "def f():\n    \"\"\"Two\n    lines.\"\"\"\n    x = 'kept'", "wf():\n\n\nn=s"},
		{"python_string_in_call", &python, "f(\n    'kept')", "f(\ns)"},
		{"python_prefix", &python, `x = rb'\'' + f"{y}"`, "n=s+s"},
		{"python_imports", &python, "import os, sys\nfrom a import b\nx", "\n\nn"},
		{"python_library", &python, "items.append(len(count)); count = 1", "n.w(w(n))n=1"},
		{"python_own_name", &python, "def count(): count()", "wf():w()"},
		{"java", &java, "/* a\n b */ int[] x = {'c', 0xFFL}; // end\nString s = \"a\\\"b\";", "\nw[]n={s,1}\nwn=s"},
		{"java_imports", &java, "package a;\nimport java.util.*;\nnew Foo()", "\n\nwf()"},
		{"c", &cFamily, "#include <stdio.h>\n#define N 10\nx->y = L\"a\" N;", "\n#wn1\nn->n=sn"},
		{"javascript_regexp", &javascript, "x = a / b / c; y = s.split(/\\/x/); z = /a/g", "n=n/n/nn=n.w(s)n=sn"},
		{"javascript_template", &javascript, "f(`a\n${b}`)", "f(s\n)"},
		{"open_comment", &java, "a /* b\nc", "n"},
		{"open_string", &python, "a 'b\nc", "n'n\nn"},
		{"go_values", &slashes, "x := []int{-1}; (*p).y()", "n:=[]n{-1}(*n).f()"},
		{"letters", &python, "größe = Ünï2", "n=n"},
		{"rubbish", &python, "\xff\x00?", "\ufffd\x00?"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, shape(tt.lang.tokens(tt.text, 1000))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzTokens reads any text as each language.
func FuzzTokens(f *testing.F) {
	for _, s := range []string{
		"def f(x):\n    '''doc'''\n    return x + 1  # c", "/* a */ int x = 'c'; // y\n\"s\\\"\"", "`a${b}` /re/g", "(* c *) {- d -} -- e\n#| f |# ; g",
		"\"\"\"", "'''a", "rb'", "0x1e+5.5.", "\\", "\xff\xfe\x00", "import x\nfrom y import z\n#include <a>\n",
	} {
		for i := range languages {
			f.Add(uint8(i), s)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		l := languages[int(which)%len(languages)]
		const most = 500
		tokens := l.tokens(text, most)
		if len(tokens) > most {
			t.Fatalf("%d tokens", len(tokens))
		}
		last, lines := int32(1), int32(strings.Count(text, "\n")+1)
		for _, k := range tokens {
			if k.line < last || k.line > lines {
				t.Fatalf("line %d after %d of %d", k.line, last, lines)
			}
			last = k.line
		}
		// A blank line in front moves everything by one and changes nothing else.
		moved := l.tokens("\n"+text, most)
		if len(moved) != len(tokens) {
			t.Fatalf("%d tokens, with a blank line in front %d", len(tokens), len(moved))
		}
		for i := range tokens {
			if moved[i].kind != tokens[i].kind || moved[i].line != tokens[i].line+1 {
				t.Fatalf("token %d: %v, with a blank line in front %v", i, tokens[i], moved[i])
			}
		}
	})
}

// TestGuarantee holds what winnowing promises: a common run of gram+window-1
// tokens always gives a common fingerprint, wherever it stands.
func TestGuarantee(t *testing.T) {
	t.Parallel()
	row := func(seed, n int) []token {
		out := make([]token, n)
		for i := range out {
			out[i] = token{kind: wordKind(fmt.Sprint(seed, i)), line: int32(i + 1)}
		}
		return out
	}
	prints := func(tokens []token) map[uint64]bool {
		all := map[uint64]bool{}
		for _, p := range winnow(grams(tokens)) {
			all[p.hash] = true
		}
		return all
	}
	common := func(a, b []token) (n int) {
		other := prints(b)
		for h := range prints(a) {
			if other[h] {
				n++
			}
		}
		return n
	}
	const sure = gram + window - 1
	for seed := range 300 {
		a := append(append(row(seed, seed%37), row(1000+seed, sure)...), row(2000+seed, 40)...)
		b := append(append(row(3000+seed, 50-seed%29), row(1000+seed, sure)...), row(4000+seed, seed%11)...)
		if common(a, b) == 0 {
			t.Fatalf("seed %d: a run of %d tokens was not found", seed, sure)
		}
		short := append(append(row(5000+seed, 30), row(1000+seed, gram-1)...), row(6000+seed, 30)...)
		if n := common(a, short); n != 0 {
			t.Fatalf("seed %d: %d fingerprints for a run of %d tokens", seed, n, gram-1)
		}
	}
	long := row(1, 10_000)
	if got, most := len(winnow(grams(long))), 3*len(long)/(window+1); got > most {
		t.Errorf("%d of %d fingerprints are kept, more than %d", got, len(long), most)
	}
	if got := winnow(grams(row(1, gram))); len(got) != 1 {
		t.Errorf("%d fingerprints of %d tokens", len(got), gram)
	}
}
