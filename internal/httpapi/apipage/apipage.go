// Package apipage shows the contract as a page on which every call can be tried.
// Start with New.
//
// It is made from the contract alone and must not know how anything is done.
package apipage

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

//go:embed page.html page.css page.js
var files embed.FS

// page is what the template shows.
type page struct {
	Title, Version string
	About          []template.HTML
	Tags           []tag
}

type tag struct {
	Name, About string
	Operations  []operation
}

type operation struct {
	ID, Method, Path, Summary string
	About                     []template.HTML
	Parameters                []parameter
	// Body is an example, and BodyKind its media type; "" takes no body.
	Body, BodyKind string
	File           bool
	Stream         bool
	Answers        []answer
}

type parameter struct {
	Name, In, Type, Default string
	About                   []template.HTML
	Required                bool
	Enum                    []string
}

type answer struct{ Status, About, Kind, Example string }

// New makes the handler of /api/docs and what is below it.
func New(spec *openapi3.T) (http.Handler, error) {
	const prefix = "/api/docs"
	t, err := template.ParseFS(files, "page.html")
	if err != nil {
		return nil, fmt.Errorf("read the page of the API: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, pageOf(spec)); err != nil {
		return nil, fmt.Errorf("write the page of the API: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+prefix, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		// A reader that went away is no failure.
		_, _ = w.Write(b.Bytes())
	})
	for name, kind := range map[string]string{"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"} {
		data, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		mux.HandleFunc("GET "+prefix+"/"+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(data)
		})
	}
	return mux, nil
}

func pageOf(spec *openapi3.T) page {
	p := page{Title: spec.Info.Title, Version: spec.Info.Version, About: paragraphs(spec.Info.Description)}
	for _, t := range spec.Tags {
		shown := tag{Name: t.Name, About: t.Description}
		for _, path := range spec.Paths.InMatchingOrder() {
			item := spec.Paths.Find(path)
			for method, op := range item.Operations() {
				if slices.Contains(op.Tags, t.Name) {
					shown.Operations = append(shown.Operations, operationOf(path, method, item, op))
				}
			}
		}
		slices.SortFunc(shown.Operations, func(a, b operation) int {
			return strings.Compare(a.Path+" "+order(a.Method), b.Path+" "+order(b.Method))
		})
		if len(shown.Operations) > 0 {
			p.Tags = append(p.Tags, shown)
		}
	}
	return p
}

// order puts methods as people think of them.
func order(method string) string {
	return fmt.Sprint(slices.Index([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}, method))
}

func operationOf(path, method string, item *openapi3.PathItem, op *openapi3.Operation) operation {
	o := operation{ID: op.OperationID, Method: method, Path: path, Summary: op.Summary, About: paragraphs(op.Description)}
	for _, ref := range append(slices.Clone(item.Parameters), op.Parameters...) {
		o.Parameters = append(o.Parameters, parameterOf(ref.Value))
	}
	if op.RequestBody != nil {
		o.BodyKind, o.Body = bodyOf(op.RequestBody.Value.Content)
		o.File = o.BodyKind != "application/json"
	}
	for status, ref := range op.Responses.Map() {
		a := answer{Status: status}
		if ref.Value.Description != nil {
			a.About = *ref.Value.Description
		}
		a.Kind, a.Example = bodyOf(ref.Value.Content)
		o.Stream = o.Stream || a.Kind == "text/event-stream"
		o.Answers = append(o.Answers, a)
	}
	slices.SortFunc(o.Answers, func(a, b answer) int { return strings.Compare(a.Status, b.Status) })
	return o
}

func parameterOf(p *openapi3.Parameter) parameter {
	out := parameter{Name: p.Name, In: p.In, About: paragraphs(p.Description), Required: p.Required}
	if p.Schema == nil {
		return out
	}
	s := p.Schema.Value
	if s.Type != nil {
		out.Type = strings.Join(s.Type.Slice(), " ")
	}
	if s.Default != nil {
		out.Default = fmt.Sprint(s.Default)
	}
	for _, e := range s.Enum {
		out.Enum = append(out.Enum, fmt.Sprint(e))
	}
	return out
}

// bodyOf gives the kind of a body and, of JSON, an example.
func bodyOf(content openapi3.Content) (kind, example string) {
	if m := content["application/json"]; m != nil && m.Schema != nil {
		b, err := json.MarshalIndent(Example(m.Schema.Value), "", "  ")
		if err != nil || string(b) == "null" || m.Schema.Value.Format == "binary" {
			return "application/json", ""
		}
		return "application/json", string(b)
	}
	for name := range content {
		return name, ""
	}
	return "", ""
}

// deepest bounds examples of things that hold themselves.
const deepest = 6

// fields keeps the order of an object's properties: required ones first.
type fields []field

type field struct {
	name  string
	value any
}

// MarshalJSON writes an object.
func (f fields) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, e := range f {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(e.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(e.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Example makes a value that fits a schema, as a reader may begin with: required
// properties first, numbers 0, texts empty where the contract has no example.
func Example(s *openapi3.Schema) any { return exampleOf(s, 0) }

func exampleOf(s *openapi3.Schema, depth int) any {
	switch {
	case s == nil || depth > deepest:
		return nil
	case s.Example != nil:
		return s.Example
	case s.Default != nil:
		return s.Default
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.AllOf) > 0:
		return exampleOf(s.AllOf[0].Value, depth+1)
	case len(s.OneOf) > 0:
		return exampleOf(s.OneOf[0].Value, depth+1)
	case s.Type.Is("array"):
		return []any{exampleOf(s.Items.Value, depth+1)}
	case s.Type.Is("object"):
		return objectOf(s, depth)
	case s.Type.Is("integer"), s.Type.Is("number"):
		return 0
	case s.Type.Is("boolean"):
		return false
	case s.Format == "date-time":
		return "2026-09-01T12:00:00Z"
	}
	return ""
}

func objectOf(s *openapi3.Schema, depth int) any {
	var names []string
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		ra, rb := slices.Index(s.Required, a), slices.Index(s.Required, b)
		switch {
		case ra >= 0 && rb >= 0:
			return ra - rb
		case ra >= 0:
			return -1
		case rb >= 0:
			return 1
		}
		return strings.Compare(a, b)
	})
	f := fields{}
	for _, name := range names {
		f = append(f, field{name, exampleOf(s.Properties[name].Value, depth+1)})
	}
	return f
}

// paragraphs makes HTML of the little Markdown that the contract has: blank lines,
// **bold** and `code`.
func paragraphs(text string) (list []template.HTML) {
	for _, p := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if p == "" {
			continue
		}
		p = template.HTMLEscapeString(p)
		p = pairs(p, "**", "<strong>", "</strong>")
		list = append(list, template.HTML(pairs(p, "`", "<code>", "</code>"))) //nolint:gosec // escaped above; the rest is ours
	}
	return list
}

// pairs puts tags in place of marks that come in twos.
func pairs(text, mark, begin, end string) string {
	parts := strings.Split(text, mark)
	if len(parts)%2 == 0 {
		return text
	}
	var b strings.Builder
	for i, p := range parts {
		switch {
		case i == 0:
		case i%2 == 1:
			b.WriteString(begin)
		default:
			b.WriteString(end)
		}
		b.WriteString(p)
	}
	return b.String()
}
