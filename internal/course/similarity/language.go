package similarity

import (
	"path"
	"slices"
	"strings"

	"assay/internal/fault"
)

// language says how the text of a family of languages falls into tokens. Only
// files of one family are compared.
type language struct {
	name       string
	extensions []string
	line       []string    // what begins a comment to the end of the line
	block      [][2]string // what encloses a comment
	quotes     []quote     // longer ones first
	// prefixes are letters that may stand directly before a string.
	prefixes string
	// imports begin lines that say only what is used; they are left out.
	imports []string
	// words keep their text, for nobody can rename them: keywords and types, and
	// names of the language's own library where they are called.
	words, library map[string]bool
	// docs says that a string at the beginning of a statement is a comment.
	docs bool
	// regexps says that a slash may begin a literal.
	regexps bool
}

type quote struct {
	mark string
	long bool // may go over lines
}

var (
	python = language{
		name: "python", extensions: []string{".py", ".py3", ".pyi"}, line: []string{"#"},
		quotes: []quote{{`"""`, true}, {`'''`, true}, {`"`, false}, {`'`, false}}, prefixes: "rRbBuUfF", docs: true,
		imports: []string{"import ", "from "},
		words: words(`and as assert async await break class continue def del elif else except finally for from global if import in is
			lambda match nonlocal not or pass raise return try while with yield case None True False self`),
		library: words(`super abs all any bool bytes chr dict divmod enumerate filter float frozenset getattr hash input int isinstance iter len list map
			max min next object open ord pow print range repr reversed round set setattr sorted str sum tuple type zip
			append extend insert pop remove sort split join strip items keys values get update add index count replace lower upper format`),
	}
	java = language{
		name: "java", extensions: []string{".java"}, line: []string{"//"}, block: [][2]string{{"/*", "*/"}},
		quotes: []quote{{`"""`, true}, {`"`, false}, {`'`, false}}, imports: []string{"import ", "package "},
		words: words(`abstract assert boolean break byte case catch char class const continue default do double else enum extends final finally
			float for if implements instanceof int interface long native new null private protected public record return
			short static strictfp super switch synchronized this throw throws transient true false try var void volatile while yield
			String Integer Long Double Boolean Character Object System Math List ArrayList Map HashMap Set HashSet Scanner StringBuilder`),
		library: words(`length size charAt println print add get put contains equals substring append toString`),
	}
	cFamily = language{
		name: "c", extensions: []string{".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"},
		line: []string{"//"}, block: [][2]string{{"/*", "*/"}}, quotes: []quote{{`"`, false}, {`'`, false}}, prefixes: "LuUR8",
		imports: []string{"#include", "# include", "using namespace"},
		words: words(`alignas alignof auto bool break case catch char class const constexpr continue default define delete do double else endif
			enum explicit extern false float for friend goto if ifdef ifndef inline int long mutable namespace new noexcept nullptr NULL
			operator private protected public register return short signed sizeof static static_cast struct switch template this throw
			true try typedef typename union unsigned using virtual void volatile while size_t std`),
		library: words(`printf scanf malloc free main push_back begin end size first second strlen memset`),
	}
	javascript = language{
		name: "javascript", extensions: []string{".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx"},
		line: []string{"//"}, block: [][2]string{{"/*", "*/"}}, quotes: []quote{{"`", true}, {`"`, false}, {`'`, false}}, regexps: true,
		imports: []string{"import "},
		words: words(`any async await boolean break case catch class const continue debugger default delete do else enum export extends false
			finally for from function if implements import in instanceof interface let new null number of private protected public
			readonly return static string super switch this throw true try type typeof undefined var void while with yield
			Array Object Map Set Math JSON Number String console require module exports`),
		library: words(`log length push pop shift slice splice map filter reduce forEach join split`),
	}
	// The families below are read well enough without a list of their own.
	slashes = generic("slashes", []string{"//"}, [][2]string{{"/*", "*/"}}, "\"'`", ".go", ".rs", ".cs", ".kt", ".kts", ".scala", ".swift", ".php", ".dart", ".groovy", ".v", ".sv")
	hashes  = generic("hashes", []string{"#"}, nil, "\"'", ".rb", ".pl", ".pm", ".sh", ".bash", ".r", ".jl", ".ex", ".exs", ".nim", ".awk")
	dashes  = generic("dashes", []string{"--"}, [][2]string{{"{-", "-}"}, {"/*", "*/"}}, "\"", ".hs", ".sql", ".lua", ".adb", ".ads", ".vhd", ".elm")
	parens  = generic("parens", []string{";"}, [][2]string{{"#|", "|#"}}, "\"", ".lisp", ".scm", ".rkt", ".clj", ".el", ".asm", ".s")
	percent = generic("percent", []string{"%"}, nil, "\"", ".m", ".erl")
	stars   = generic("stars", []string{"//"}, [][2]string{{"(*", "*)"}}, "\"", ".ml", ".mli", ".pas", ".fs", ".sml")

	languages = []*language{&python, &java, &cFamily, &javascript, &slashes, &hashes, &dashes, &parens, &percent, &stars}
)

func generic(name string, line []string, block [][2]string, marks string, extensions ...string) language {
	var quotes []quote
	for _, m := range marks {
		quotes = append(quotes, quote{string(m), m == '`'})
	}
	return language{
		name: name, extensions: extensions, line: line, block: block, quotes: quotes,
		words: words(`and as begin break case catch class const continue data def default define defer defun do else elsif elif end enum false
			fi fn for foreach from fun func function go if impl import in interface is lambda let loop local match method mod module mut
			new nil null not of or package print printf println private procedure program protocol pub public raise range record return
			select self set static struct switch then this throw trait true try type union unless until use val var when where while with yield`),
	}
}

func words(text string) map[string]bool {
	all := map[string]bool{}
	for _, w := range strings.Fields(text) {
		all[w] = true
	}
	return all
}

// byName gives the language that a person names, by the family's name or an
// ending.
func byName(name string) (*language, error) {
	var names []string
	alias := map[string]string{"c++": ".cpp", "python3": ".py", "typescript": ".ts", "ruby": ".rb", "rust": ".rs", "haskell": ".hs", "kotlin": ".kt", "c#": ".cs", "csharp": ".cs", "pascal": ".pas", "perl": ".pl", "matlab": ".m"}
	lower := strings.ToLower(name)
	ending := "." + strings.TrimPrefix(lower, ".")
	if a, ok := alias[lower]; ok {
		ending = a
	}
	for _, l := range languages {
		if l.name == lower || slices.Contains(l.extensions, ending) {
			return l, nil
		}
		names = append(names, l.name)
	}
	return nil, fault.Errorf(fault.NotFound, "similarity does not know the language %q", name).
		WithHint("take one of %s, an ending such as .go, or leave it out", strings.Join(names[:4], ", "))
}

// byFile gives the language of a file's name, or nil for what is no program.
func byFile(name string) *language {
	ext := strings.ToLower(path.Ext(name))
	for _, l := range languages {
		if slices.Contains(l.extensions, ext) {
			return l
		}
	}
	return nil
}
