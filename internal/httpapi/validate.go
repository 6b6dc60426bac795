package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"assay/api"
	"assay/internal/fault"
)

// validator holds requests against the contract before a handler sees them, so
// that bad input is refused in one place and nothing is half done.
type validator struct {
	s        *server
	spec     *openapi3.T
	document []byte
}

func newValidator(s *server) (*validator, error) {
	spec, err := api.GetSpec()
	if err != nil {
		return nil, fmt.Errorf("read the contract: %w", err)
	}
	document, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("write the contract: %w", err)
	}
	return &validator{s, spec, document}, nil
}

func (v *validator) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := v.check(r); err != nil {
			Fail(v.s.Log, w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (v *validator) check(r *http.Request) error {
	_, path, _ := strings.Cut(r.Pattern, " ")
	item := v.spec.Paths.Find(path)
	if item == nil || item.GetOperation(r.Method) == nil {
		return fault.Errorf(fault.Internal, "the contract has no %s", r.Pattern)
	}
	op := item.GetOperation(r.Method)
	in := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: map[string]string{},
		Route: &routers.Route{Spec: v.spec, Path: path, PathItem: item, Method: r.Method, Operation: op},
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
			// Files are streamed: nobody may read them to the end here.
			ExcludeRequestBody: op.RequestBody == nil || op.RequestBody.Value.Content["application/json"] == nil,
		},
	}
	for _, p := range append(item.Parameters, op.Parameters...) {
		if p.Value.In == openapi3.ParameterInPath {
			in.PathParams[p.Value.Name] = r.PathValue(p.Value.Name)
		}
	}
	if op.RequestBody != nil && in.Options.ExcludeRequestBody {
		if err := wantKind(op.RequestBody.Value, r); err != nil {
			return err
		}
	}
	return explain(openapi3filter.ValidateRequest(r.Context(), in))
}

// wantKind refuses a file of another kind than the operation takes.
func wantKind(body *openapi3.RequestBody, r *http.Request) error {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if body.Content.Get(strings.TrimSpace(kind)) != nil || kind == "" && !body.Required {
		return nil
	}
	var known []string
	for name := range body.Content {
		known = append(known, name)
	}
	return fault.Errorf(fault.Invalid, "the body's Content-Type is %q", kind).WithHint("send %s", strings.Join(known, " or "))
}

// explain makes one sentence of what the validator found.
func explain(err error) error {
	if err == nil {
		return nil
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return tooLarge
	}
	var where, why string
	var request *openapi3filter.RequestError
	if errors.As(err, &request) {
		switch {
		case request.Parameter != nil:
			where = request.Parameter.Name + ": "
		case request.RequestBody != nil:
			where = "the body: "
		}
		why = request.Reason
	}
	var schema *openapi3.SchemaError
	var parse *openapi3filter.ParseError
	switch {
	case errors.As(err, &schema):
		if at := schema.JSONPointer(); len(at) > 0 {
			where = strings.Join(at, ".") + ": "
		}
		why = schema.Reason
	case errors.As(err, &parse):
		why = parse.Error()
	}
	if why == "" {
		why = err.Error()
	}
	return fault.Errorf(fault.Invalid, "%s%s", where, why).WithHint("see /api/openapi.json for what is taken")
}
