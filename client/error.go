package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Failure is what a server says when it does not do what was asked.
type Failure struct {
	// Status is HTTP's.
	Status int
	// Code is for programs ("problem.not_found"), Text and Hint are for people.
	Code, Text, Hint string
	// RequestID names the request in the server's log.
	RequestID string
	// After is how long to wait before another try; zero is unknown.
	After time.Duration
}

// Error gives the sentence for people.
func (f *Failure) Error() string { return f.Text }

// Check gives a *Failure unless the answer's status is a success. body is what
// was read of it.
func Check(r *http.Response, body []byte) error {
	if r.StatusCode < 300 {
		return nil
	}
	f := &Failure{Status: r.StatusCode, RequestID: r.Header.Get("X-Request-Id")}
	var e Error
	if json.Unmarshal(body, &e) == nil && e.Error != "" {
		f.Code, f.Text, f.Hint = e.Code, e.Error, e.Hint
	} else {
		f.Text = fmt.Sprintf("the server answered %s", r.Status)
	}
	if n, err := strconv.Atoi(r.Header.Get("Retry-After")); err == nil && n > 0 {
		f.After = time.Duration(n) * time.Second
	}
	return f
}

// IsCode reports whether err is a server's failure whose code ends with this
// kind: IsCode(err, "not_found").
func IsCode(err error, kind string) bool {
	var f *Failure
	return errors.As(err, &f) && strings.HasSuffix(f.Code, "."+kind)
}
