// Package pages has the looks of the server's plain pages: templates and one
// stylesheet, embedded. Start with Write.
//
// It must not know any service: whoever answers a request hands in what to show.
package pages

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"time"
)

//go:embed *.html
var files embed.FS

// CSS is the stylesheet, served as /assets/pages.css.
//
//go:embed pages.css
var CSS []byte

// Icon is what browsers show beside a title, served as /assets/icon.svg.
//
//go:embed icon.svg
var Icon []byte

// Page is what a template is given.
type Page struct {
	Title string
	// Login is who is signed in; "" is nobody.
	Login string
	// Error and Hint say what was wrong with what the reader sent; Notice that
	// something was done.
	Error, Hint, Notice string
	// Wide gives tables the room of the whole window.
	Wide bool
	// Body is what the page itself shows: one of the structs of this package.
	Body any
}

// SignIn is the body of "signin".
type SignIn struct {
	// Next is where the browser goes afterwards.
	Next  string
	Login string
	// SignOn is the name of the OIDC provider; "" is none.
	SignOn string
}

// Setup is the body of "setup".
type Setup struct {
	Code string
	// User is the login whose password is chosen; "" makes the first admin.
	User        string
	Login, Name string
	MinPassword int
}

// Device is the body of "device".
type Device struct {
	Code string
	// Known says that a program waits with Code; the rest describes it.
	Known        bool
	Client, From string
	Scopes       []string
	At           time.Time
	// Answer is "approved" or "denied" once it is given.
	Answer string
}

// Account is the body of "account".
type Account struct {
	Login, Name, Email, Role, ID string
	HasPassword                  bool
	MinPassword                  int
	Tokens                       []Token
	// Secret is that of the token just made, with its name.
	Secret, SecretName string
	// Form is what the reader wrote into the form for a token that was refused.
	Form     TokenForm
	Scopes   []Scope
	Sessions []Session
}

// Token is one line of the account's tokens.
type Token struct {
	ID, Name, Prefix       string
	Scopes                 []string
	Created, Expires, Used time.Time
	State                  string
	Works                  bool
}

// TokenForm is the form for a new token.
type TokenForm struct{ Name, Days, Format string }

// Scope is one box of the form for a new token.
type Scope struct {
	Name, Words string
	Checked     bool
}

// Session is one line of the account's sessions.
type Session struct {
	From, Agent string
	Seen        time.Time
	This        bool
}

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"day": func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return t.UTC().Format("2 Jan 2006")
	},
	"minute":  func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04") + " UTC" },
	"machine": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
}).ParseFS(files, "*.html"))

// Write writes a page by the name of its template: "signin", "setup", "device",
// "account" or "message". Nothing is written if it fails.
func Write(w io.Writer, name string, p Page) error {
	var body bytes.Buffer
	if err := templates.ExecuteTemplate(&body, name, p); err != nil {
		return fmt.Errorf("make page %s: %w", name, err)
	}
	// A reader that went away is no failure.
	_, _ = body.WriteTo(w)
	return nil
}
