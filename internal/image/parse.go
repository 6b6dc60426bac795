package image

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"assay/internal/fault"
)

// Parse reads a definition. file is used in messages only. Every mistake is a
// fault.Invalid with file, line, column and an excerpt. Aliases are refused:
// a definition comes from outside and an alias makes small files large.
func Parse(file string, data []byte) (Definition, error) {
	var d Definition
	if len(data) > MaxDefinition {
		return d, fault.Errorf(fault.Invalid, "%s: a definition has at most %s", file, Size(MaxDefinition))
	}
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		return d, yamlFault(file, err)
	}
	if len(tree.Docs) > 1 {
		return d, at(file, tree.Docs[1].GetToken(), "more than one YAML document")
	}
	var finder aliasFinder
	for _, doc := range tree.Docs {
		ast.Walk(&finder, doc)
	}
	if finder.found != nil {
		return d, at(file, finder.found, "anchors, aliases and merges are not allowed")
	}
	if len(tree.Docs) == 0 || tree.Docs[0].Body == nil {
		return d, fault.Errorf(fault.Invalid, "%s: the definition is empty", file).
			WithHint("give at least \"from:\" with one of debian, oci, tar, template")
	}
	if err := yaml.UnmarshalWithOptions(data, &d, yaml.Strict()); err != nil {
		return Definition{}, yamlFault(file, err)
	}
	if bad := d.check(); bad != nil {
		return Definition{}, at(file, tokenAt(tree, bad.at), bad.text)
	}
	return d, nil
}

type aliasFinder struct{ found *token.Token }

// Visit remembers the first anchor, alias or merge key.
func (f *aliasFinder) Visit(n ast.Node) ast.Visitor {
	if f.found != nil {
		return nil
	}
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		f.found = n.GetToken()
		return nil
	}
	return f
}

// tokenAt finds the token of a YAML path, or of its nearest parent that the
// file has.
func tokenAt(tree *ast.File, path string) *token.Token {
	for path != "" && path != "$" {
		if p, err := yaml.PathString(path); err == nil {
			if n, err := p.FilterFile(tree); err == nil && n != nil {
				return n.GetToken()
			}
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return tree.Docs[0].Body.GetToken()
}

func yamlFault(file string, err error) error {
	if ye, ok := errors.AsType[yaml.Error](err); ok {
		return at(file, ye.GetToken(), ye.GetMessage())
	}
	return fault.Errorf(fault.Invalid, "%s: %w", file, err)
}

// at makes a fault that shows where in the file the mistake is.
func at(file string, tk *token.Token, text string) error {
	if tk == nil || tk.Position == nil {
		return fault.Errorf(fault.Invalid, "%s: %s", file, text)
	}
	where := fmt.Sprintf("%s:%d:%d", file, tk.Position.Line, tk.Position.Column)
	_, excerpt, _ := strings.Cut(yaml.FormatErrorWithToken("x", tk, false, true), "\n")
	if excerpt = strings.TrimRight(excerpt, "\n "); excerpt != "" {
		excerpt = "\n" + excerpt
	}
	return fault.Errorf(fault.Invalid, "%s: %s%s", where, text, excerpt)
}
