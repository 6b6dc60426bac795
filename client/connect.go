package client

import (
	"context"
	"net/http"
	"strings"
)

// Connect gives a client of a server that sends a token, if it is not empty.
func Connect(server, token string) (*ClientWithResponses, error) {
	return NewClientWithResponses(strings.TrimSuffix(server, "/"), WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		leaveOut(r)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		return nil
	}))
}

// leaveOut takes out the parameters that are the zero value: with the structs of
// this package that is how a parameter is left out, and no call of the API gives
// the zero value another meaning.
func leaveOut(r *http.Request) {
	query := r.URL.Query()
	for name, values := range query {
		if len(values) == 1 && (values[0] == "" || values[0] == "0" || values[0] == "false" || values[0] == "0001-01-01T00:00:00Z") {
			query.Del(name)
		}
	}
	r.URL.RawQuery = query.Encode()
	for name, values := range r.Header {
		if len(values) == 1 && values[0] == "" {
			r.Header.Del(name)
		}
	}
}
