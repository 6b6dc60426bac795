package call

import (
	_ "embed"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"assay/internal/course"
)

//go:embed caller.hpp
var cppCaller []byte

func cppRunner(x *session) runner {
	return &single{x: x, build: cppSources, caller: cppFiles, entry: "main.cpp"}
}

// ownMain finds a student's own main function.
var ownMain = regexp.MustCompile(`\b(int|void|auto)\s+main\s*\(`)

// cppSources are the student's sources beside the one that main.cpp includes. A
// file with a main function is the student's own trial and left out.
func cppSources(x *session) []string {
	var list []string
	for _, f := range x.files {
		if f.Name != x.entry && x.lang.Compiles(f.Name) && !ownMain.Match(f.Data) {
			list = append(list, f.Name)
		}
	}
	return list
}

func cppFiles(x *session) []course.File {
	return []course.File{{Name: "caller.hpp", Data: cppCaller}, {Name: "main.cpp", Data: []byte(cppMain(x))}}
}

// cppMain is the program that binds the names that tests call. A name that the
// student's files do not have at all is left out: it fails its tests only, and
// not the compilation.
func cppMain(x *session) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#include \"caller.hpp\"\n#define main assay_student_main\n#include %q\n#undef main\n", srcDir+"/"+x.entry)
	b.WriteString("namespace {\nusing namespace assay_caller;\nconst Binding bindings[] = {\n    {\"\", nullptr},\n")
	bound := map[string]bool{}
	bind := func(key, name, body string) {
		if bound[key] || !cppHas(x.files, name) {
			return
		}
		bound[key] = true
		fmt.Fprintf(&b, "    {%s, [](Context& c) { %s }},\n", strconv.Quote(key), body)
	}
	for _, t := range x.assignment.Tests {
		made := ""
		for _, s := range t.Call.Steps {
			switch {
			case s.New != "":
				made = s.New
				class, types, typed := cppSignature(s.New)
				if typed {
					bind(s.New, class, fmt.Sprintf("make_of<%s>(c);", strings.Join(append([]string{"::" + class}, types...), ", ")))
				} else {
					bind(s.New, class, fmt.Sprintf("make<::%s, %d>(c);", class, len(s.Args)))
				}
			case made != "":
				class, _, _ := cppSignature(made)
				bind(made+"."+s.Call+s.Get, class, cppMethod(class, s.Call+s.Get))
			case s.Get != "":
				bind(s.Get, s.Get, fmt.Sprintf("read(c, ::%s);", s.Get))
			default:
				name, types, typed := cppSignature(s.Call)
				if typed {
					params, args := cppParameters(types)
					bind(s.Call, name, fmt.Sprintf("call<void>(c, +[](%s) -> decltype(auto) { return ::%s(%s); });", strings.Join(params, ", "), name, strings.Join(args, ", ")))
				} else {
					bind(s.Call, name, fmt.Sprintf("call<void>(c, &::%s);", name))
				}
			}
		}
	}
	b.WriteString("};\n}\nint main() { _exit(serve(bindings)); }\n")
	return b.String()
}

// cppMethod calls a method, or reads an attribute, if the class has it.
func cppMethod(class, signature string) string {
	name, types, typed := cppSignature(signature)
	if !typed {
		return fmt.Sprintf("[]<class C>(Context& c, C*) { if constexpr (requires { &C::%s; }) call<C>(c, &C::%s); else call<C>(c, Missing{}); }(c, static_cast<::%s*>(nullptr));", name, name, class)
	}
	params, args := cppParameters(types)
	given := strings.Join(append([]string{"C& self"}, params...), ", ")
	called := fmt.Sprintf("self.%s(%s)", name, strings.Join(args, ", "))
	return fmt.Sprintf("[]<class C>(Context& c, C*) { if constexpr (requires(%s) { %s; }) call_on<C>(c, +[](%s) -> decltype(auto) { return %s; }); else call<C>(c, Missing{}); }(c, static_cast<::%s*>(nullptr));",
		given, called, given, called, class)
}

// cppSignature takes "area(double, double)" apart; typed says that there were
// parentheses.
func cppSignature(s string) (name string, types []string, typed bool) {
	name, list, typed := strings.Cut(strings.TrimPrefix(strings.TrimSpace(s), "::"), "(")
	list = strings.TrimSuffix(strings.TrimSpace(list), ")")
	depth, from := 0, 0
	for i, r := range list + "," {
		switch r {
		case '<', '(':
			depth++
		case '>', ')':
			depth--
		case ',':
			if depth == 0 {
				if t := strings.TrimSpace(list[from:i]); t != "" {
					types = append(types, t)
				}
				from = i + 1
			}
		}
	}
	return strings.TrimSpace(name), types, typed
}

func cppParameters(types []string) (params, args []string) {
	for i, t := range types {
		arg := "a" + strconv.Itoa(i)
		params, args = append(params, t+" "+arg), append(args, arg)
	}
	return params, args
}

// cppHas reports whether the last part of a name ("geo::area<int>") is a word of
// the student's files.
func cppHas(files []course.File, name string) bool {
	name, _, _ = strings.Cut(name, "<")
	word := regexp.MustCompile(`\b` + regexp.QuoteMeta(path.Base(strings.ReplaceAll(name, "::", "/"))) + `\b`)
	for _, f := range files {
		if word.Match(f.Data) {
			return true
		}
	}
	return false
}
