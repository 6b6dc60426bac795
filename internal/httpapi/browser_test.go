package httpapi

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"assay/internal/account"
	"assay/internal/judging"
	"assay/internal/require"
	"assay/internal/work"
)

// TestPagesInABrowser lives a user's life on the pages: see e2e/site.mjs. With
// ASSAY_SCREENSHOTS it leaves pictures in that folder.
func TestPagesInABrowser(t *testing.T) {
	chromium, node := require.Tool(t, "chromium"), require.Tool(t, "node")
	e2e, err := filepath.Abs("../../e2e")
	if err != nil {
		t.Fatal(err)
	}
	_, err = os.Stat(filepath.Join(e2e, "node_modules", "axe-core"))
	require.Thing(t, "e2e", err == nil, "the packages of e2e are not installed: run make test")
	c := newCourt(t)
	s := newSite(t, func(o *Options, _ *account.Config) { o.Judge = c.service })
	web := httptest.NewServer(s.Handler)
	defer web.Close()

	ctx, cancel := context.WithCancel(t.Context())
	w := &work.Worker{
		Store: c.db.Work(), Wakes: idle{}, Node: "node", Capacity: 1, Poll: 50 * time.Millisecond, Handlers: map[string]work.Handler{judging.JobKind: c.w},
	}
	var working sync.WaitGroup
	working.Go(func() { _ = w.Run(ctx) }) // ends with its context only
	defer working.Wait()
	defer cancel()

	args := []string{filepath.Join(e2e, "site.mjs"), web.URL, "/setup?code=" + s.setup}
	if dir := os.Getenv("ASSAY_SCREENSHOTS"); dir != "" {
		args = append(args, dir)
	}
	browse := exec.CommandContext(ctx, node, args...)
	browse.Env = append(os.Environ(), "CHROMIUM="+chromium)
	if out, err := browse.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// idle wakes nobody: workers look by themselves.
type idle struct{ noBus }

func (idle) Waits(string) (<-chan struct{}, func(), error) { return nil, func() {}, nil }
