// Package oidc lets people come from an OIDC provider: it is an
// account.Provider over the network. Start with New.
//
// It must not know who may come: it only says who somebody is.
package oidc

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"assay/internal/account"
	"assay/internal/fault"
)

// Config is how to reach a provider.
type Config struct {
	// Issuer is the provider's URL; https, or http on this machine.
	Issuer                 string
	ClientID, ClientSecret string
	// Redirect is the URL of ours that the provider sends the browser to.
	Redirect string
	// Scopes are asked for besides openid: profile and email if nil.
	Scopes []string
	// Client is nil for one with a time limit.
	Client *http.Client
}

// requestLimit is how long the provider may take for an answer.
const requestLimit = 15 * time.Second

// Provider is an OIDC provider. It may be used from many goroutines.
type Provider struct {
	cfg    Config
	client *http.Client

	mu sync.Mutex
	// found is nil until the provider has been reached.
	found *found
	// tried is when it could not be reached last, and failed why.
	tried  time.Time
	failed error
}

// found is what the provider says of itself.
type found struct {
	provider *oidc.Provider
	oauth    oauth2.Config
}

var _ account.Provider = (*Provider)(nil)

// New checks the settings; those that cannot be right are Invalid. The provider
// is asked where its endpoints are when somebody first signs in, so a server
// starts without it and needs no new start when it is back.
func New(cfg Config) (*Provider, error) {
	if cfg.ClientID == "" {
		return nil, fault.Errorf(fault.Invalid, "single sign-on: no client ID")
	}
	for _, u := range []string{cfg.Issuer, cfg.Redirect} {
		if err := checkURL(u); err != nil {
			return nil, err
		}
	}
	if cfg.Scopes == nil {
		cfg.Scopes = []string{"profile", "email"}
	}
	p := &Provider{cfg: cfg, client: cfg.Client}
	if p.client == nil {
		p.client = &http.Client{Timeout: requestLimit}
	}
	return p, nil
}

// find asks the provider where its endpoints are, once.
func (p *Provider) find(ctx context.Context) (*found, error) {
	began := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found != nil {
		return p.found, nil
	}
	// Somebody else has just tried, in vain: not all who wait ask in turn.
	if p.failed != nil && p.tried.After(began) {
		return nil, p.failed
	}
	// The provider's keys are fetched later with the context of this call, which
	// must not end with one request.
	provider, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), p.client), p.cfg.Issuer)
	if err != nil {
		p.tried = time.Now()
		p.failed = fault.Errorf(fault.Unavailable, "single sign-on: ask %s for its endpoints: %w", p.cfg.Issuer, err).WithHint("is the issuer's URL right, and is it up?")
		return nil, p.failed
	}
	p.found = &found{provider, oauth2.Config{
		ClientID: p.cfg.ClientID, ClientSecret: p.cfg.ClientSecret, Endpoint: provider.Endpoint(), RedirectURL: p.cfg.Redirect,
		Scopes: append([]string{oidc.ScopeOpenID}, p.cfg.Scopes...),
	}}
	return p.found, nil
}

// checkURL refuses URLs over which a code or a key could be read by others.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil {
		return fault.Errorf(fault.Invalid, "single sign-on: %q is no URL that can be used", text)
	}
	if u.Scheme == "https" || u.Scheme == "http" && slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, u.Hostname()) {
		return nil
	}
	return fault.Errorf(fault.Invalid, "single sign-on: %q is not https", text)
}

// AuthURL is where the browser goes.
func (p *Provider) AuthURL(ctx context.Context, state, nonce, verifier string) (string, error) {
	f, err := p.find(ctx)
	if err != nil {
		return "", err
	}
	return f.oauth.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)), nil
}

// claims are those of the ID token that we read. What is not there is empty.
type claims struct {
	Email string `json:"email"`
	// Verified is true, and with some providers the text "true".
	Verified any    `json:"email_verified"`
	Name     string `json:"name"`
	Login    string `json:"preferred_username"`
}

// Identify redeems a code.
func (p *Provider) Identify(ctx context.Context, code, nonce, verifier string) (account.Identity, error) {
	f, err := p.find(ctx)
	if err != nil {
		return account.Identity{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := f.oauth.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	if err != nil {
		return account.Identity{}, explain(err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return account.Identity{}, fault.Errorf(fault.Denied, "single sign-on: the provider sent no ID token")
	}
	id, err := f.provider.Verifier(&oidc.Config{ClientID: p.cfg.ClientID}).Verify(ctx, raw)
	if err != nil {
		return account.Identity{}, fault.Errorf(fault.Denied, "single sign-on: the provider's ID token does not hold: %w", err)
	}
	if nonce == "" || subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(nonce)) != 1 {
		return account.Identity{}, fault.Errorf(fault.Denied, "single sign-on: the provider's ID token is not for this sign-in")
	}
	var c claims
	if err := id.Claims(&c); err != nil {
		return account.Identity{}, fault.Errorf(fault.Denied, "single sign-on: the provider's ID token cannot be read: %w", err)
	}
	return account.Identity{Issuer: id.Issuer, Subject: id.Subject, Login: c.Login, Name: c.Name, Email: c.Email, Verified: c.Verified == true || c.Verified == "true"}, nil
}

// explain tells a provider that says no from one that cannot be reached. The
// body of its answer stays out: it may hold what is secret.
func explain(err error) error {
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		if e.Response != nil && e.Response.StatusCode < http.StatusInternalServerError {
			return fault.Errorf(fault.Denied, "single sign-on: the provider refuses the code: %.80s", e.ErrorCode).WithHint("begin again from the sign-in page")
		}
		return fault.Errorf(fault.Unavailable, "single sign-on: the provider failed").WithHint("try again")
	}
	return fault.Errorf(fault.Unavailable, "single sign-on: ask the provider: %w", err).WithHint("try again")
}
