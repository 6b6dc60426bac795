package harness

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"strings"

	"assay/internal/course"
)

// A decoy is a submission that runs all of its own code and whose answers are
// replaced by nonsense. An honest harness gives it no points. Where a decoy
// passes a test that the solution's decoy fails, the test is not decided by the
// answers any more: the submission decides it. That is found from outside,
// whatever the submission did inside to make it so.
//
// Answers are replaced where they leave the submission, never inside, so that
// how it is built does not matter: a Python module's names, a C file's
// functions, what a program writes. Java's classes are changed at each return,
// which is inside; so a test that reads what they print is not held against
// them by those decoys.
type decoy string

// The decoys. Some tests want something true, some something false: a decoy
// that answers the one passes half of them.
const (
	decoyTrue  decoy = "true"
	decoyFalse decoy = "false"
	// decoyMute only replaces what Java code prints.
	decoyMute decoy = "mute"
)

//go:embed inside/decoy.py
var decoyPython string

//go:embed inside/decoy.c
var decoyC string

//go:embed inside/decoy.java
var decoyJava string

// decoysOf are those that make a difference to the files.
func decoysOf(solution []course.File) []decoy {
	var out []decoy
	for _, f := range solution {
		switch path.Ext(f.Name) {
		case ".py", ".c":
			out = append(out, decoyTrue, decoyFalse)
		case ".java":
			out = append(out, decoyTrue, decoyFalse, decoyMute)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// disguise makes the decoy of a submission. Only files that the solution has,
// too, are what tests ask for answers; others stay as they are. It reports
// whether it changed any.
func disguise(files, solution []course.File, d decoy) ([]course.File, bool) {
	known := map[string]course.File{}
	for _, f := range solution {
		known[f.Name] = f
	}
	out, changed := slices.Clone(files), false
	for i, f := range out {
		model, ok := known[f.Name]
		if !ok {
			continue
		}
		var text string
		switch path.Ext(f.Name) {
		case ".py":
			text = disguisePython(f.Data, d)
		case ".c":
			text = disguiseC(string(f.Data), string(model.Data), d)
		case ".java":
			text = disguiseJava(f.Name, string(f.Data), d)
		}
		if text != "" {
			out[i].Data, changed = []byte(text), true
		}
	}
	return out, changed
}

func disguisePython(src []byte, d decoy) string {
	if d == decoyMute {
		return ""
	}
	truth := map[decoy]string{decoyTrue: "True", decoyFalse: "False"}[d]
	return fmt.Sprintf("SOURCE = %q\nTRUTH = %s\n%s", base64.StdEncoding.EncodeToString(src), truth, decoyPython)
}

// disguiseC renames the functions that the solution's file has, too, and puts
// others with their names behind them.
func disguiseC(src, model string, d decoy) string {
	if d == decoyMute {
		return ""
	}
	wanted := cFunctions(model)
	var head, tail strings.Builder
	stubs := 0
	for _, name := range cFunctions(src) {
		if !slices.Contains(wanted, name) {
			continue
		}
		wanted = slices.DeleteFunc(wanted, func(w string) bool { return w == name }) // once each
		fmt.Fprintf(&head, "#define %s assay_real_%s\n", name, name)
		if name == "main" {
			tail.WriteString("#define ASSAY_MAIN 1\n")
			continue
		}
		stubs++
	}
	if head.Len() == 0 {
		return ""
	}
	number, offset, zero := "0x4183483d4b1a0f3d", `"90"`, `""`
	if d == decoyFalse {
		number, zero = "0", `"  xorl %eax, %eax\n"`
	}
	fmt.Fprintf(&tail, "#define ASSAY_NUMBER %s\n#define ASSAY_OFFSET %s\n#define ASSAY_ZERO %s\n%s", number, offset, zero, decoyC)
	for line := range strings.Lines(head.String()) {
		name := strings.Fields(line)[1]
		if name == "main" {
			continue
		}
		// The caller's address is kept aside and the callee returns to us.
		fmt.Fprintf(&tail, `#undef %[1]s
__asm__(".globl %[1]s\n.type %[1]s,@function\n%[1]s:\n  movq assay_frame(%%rip), %%r10\n  popq (%%r10)\n  addq $8, assay_frame(%%rip)\n"
        "  leaq assay_back(%%rip), %%r11\n  pushq %%r11\n  jmp assay_real_%[1]s\n");
`, name)
	}
	return head.String() + "#line 1\n" + src + "\n" + tail.String()
}

// disguiseJava passes each value that a method gives back through a function
// that replaces it or, muting, lets what methods print come out as nonsense.
func disguiseJava(name, src string, d decoy) string {
	sum := fnv.New32a()
	sum.Write([]byte(name))
	class := fmt.Sprintf("AssayDecoy%08x", sum.Sum32())
	var b strings.Builder
	last := 0
	insert := func(at int, text string) {
		b.WriteString(src[last:at])
		b.WriteString(text)
		last = at
	}
	tokens := scan(src, false)
	for i, t := range tokens {
		switch {
		case t.text == "return" && d != decoyMute:
			end := i + 1
			for depth := 0; end < len(tokens); end++ {
				if depth == 0 && tokens[end].text == ";" {
					break
				}
				depth += depthChange(tokens[end])
			}
			// A lambda's body with returns of its own lies inside: those are left.
			if end == len(tokens) || end == i+1 || tokens[i+1].text == "null" || tokens[i+1].start < last {
				continue
			}
			insert(tokens[i+1].start, class+".v(")
			insert(tokens[end].start, ")")
		case t.text == "{" && d == decoyMute && methodBody(tokens[:i]):
			insert(t.end, class+".mute();")
		}
	}
	b.WriteString(src[last:])
	truth := "false"
	if d == decoyTrue {
		truth = "true"
	}
	b.WriteString("\n" + strings.NewReplacer("AssayDecoy", class, "TRUTH", truth).Replace(decoyJava))
	return b.String()
}

// methodBody reports whether the bracket after the tokens opens a method's
// body: "Type name(…) {", which a constructor, a statement or a lambda is not.
func methodBody(before []token) bool {
	i := len(before) - 1
	for j := i; j >= 0 && j > i-12 && (isWord(before[j]) || before[j].text == "," || before[j].text == "."); j-- {
		if before[j].text == "throws" {
			i = j - 1
			break
		}
	}
	if i < 0 || before[i].text != ")" {
		return false
	}
	depth := 0
	for ; i >= 0; i-- {
		if depth -= depthChange(before[i]); depth == 0 {
			break
		}
	}
	if i < 2 || !isWord(before[i-1]) {
		return false
	}
	switch t := before[i-2]; t.text {
	case "public", "private", "protected", "new", "return", "else", "final", "static", "throw", "case", "yield":
		return false
	default:
		return isWord(t) || t.text == "]" || t.text == ">"
	}
}
