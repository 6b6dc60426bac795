package app

import (
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"assay/client"
	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/require"
)

// TestPreviewsInABrowser: see e2e/preview.mjs. To a browser, names directly below
// localhost are sites of their own; those one level down are one site, as below
// any other domain, and cookies go with what they ask of each other.
func TestPreviewsInABrowser(t *testing.T) {
	chromium, node := require.Tool(t, "chromium"), require.Tool(t, "node")
	e2e, err := filepath.Abs("../../e2e")
	if err != nil {
		t.Fatal(err)
	}
	_, err = os.Stat(filepath.Join(e2e, "node_modules", "axe-core"))
	require.Thing(t, "e2e", err == nil, "the packages of e2e are not installed: run make test")
	for name, url := range map[string]string{"own_sites": "", "one_site": "http://preview.localhost"} {
		t.Run(name, func(t *testing.T) {
			c := (&backing{}).config()
			c.PreviewURL = url
			s := start(t, testData(t), c)
			browse := exec.CommandContext(t.Context(), node, filepath.Join(e2e, "preview.mjs"), s.base, sandboxToken(t, s), s.previewer.Addr().String())
			browse.Env = append(os.Environ(), "CHROMIUM="+chromium)
			if out, err := browse.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func sandboxToken(t *testing.T, s *rig) string {
	t.Helper()
	u, err := s.Accounts.CreateUser(account.WithActor(t.Context(), account.SystemActor()), account.NewUser{Login: "viewer", Name: "viewer", Role: account.Member})
	if err != nil {
		t.Fatal(err)
	}
	ctx := account.WithActor(t.Context(), account.Actor{User: u.ID, Name: u.Login, Role: u.Role})
	_, secret, err := s.Accounts.CreateToken(ctx, account.NewToken{Name: "test", Scopes: []account.Scope{account.ScopeSandboxes}})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// TestServerWithoutPreviews: nothing more is listened for, and who asks for a
// link is told.
func TestServerWithoutPreviews(t *testing.T) {
	c := (&backing{}).config()
	c.PreviewListen = "off"
	s := start(t, testData(t), c)
	if s.previewer != nil || s.PreviewURL() != "" {
		t.Errorf("previews are at %q", s.PreviewURL())
	}
	api, err := client.Connect(s.base, sandboxToken(t, s))
	if err != nil {
		t.Fatal(err)
	}
	made, err := api.CreateSandboxWithResponse(t.Context(), nil, client.SandboxCreate{Template: "base"})
	if err != nil || made.JSON201 == nil {
		t.Fatalf("%s, %v", made.Body, err)
	}
	r, err := api.CreateSandboxPreviewWithResponse(t.Context(), made.JSON201.ID, client.PreviewCreate{Port: 80})
	if err != nil || r.StatusCode() != http.StatusNotImplemented {
		t.Errorf("%s, %v", r.Body, err)
	}
}

// TestPreviewsNeedAHostOfTheirOwn: a page of a sandbox must not be of the API's
// origin.
func TestPreviewsNeedAHostOfTheirOwn(t *testing.T) {
	c := (&backing{}).config()
	c.Role, c.PublicURL, c.PreviewURL = "all", "https://assay.example.org", "https://assay.example.org"
	s, err := OpenServer(t.Context(), ServerOptions{Config: c, DataDir: t.TempDir(), BinDir: require.Binaries(t), Log: slog.New(slog.DiscardHandler), Version: "test"})
	if err == nil {
		err = s.Close()
	}
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("got %v, want it to be invalid", err)
	}
}
