package usage_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/usage"
)

// counted is a store that gives the same to everybody and keeps what was asked.
type counted struct {
	lines []usage.Line
	asked usage.Query
}

func (c *counted) Used(_ context.Context, q usage.Query) ([]usage.Line, error) {
	c.asked = q
	return c.lines, nil
}

func (c *counted) UserID(_ context.Context, login string) (string, error) {
	if login == "bo" {
		return "u-bo", nil
	}
	return "", fault.Errorf(fault.NotFound, "there is no user %s", login)
}

func as(t *testing.T, name string, role account.Role) context.Context {
	return account.WithActor(t.Context(), account.Actor{User: "u-" + name, Name: name, Role: role})
}

func TestReportAddsUpAndPrices(t *testing.T) {
	t.Parallel()
	const gibHour = (1 << 30) * 3600
	store := &counted{lines: []usage.Line{
		{Key: "cheap", CPU: time.Hour, Runs: 1},
		{Key: "dear", Memory: 10 * gibHour, Sandboxes: 1},
		{Key: "cheap", CPU: time.Hour, Snapshots: 720 * gibHour, Runs: 2},
		{Key: "", CPU: time.Second},
	}}
	s := usage.New(store, usage.Rates{Currency: "EUR", CPUHour: 0.5, GiBHour: 0.3, SnapshotMonth: 1})
	r, err := s.Report(as(t, "root", account.Admin), usage.Query{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Lines) != 3 || r.Lines[0].Key != "dear" || r.Lines[1].Key != "cheap" || r.Lines[1].Runs != 3 || r.Lines[1].CPU != 2*time.Hour {
		t.Fatalf("got %+v", r.Lines)
	}
	for i, want := range []float64{3, 2, 0.5 / 3600} {
		if math.Abs(r.Lines[i].Cost-want) > 1e-9 {
			t.Errorf("line %d costs %v, want %v", i, r.Lines[i].Cost, want)
		}
	}
	if math.Abs(r.Total.Cost-(5+0.5/3600)) > 1e-9 || r.Total.Runs != 3 || r.Total.Sandboxes != 1 {
		t.Errorf("the total is %+v", r.Total)
	}
	if r.By != usage.ByUser || r.To.Sub(r.From) != 30*24*time.Hour {
		t.Errorf("by %s from %s to %s", r.By, r.From, r.To)
	}
}

func TestLongReportsAreCut(t *testing.T) {
	t.Parallel()
	store := &counted{}
	for i := range 1500 {
		store.lines = append(store.lines, usage.Line{Key: fmt.Sprint(i), CPU: time.Second, Runs: 1})
	}
	r, err := usage.New(store, usage.Rates{}).Report(as(t, "root", account.Admin), usage.Query{}, "")
	if err != nil || !r.Truncated || len(r.Lines) != 1000 || r.Total.Runs != 1500 {
		t.Errorf("got %d lines, truncated %t, a total of %d runs, %v", len(r.Lines), r.Truncated, r.Total.Runs, err)
	}
}

func TestWhoSeesWhat(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		role  account.Role
		login string
		user  string
		kind  fault.Kind
		fails bool
	}{
		{name: "root", role: account.Admin},
		{name: "prof", role: account.Staff},
		{name: "prof", role: account.Staff, login: "bo", user: "u-bo"},
		{name: "prof", role: account.Staff, login: "eve", kind: fault.NotFound, fails: true},
		{name: "ada", role: account.Member, user: "u-ada"},
		{name: "ada", role: account.Member, login: "ada", user: "u-ada"},
		{name: "ada", role: account.Member, login: "bo", kind: fault.Denied, fails: true},
		{name: "ada", role: account.Member, login: "eve", kind: fault.Denied, fails: true},
	} {
		t.Run(tt.name+"_"+tt.login, func(t *testing.T) {
			t.Parallel()
			store := &counted{}
			_, err := usage.New(store, usage.Rates{}).Report(as(t, tt.name, tt.role), usage.Query{User: "u-somebody"}, tt.login)
			if tt.fails {
				if !fault.Is(err, tt.kind) {
					t.Fatalf("got %v, want %s", err, tt.kind)
				}
				return
			}
			if err != nil || store.asked.User != tt.user {
				t.Errorf("asked for %q, %v; want %q", store.asked.User, err, tt.user)
			}
		})
	}
	if _, err := usage.New(&counted{}, usage.Rates{}).Report(t.Context(), usage.Query{}, ""); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("nobody got %v", err)
	}
}

func TestBadQueriesAreRefused(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
	for name, q := range map[string]usage.Query{
		"unknown":   {By: "node"},
		"no_label":  {By: "label:"},
		"backwards": {From: at, To: at.Add(-time.Second)},
		"nothing":   {From: at, To: at},
		"too_long":  {From: at, To: at.AddDate(2, 0, 0)},
	} {
		if _, err := usage.New(&counted{}, usage.Rates{}).Report(as(t, "root", account.Admin), q, ""); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
}
