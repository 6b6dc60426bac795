// Package guard holds the tests that keep the house in order: who may import
// whom, one comment for each package, short files, no grab-bag names. It has
// tests only; each rule stands in a table with its reason, and a failure
// prints that reason. Start with importRules.
package guard

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// module is the path in go.mod.
const module = "assay"

// source is one Go file of the repository.
type source struct {
	// path and dir are relative to the repository, with slashes.
	path, dir string
	test      bool
	generated bool
	lines     int
	ast       *ast.File
	fset      *token.FileSet
}

// imports gives the file's imports; those of this module without the module's
// name ("internal/fault").
func (s source) imports() []string {
	var all []string
	for _, spec := range s.ast.Imports {
		// The parser accepted the literal, so it can be unquoted.
		path, _ := strconv.Unquote(spec.Path.Value)
		all = append(all, strings.TrimPrefix(path, module+"/"))
	}
	return all
}

// calls reports where the file uses package pkg's function name, as
// "path:line". It looks at the syntax only: a renamed import escapes it.
func (s source) calls(pkg string, names ...string) []string {
	var found []string
	ast.Inspect(s.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if !ok || x.Name != pkg || x.Obj != nil {
			return true
		}
		for _, name := range names {
			if sel.Sel.Name == name {
				found = append(found, s.path+":"+strconv.Itoa(s.fset.Position(sel.Pos()).Line))
			}
		}
		return true
	})
	return found
}

// repository reads every Go file once, for all tests.
var repository = sync.OnceValues(func() ([]source, error) {
	root := filepath.Join("..", "..")
	var all []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			// Folders that the go command does not look into, and those of
			// other modules and of programs to be judged.
			if path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") ||
				name == "testdata" || name == "node_modules" || name == "tools" || name == "examples") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, rel, text, parser.ParseComments)
		if err != nil {
			return err
		}
		all = append(all, source{
			path: rel, dir: filepath.ToSlash(filepath.Dir(rel)),
			test:      strings.HasSuffix(name, "_test.go"),
			generated: ast.IsGenerated(file),
			lines:     fset.File(file.Pos()).LineCount(),
			ast:       file, fset: fset,
		})
		return nil
	})
	return all, err
})

func sources(t *testing.T) []source {
	t.Helper()
	all, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no Go file found: the guard looks at the wrong place")
	}
	return all
}

// matches reports whether a path fits a pattern as the go command has them:
// "internal/judge" is that package, "internal/judge/..." also all below it.
func matches(pattern, path string) bool {
	if base, found := strings.CutSuffix(pattern, "/..."); found {
		return path == base || strings.HasPrefix(path, base+"/")
	}
	return path == pattern
}

func matchesAny(patterns []string, path string) bool {
	for _, p := range patterns {
		if matches(p, path) {
			return true
		}
	}
	return false
}
