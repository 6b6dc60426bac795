package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// doer answers requests without a network.
type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

func answer(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
}

// TestLoginOutlivesAServerThatIsAway: a code that somebody is just approving is
// not thrown away because the server is started again.
func TestLoginOutlivesAServerThatIsAway(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	for name, tt := range map[string]struct {
		// away is for how many polls nobody answers.
		away  int
		token string
	}{
		"never_away": {0, "secret"}, "for_a_moment": {4, "secret"}, "for_good": {1000, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				polls := 0
				c, err := NewClientWithResponses("http://assay.example", WithHTTPClient(doer(func(r *http.Request) (*http.Response, error) {
					if strings.HasSuffix(r.URL.Path, "/device") {
						return answer(200, `{"device_code":"d","user_code":"BCDF-GHJK","interval":5,"expires_in":600}`), nil
					}
					if polls++; polls <= tt.away {
						return nil, refused
					}
					return answer(200, `{"access_token":"secret","token_type":"Bearer"}`), nil
				})))
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				got, err := c.Login(context.Background(), "assay login", "", func(DeviceCodes) {})
				if got.AccessToken != tt.token || (tt.token == "") != errors.Is(err, refused) {
					t.Errorf("got %+v, %v", got, err)
				}
				if took := time.Since(begin); took > 10*time.Minute {
					t.Errorf("it waited %s for a code that lives ten minutes", took)
				}
			})
		})
	}
}
