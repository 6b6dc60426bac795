// Package account knows who asks and what they may do: users, sessions, scoped
// API tokens, and May, the one place that decides. Start with Actor and May.
//
// It must not know HTTP, SQL or what the things are that it guards: a Thing is
// a kind, an owner and a place.
package account

import (
	"context"
	"slices"
)

// Role is what a user is on this server.
type Role string

// The roles, from most to least.
const (
	Admin  Role = "admin"
	Staff  Role = "staff"
	Member Role = "member"
)

// Scope is a part of the product that a token can be limited to.
type Scope string

// The scopes of tokens.
const (
	ScopeSandboxes Scope = "sandboxes"
	ScopeJudge     Scope = "judge"
	ScopeClass     Scope = "class"
	ScopeRooms     Scope = "rooms"
	ScopeAccounts  Scope = "accounts"
)

// Scopes are all of them.
func Scopes() []Scope {
	return []Scope{ScopeSandboxes, ScopeJudge, ScopeClass, ScopeRooms, ScopeAccounts}
}

// Actor is who makes a request. The zero value is nobody.
type Actor struct {
	// User is the ID of the user; "" is nobody, or the system.
	User string
	// Name is the user's login, for logs and pages.
	Name string
	Role Role
	// Token is the ID of the API token that was used; "" is a session.
	Token string
	// Scopes are those of the token; nil is all, which only a session has.
	Scopes []Scope
	// Quotas are those of the token.
	Quotas Quotas
	// System is Assay itself: sweeps, first start. It may do all.
	System bool
}

// SystemActor is Assay itself.
func SystemActor() Actor { return Actor{Name: "system", System: true} }

// Known reports whether the actor is somebody.
func (a Actor) Known() bool { return a.System || a.User != "" }

// Has reports whether the actor's token, if it is one, reaches this part.
func (a Actor) Has(s Scope) bool {
	return a.System || a.Scopes == nil || slices.Contains(a.Scopes, s)
}

type actorKey struct{}

// WithActor gives a context that carries who asks.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// ActorOf is who asks in a context: nobody where none was put.
func ActorOf(ctx context.Context) Actor {
	a, _ := ctx.Value(actorKey{}).(Actor)
	return a
}
