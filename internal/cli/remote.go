package cli

import (
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"reflect"

	"assay/client"
	"assay/internal/fault"
)

// defaultServer is where a server listens that was not told otherwise.
const defaultServer = "http://127.0.0.1:8080"

// serverFlags are those of every command that speaks to a server.
type serverFlags struct {
	Server string `name:"server" env:"ASSAY_SERVER" placeholder:"URL" help:"Server to speak to (default: the one logged in to, else http://127.0.0.1:8080)."`
	Token  string `name:"token" env:"ASSAY_TOKEN" placeholder:"TOKEN" help:"Token to use in place of the one from \"assay login\"; best in the environment."`
}

// where gives the server's address and the token for it.
func (f serverFlags) where() (server, token string, err error) {
	c, err := readCredentials()
	if err != nil {
		return "", "", err
	}
	server = serverURL(f.Server)
	if server == "" {
		server = c.Current
	}
	if server == "" {
		server = defaultServer
	}
	token = f.Token
	if token == "" {
		token = c.Tokens[server]
	}
	return server, token, nil
}

// connect gives a client of the server that the flags mean.
func (f serverFlags) connect(*Env) (*client.ClientWithResponses, error) {
	server, token, err := f.where()
	if err != nil {
		return nil, err
	}
	api, err := client.Connect(server, token)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "server %s: %w", server, err)
	}
	return api, nil
}

// failureKinds is the one table from a server's status to a fault's kind.
var failureKinds = map[int]fault.Kind{
	http.StatusUnauthorized: fault.Unauthenticated, http.StatusForbidden: fault.Denied, http.StatusNotFound: fault.NotFound, http.StatusConflict: fault.Conflict,
	http.StatusUnprocessableEntity: fault.Conflict, http.StatusTooManyRequests: fault.Limited, http.StatusNotImplemented: fault.Unsupported,
	http.StatusServiceUnavailable: fault.Unavailable, http.StatusBadGateway: fault.Unavailable, http.StatusGatewayTimeout: fault.Unavailable,
}

// answered makes a fault of what a generated call gave, unless it succeeded. r
// is a pointer to a struct with Body and HTTPResponse, or nil beside an error.
func answered(r any, err error) error {
	if err != nil {
		return unreachable(err)
	}
	v := reflect.ValueOf(r).Elem()
	response, ok := v.FieldByName("HTTPResponse").Interface().(*http.Response)
	if !ok {
		return fault.Errorf(fault.Internal, "%T is no answer", r)
	}
	return failed(client.Check(response, v.FieldByName("Body").Bytes()))
}

func unreachable(err error) error {
	return fault.Errorf(fault.Unavailable, "speak to the server: %w", err).WithHint(`is it running ("assay serve"), and is --server right?`)
}

// failed gives a server's refusal its kind.
func failed(err error) error {
	f, ok := errors.AsType[*client.Failure](err)
	if !ok {
		return err
	}
	kind, known := failureKinds[f.Status]
	switch {
	case known:
	case f.Status >= 500:
		kind = fault.Unavailable
	default:
		kind = fault.Invalid
	}
	hint := f.Hint
	if hint == "" && f.Status >= 500 {
		hint = "the server's log has more under request " + f.RequestID
	}
	return fault.Errorf(kind, "%w", err).WithHint("%s", hint).TryAfter(f.After)
}

// maxFailure bounds what is read of an answer that refuses a stream.
const maxFailure = 1 << 20

// streamOf gives the body of an answer that is a stream.
func streamOf(r *http.Response, err error) (io.ReadCloser, error) {
	if err != nil {
		return nil, unreachable(err)
	}
	if r.StatusCode < 300 {
		return r.Body, nil
	}
	defer r.Body.Close()
	body, err := io.ReadAll(io.LimitReader(r.Body, maxFailure))
	if err != nil {
		return nil, unreachable(err)
	}
	return nil, failed(client.Check(r, body))
}

// newKey makes an idempotency key.
func newKey() string { return rand.Text() }
