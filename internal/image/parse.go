package image

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"assay/internal/bytesize"
	"assay/internal/fault"
)

// Parse reads a definition. file is used in messages only. Every mistake is a
// fault.Invalid with file, line, column and an excerpt. Aliases are refused:
// a definition comes from outside and an alias makes small files large.
func Parse(file string, data []byte) (Definition, error) {
	if len(data) > MaxDefinition {
		return Definition{}, fault.Errorf(fault.Invalid, "%s: a definition has at most %s", file, bytesize.Size(MaxDefinition))
	}
	s := source{file, data}
	d, tree, err := s.read()
	if err != nil {
		return Definition{}, err
	}
	if bad := d.check(); bad != nil {
		return Definition{}, s.at(tokenAt(tree, bad.at), bad.text)
	}
	return d, nil
}

// source is a definition as it was written, for messages that show it.
type source struct {
	file string
	data []byte
}

// read parses and decodes. The YAML reader panics on some malformed documents
// (found by FuzzParse); such a document is the author's mistake like any other.
func (s source) read() (d Definition, tree *ast.File, err error) {
	defer func() {
		if recover() != nil {
			err = fault.Errorf(fault.Invalid, "%s: the YAML is malformed", s.file)
		}
	}()
	tokens := lexer.Tokenize(string(s.data))
	if tk := tooDeep(tokens); tk != nil {
		return d, nil, s.at(tk, "nested too deeply")
	}
	tree, err = parser.Parse(tokens, 0)
	if err != nil {
		return d, nil, s.fault(err)
	}
	if len(tree.Docs) > 1 {
		return d, nil, s.at(tree.Docs[1].GetToken(), "more than one YAML document")
	}
	var finder aliasFinder
	for _, doc := range tree.Docs {
		ast.Walk(&finder, doc)
	}
	if finder.found != nil {
		return d, nil, s.at(finder.found, "anchors, aliases and merges are not allowed")
	}
	if len(tree.Docs) == 0 || tree.Docs[0].Body == nil {
		return d, nil, fault.Errorf(fault.Invalid, "%s: the definition is empty", s.file).
			WithHint("give at least \"from:\" with one of debian, oci, tar, template")
	}
	if err := yaml.NodeToValue(tree.Docs[0].Body, &d, yaml.Strict()); err != nil {
		return d, nil, s.fault(err)
	}
	return d, tree, nil
}

// Bounds of nesting: brackets, and the column at which a line or a list entry
// begins. The parser needs memory with the square of the depth: a file of 250
// KiB of "[" would take all the host has.
const (
	maxBrackets = 32
	maxIndent   = 200
)

// tooDeep gives the first token that is nested too deeply, or nil.
func tooDeep(tokens token.Tokens) *token.Token {
	depth, line := 0, 0
	for _, tk := range tokens {
		if tk.Position == nil {
			continue
		}
		first := tk.Position.Line != line
		line = tk.Position.Line
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth = max(depth-1, 0)
		}
		if depth > maxBrackets || (first || tk.Type == token.SequenceEntryType) && tk.Position.Column > maxIndent {
			return tk
		}
	}
	return nil
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

func (s source) fault(err error) error {
	if ye, ok := errors.AsType[yaml.Error](err); ok {
		return s.at(ye.GetToken(), ye.GetMessage())
	}
	return fault.Errorf(fault.Invalid, "%s: %w", s.file, err)
}

// at makes a fault that shows where in the file the mistake is.
func (s source) at(tk *token.Token, text string) error {
	if tk == nil || tk.Position == nil {
		return fault.Errorf(fault.Invalid, "%s: %s", s.file, text)
	}
	line, column := tk.Position.Line, tk.Position.Column
	return fault.Errorf(fault.Invalid, "%s:%d:%d: %s%s", s.file, line, column, text, s.excerpt(line, column))
}

// Bounds of an excerpt: lines before the mistake, and bytes of a line.
const (
	excerptLines = 2
	excerptWidth = 120
)

// excerpt draws a line, the ones before it, and a mark below the column.
func (s source) excerpt(line, column int) string {
	lines := bytes.Split(s.data, []byte("\n"))
	if line < 1 || line > len(lines) {
		return ""
	}
	var b strings.Builder
	for n := max(line-excerptLines, 1); n <= line; n++ {
		text := bytes.TrimRight(lines[n-1], "\r")
		mark := " "
		if n == line {
			mark = ">"
		}
		text = bytes.ReplaceAll(text[:min(len(text), excerptWidth)], []byte("\t"), []byte(" "))
		fmt.Fprintf(&b, "\n%s%3d | %s", mark, n, strings.ToValidUTF8(string(text), "?"))
	}
	if column >= 1 && column <= excerptWidth {
		fmt.Fprintf(&b, "\n     | %s^", strings.Repeat(" ", column-1))
	}
	return b.String()
}
