package problempkg

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"

	"assay/internal/fault"
)

// Caps on what one XML file may hold.
const (
	maxXML      = 8 << 20
	maxXMLNodes = 200_000
	maxXMLDepth = 32
	maxXMLText  = 4096
)

// node is an element of an XML file and where it stands.
type node struct {
	file     string
	line     int
	name     string
	attrs    []xml.Attr
	text     string
	children []*node
}

// parseXML reads a file without entities of its own, which the parser does not
// expand: nobody needs them here, and they are what bombs are made of.
func parseXML(file string, data []byte) (*node, error) {
	d := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	root := &node{file: file, line: 1}
	stack := []*node{root}
	count := 0
	for {
		token, err := d.Token()
		line, _ := d.InputPos()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, spot(file, data, line, "not XML that can be read: %s", strings.ToValidUTF8(err.Error(), "\uFFFD"))
		}
		top := stack[len(stack)-1]
		switch t := token.(type) {
		case xml.StartElement:
			if count++; count > maxXMLNodes {
				return nil, spot(file, data, line, "more than %d elements", maxXMLNodes)
			}
			if len(stack) > maxXMLDepth {
				return nil, spot(file, data, line, "nested too deeply")
			}
			n := &node{file: file, line: line, name: t.Name.Local, attrs: t.Attr}
			top.children = append(top.children, n)
			stack = append(stack, n)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			if len(top.text) < maxXMLText {
				top.text += strings.TrimSpace(string(t))
			}
		case xml.Directive:
			if bytes.Contains(t, []byte("ENTITY")) {
				return nil, spot(file, data, line, "entities are not allowed")
			}
		}
	}
	if len(root.children) != 1 {
		return nil, fault.Errorf(fault.Invalid, "%s:1: expected one element that holds all others", file)
	}
	return root.children[0], nil
}

// attr gives the value of an attribute, or "".
func (n *node) attr(name string) string {
	for _, a := range n.attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// first gives the first element below, by names from the top down, or an empty
// one.
func (n *node) first(names ...string) *node {
	at := n
	for _, name := range names {
		var found *node
		for _, c := range at.children {
			if c.name == name {
				found = c
				break
			}
		}
		if found == nil {
			return &node{file: n.file, line: at.line}
		}
		at = found
	}
	return at
}

// all gives every element with a name right below.
func (n *node) all(name string) []*node {
	var list []*node
	for _, c := range n.children {
		if c.name == name {
			list = append(list, c)
		}
	}
	return list
}

func (n *node) wrong(format string, args ...any) *fault.Error {
	e := fault.Errorf(fault.Invalid, format, args...)
	return fault.Errorf(fault.Invalid, "%s:%d: %w", n.file, n.line, e)
}

func (n *node) unsupported(format string, args ...any) *fault.Error {
	e := n.wrong(format, args...)
	e.Kind = fault.Unsupported
	return e
}
