package account_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/account"
	"assay/internal/fault"
)

var update = flag.Bool("update", false, "write the golden files of this package anew")

// relations are how a thing can stand to the actor. Each fits every kind: a
// field that means nothing for a kind must change nothing.
var relations = []struct {
	name  string
	thing account.Thing
}{
	{"any", account.Thing{}},
	{"foreign", account.Thing{ID: "x", Owner: "other"}},
	{"own", account.Thing{ID: "x", Owner: "me"}},
	{"open", account.Thing{ID: "x", Owner: "other", Open: true}},
	{"member", account.Thing{ID: "x", Owner: "other", Member: true}},
	{"leads", account.Thing{ID: "x", Owner: "other", Member: true, Leads: true}},
}

func decision(t *testing.T, a account.Actor, do account.Action, thing account.Thing) string {
	t.Helper()
	err := account.May(a, do, thing)
	if err == nil {
		return "yes"
	}
	switch kind := fault.KindOf(err); kind {
	case fault.Denied:
		return "no"
	case fault.NotFound:
		return "hidden"
	case fault.Unauthenticated:
		return "sign-in"
	default:
		t.Errorf("May gives %v, of kind %s", err, kind)
		return kind.String()
	}
}

// mayTable is every role × relation × action × kind.
func mayTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString(`Who may do what: yes; no (403); hidden, as if it were not there (404); sign-in (401).
"any" is the kind as a whole, "leads" is who is staff on the course's roster. A
relation that is left out is as "foreign".
The system may do all. Written by "go test ./internal/account -run TestMay -update".
`)
	actors := []account.Actor{
		{},
		{User: "me", Role: account.Member},
		{User: "me", Role: account.Staff},
		{User: "me", Role: account.Admin},
	}
	for _, kind := range account.Kinds() {
		fmt.Fprintf(&b, "\n%-19s", kind)
		for _, do := range account.Actions() {
			fmt.Fprintf(&b, " %-11s", do)
		}
		b.WriteByte('\n')
		var last []string
		for _, a := range actors {
			for _, r := range relations {
				role := string(a.Role)
				if role == "" {
					role = "nobody"
				}
				thing := r.thing
				thing.Kind = kind
				var cells []string
				for _, do := range account.Actions() {
					cells = append(cells, decision(t, a, do, thing))
				}
				// What does not differ from a thing of somebody else is not shown.
				switch {
				case r.name == "any":
					last = nil
				case slices.Equal(last, cells):
					continue
				case r.name == "foreign":
					last = cells
				}
				fmt.Fprintf(&b, "  %-8s %-8s", role, r.name)
				for _, c := range cells {
					fmt.Fprintf(&b, " %-11s", c)
				}
				b.WriteByte('\n')
			}
		}
	}
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func TestMay(t *testing.T) {
	t.Parallel()
	golden(t, "may.txt", mayTable(t))
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); check it by eye, then write it with -update:\n%s", path, diff)
	}
}

// TestScopes says which scope of a token reaches which kind; a token with none
// reaches nothing, the system everything.
func TestScopes(t *testing.T) {
	t.Parallel()
	want := map[account.Scope][]account.Kind{
		account.ScopeSandboxes: {account.SandboxThing, account.SnapshotThing, account.TemplateThing, account.UsageThing},
		account.ScopeJudge:     {account.ProblemThing, account.SubmissionThing, account.RejudgeThing},
		account.ScopeClass:     {account.CourseThing, account.AssignmentThing, account.AttemptThing, account.GradebookThing},
		account.ScopeRooms:     nil,
		account.ScopeAccounts:  {account.UserThing, account.TokenThing, account.AuditThing, account.NodeThing},
	}
	reaches := func(scopes []account.Scope) (kinds []account.Kind) {
		a := account.Actor{User: "me", Role: account.Admin, Token: "t", Scopes: scopes}
		for _, kind := range account.Kinds() {
			if account.May(a, account.List, account.Thing{Kind: kind}) == nil {
				kinds = append(kinds, kind)
			}
		}
		return kinds
	}
	for _, scope := range account.Scopes() {
		if diff := cmp.Diff(want[scope], reaches([]account.Scope{scope})); diff != "" {
			t.Errorf("scope %s reaches (-want +got):\n%s", scope, diff)
		}
	}
	if got := reaches([]account.Scope{}); got != nil {
		t.Errorf("a token without a scope reaches %v", got)
	}
	if got := reaches(account.Scopes()); len(got) != len(account.Kinds()) {
		t.Errorf("a token with all scopes reaches only %v", got)
	}
	for _, kind := range account.Kinds() {
		for _, do := range account.Actions() {
			if err := account.May(account.SystemActor(), do, account.Thing{Kind: kind, ID: "x"}); err != nil {
				t.Errorf("the system may not %s %s: %v", do, kind, err)
			}
		}
	}
}

// TestTokenKnowsItsUser: any token may ask whose it is, and see nobody else.
func TestTokenKnowsItsUser(t *testing.T) {
	t.Parallel()
	a := account.Actor{User: "me", Role: account.Admin, Token: "t", Scopes: []account.Scope{account.ScopeJudge}}
	if err := account.May(a, account.Read, account.Thing{Kind: account.UserThing, ID: "me", Owner: "me"}); err != nil {
		t.Error(err)
	}
	for _, do := range account.Actions() {
		if err := account.May(a, do, account.Thing{Kind: account.UserThing, ID: "other", Owner: "other"}); !fault.Is(err, fault.Denied) {
			t.Errorf("a token for the judge may %s another user: %v", do, err)
		}
	}
	if err := account.May(a, account.Change, account.Thing{Kind: account.UserThing, ID: "me", Owner: "me"}); !fault.Is(err, fault.Denied) {
		t.Errorf("a token for the judge may change its user: %v", err)
	}
}

func TestActorOfContext(t *testing.T) {
	t.Parallel()
	if a := account.ActorOf(context.Background()); a.Known() {
		t.Errorf("a context without an actor has %+v", a)
	}
	want := account.Actor{User: "u", Role: account.Staff}
	if diff := cmp.Diff(want, account.ActorOf(account.WithActor(context.Background(), want))); diff != "" {
		t.Error(diff)
	}
}
