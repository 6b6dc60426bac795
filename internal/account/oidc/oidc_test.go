package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"assay/internal/account"
	"assay/internal/fault"
)

// idp is a provider on this machine. Fields change what it does wrong.
type idp struct {
	*httptest.Server
	t      *testing.T
	key    *ecdsa.PrivateKey
	signer jose.Signer
	// challenge and nonce are those of the last authorization.
	challenge, nonce string
	claims           map[string]any
	status           int
	noToken          bool
}

func newIDP(t *testing.T) *idp {
	t.Helper()
	p := &idp{t: t}
	p.key, p.signer = newKey(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		p.json(w, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"ES256"}, "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		p.json(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}})
	})
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	p.claims = map[string]any{
		"iss": p.URL, "aud": "assay", "sub": "1", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(),
		"email": "jane@example.org", "email_verified": true, "name": "Jane", "preferred_username": "jd",
	}
	return p
}

func newKey(t *testing.T) (*ecdsa.PrivateKey, jose.Signer) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "1"))
	if err != nil {
		t.Fatal(err)
	}
	return key, signer
}

func (p *idp) json(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		p.t.Error(err)
	}
}

func (p *idp) token(w http.ResponseWriter, r *http.Request) {
	if p.status != 0 {
		w.WriteHeader(p.status)
		_, _ = w.Write([]byte(`{"error":"server_error","secret":"do not show"}`))
		return
	}
	id, secret, _ := r.BasicAuth()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if id != "assay" || secret != "s3cret" || r.FormValue("code") != "code" || base64.RawURLEncoding.EncodeToString(sum[:]) != p.challenge {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
		return
	}
	if _, ok := p.claims["nonce"]; !ok {
		p.claims["nonce"] = p.nonce
	}
	payload, err := json.Marshal(p.claims)
	if err != nil {
		p.t.Error(err)
	}
	signed, err := p.signer.Sign(payload)
	if err != nil {
		p.t.Error(err)
	}
	raw, err := signed.CompactSerialize()
	if err != nil {
		p.t.Error(err)
	}
	answer := map[string]any{"access_token": "at", "token_type": "Bearer", "id_token": raw}
	if p.noToken {
		delete(answer, "id_token")
	}
	p.json(w, answer)
}

func (p *idp) open(t *testing.T) *Provider {
	t.Helper()
	got, err := New(Config{Issuer: p.URL, ClientID: "assay", ClientSecret: "s3cret", Redirect: "https://assay.example/sign-in/oidc/callback"})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// authorize is what the browser does at the provider.
func (p *idp) authorize(t *testing.T, provider *Provider) {
	t.Helper()
	where, err := provider.AuthURL(t.Context(), "state", "nonce", verifier)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(where)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	if !strings.HasPrefix(where, p.URL+"/authorize?") || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" ||
		q.Get("scope") != "openid profile email" || q.Get("state") != "state" || q.Get("redirect_uri") != "https://assay.example/sign-in/oidc/callback" {
		t.Errorf("the browser is sent to %s", where)
	}
	p.challenge, p.nonce = q.Get("code_challenge"), q.Get("nonce")
}

const verifier = "a-verifier-of-at-least-forty-three-characters"

func TestIdentify(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	provider := p.open(t)
	p.authorize(t, provider)
	got, err := provider.Identify(t.Context(), "code", "nonce", verifier)
	if err != nil {
		t.Fatal(err)
	}
	want := account.Identity{Issuer: p.URL, Subject: "1", Login: "jd", Name: "Jane", Email: "jane@example.org", Verified: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestIdentifyRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name                  string
		wrong                 func(p *idp)
		code, nonce, verifier string
		want                  fault.Kind
	}{
		{"code", nil, "other", "nonce", verifier, fault.Denied},
		{"verifier", nil, "code", "nonce", verifier + "x", fault.Denied},
		{"nonce", nil, "code", "other", verifier, fault.Denied},
		{"no_nonce", func(p *idp) { p.claims["nonce"] = "" }, "code", "", verifier, fault.Denied},
		{"audience", func(p *idp) { p.claims["aud"] = "other" }, "code", "nonce", verifier, fault.Denied},
		{"issuer", func(p *idp) { p.claims["iss"] = "https://evil.example" }, "code", "nonce", verifier, fault.Denied},
		{"expired", func(p *idp) { p.claims["exp"] = time.Now().Add(-time.Hour).Unix() }, "code", "nonce", verifier, fault.Denied},
		{"signature", func(p *idp) { _, p.signer = newKey(p.t) }, "code", "nonce", verifier, fault.Denied},
		{"claims", func(p *idp) { p.claims["email"] = 7 }, "code", "nonce", verifier, fault.Denied},
		{"no_token", func(p *idp) { p.noToken = true }, "code", "nonce", verifier, fault.Denied},
		{"broken", func(p *idp) { p.status = 500 }, "code", "nonce", verifier, fault.Unavailable},
		{"gone", func(p *idp) { p.Close() }, "code", "nonce", verifier, fault.Unavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newIDP(t)
			provider := p.open(t)
			p.authorize(t, provider)
			if tt.wrong != nil {
				tt.wrong(p)
			}
			id, err := provider.Identify(t.Context(), tt.code, tt.nonce, tt.verifier)
			if !fault.Is(err, tt.want) || id != (account.Identity{}) {
				t.Errorf("got %+v, %v; want %s", id, err, tt.want)
			}
			if err != nil && (strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "do not show")) {
				t.Errorf("the error tells secrets: %v", err)
			}
		})
	}
}

// TestVerifiedAsText: some providers write the claim as text.
func TestVerifiedAsText(t *testing.T) {
	t.Parallel()
	for value, want := range map[any]bool{"true": true, "false": false, "": false, 1: false, nil: false} {
		p := newIDP(t)
		provider := p.open(t)
		p.authorize(t, provider)
		p.claims["email_verified"] = value
		id, err := provider.Identify(t.Context(), "code", "nonce", verifier)
		if err != nil || id.Verified != want {
			t.Errorf("%v: got %v, %v; want %v", value, id.Verified, err, want)
		}
	}
}

func TestBadSettings(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	good := Config{Issuer: p.URL, ClientID: "assay", Redirect: "https://assay.example/cb"}
	for name, change := range map[string]func(c *Config){
		"no_client": func(c *Config) { c.ClientID = "" },
		"http":      func(c *Config) { c.Issuer = "http://idp.example" },
		"file":      func(c *Config) { c.Issuer = "file:///etc/passwd" },
		"redirect":  func(c *Config) { c.Redirect = "/cb" },
		"password":  func(c *Config) { c.Issuer = "https://a:b@idp.example" },
	} {
		c := good
		change(&c)
		if _, err := New(c); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestProviderIsNeededWhenItIsUsed: a server starts while the provider is down,
// and goes on when it is back.
func TestProviderIsNeededWhenItIsUsed(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	up := p.Config.Handler
	var down atomic.Bool
	down.Store(true)
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		up.ServeHTTP(w, r)
	})
	provider := p.open(t)
	if _, err := provider.AuthURL(t.Context(), "state", "nonce", verifier); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
	if _, err := provider.Identify(t.Context(), "code", "nonce", verifier); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
	down.Store(false)
	// The request that finds it ends before its keys are fetched.
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := provider.AuthURL(ctx, "state", "nonce", verifier); err != nil {
		t.Fatal(err)
	}
	cancel()
	p.authorize(t, provider)
	if _, err := provider.Identify(t.Context(), "code", "nonce", verifier); err != nil {
		t.Error(err)
	}
}

// TestProviderThatHangsIsNotAskedInTurn: who waits while somebody asks in vain
// gets the same answer, and does not wait as long once more.
func TestProviderThatHangsIsNotAskedInTurn(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	var asked atomic.Int32
	begun, hang := make(chan struct{}), make(chan struct{})
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			close(begun)
		}
		<-hang
		w.WriteHeader(http.StatusBadGateway)
	})
	provider := p.open(t)
	ask := func() {
		if _, err := provider.AuthURL(t.Context(), "state", "nonce", verifier); !fault.Is(err, fault.Unavailable) {
			t.Errorf("got %v", err)
		}
	}
	var all sync.WaitGroup
	all.Go(ask)
	<-begun
	waiting := make(chan struct{}, 20)
	for range cap(waiting) {
		all.Go(func() {
			waiting <- struct{}{}
			ask()
		})
	}
	for range cap(waiting) {
		<-waiting
	}
	close(hang)
	all.Wait()
	// One that came too late to wait has asked for itself.
	if n := asked.Load(); n >= int32(cap(waiting)) {
		t.Errorf("the provider was asked %d times", n)
	}
}
