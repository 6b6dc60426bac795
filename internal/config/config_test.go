package config

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"assay/internal/fault"
)

func ready() Server {
	return Server{Listen: "127.0.0.1:8080", Role: "all", Node: "one", Lease: 30 * time.Second}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*Server)
		want   []string
	}{
		{"ready", func(*Server) {}, nil},
		{"address", func(s *Server) { s.Listen = "here" }, []string{"listen"}},
		{"public_url", func(s *Server) { s.PublicURL = "assay.example/x" }, []string{"public-url"}},
		{"node_url", func(s *Server) { s.NodeURL = "10.0.0.1:8080" }, []string{"node-url"}},
		{"node_alone", func(s *Server) { s.Role = "node" }, []string{"role"}},
		{"node", func(s *Server) {
			s.Role, s.DatabaseURL, s.NATSURL, s.BlobURL = "node", "postgres://h/d", "nats://h", "s3://h/b"
		}, nil},
		{"wrong_scheme", func(s *Server) { s.DatabaseURL = "mysql://h/d" }, []string{"database-url"}},
		{"proxies", func(s *Server) { s.TrustedProxies = []string{"10.0.0.0/8", "192.0.2.1", "x"} }, []string{"trusted-proxies"}},
		{"previews", func(s *Server) { s.PreviewListen, s.PreviewURL = "0.0.0.0:8081", "https://preview.example.org/" }, nil},
		{"no_previews", func(s *Server) { s.PreviewListen = "off" }, nil},
		{"previews_nowhere", func(s *Server) { s.PreviewListen, s.PreviewMax = "here", time.Second }, []string{"preview-listen", "preview-max"}},
		{"previews_of_an_address", func(s *Server) { s.PreviewURL = "http://127.0.0.1:8081" }, []string{"preview-url"}},
		{"previews_below_a_path", func(s *Server) { s.PreviewURL = "https://example.org/preview" }, []string{"preview-url"}},
		{"oidc", func(s *Server) { s.OIDC.Issuer = "https://id.example" }, []string{"oidc-client-id"}},
		{"all_at_once", func(s *Server) { s.Pool, s.Rate, s.Lease, s.Node = -1, -1, 0, "a b" }, []string{"pool", "rate", "lease", "node"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := ready()
			tt.change(&s)
			err := s.Check()
			if tt.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("got %v, want it to be invalid", err)
			}
			for _, name := range tt.want {
				if !strings.Contains(err.Error(), name+": ") {
					t.Errorf("%q does not name %s", err, name)
				}
			}
		})
	}
}

// TestAddressesEndWithoutASlash: paths are put behind them.
func TestAddressesEndWithoutASlash(t *testing.T) {
	t.Parallel()
	s := ready()
	s.PublicURL, s.NodeURL = "https://assay.example/", "http://10.0.0.1:8080/"
	if err := s.Check(); err != nil || s.PublicURL != "https://assay.example" || s.NodeURL != "http://10.0.0.1:8080" {
		t.Errorf("got %q and %q, %v", s.PublicURL, s.NodeURL, err)
	}
}

func TestPreviewsListenBesideTheAPI(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ listen, previews, want string }{
		{"127.0.0.1:8080", "", "127.0.0.1:8081"},
		{"[::1]:80", "", "[::1]:81"},
		{":8080", "", ":8081"},
		{"127.0.0.1:0", "", "127.0.0.1:0"},
		{"127.0.0.1:65535", "", "127.0.0.1:0"},
		{"127.0.0.1:8080", "0.0.0.0:90", "0.0.0.0:90"},
		{"127.0.0.1:8080", "off", ""},
	} {
		s := Server{Listen: tt.listen, PreviewListen: tt.previews}
		if got := s.PreviewAddress(); got != tt.want {
			t.Errorf("%s, %s: got %q, want %q", tt.listen, tt.previews, got, tt.want)
		}
	}
}

func TestSecretsStayHidden(t *testing.T) {
	t.Parallel()
	s := ready()
	s.DatabaseURL = "postgres://u:hunter2@h/d"
	s.BlobURL = "s4://k:hunter2@h/b"
	for _, text := range []string{fmt.Sprint(s), fmt.Sprintf("%+v", s), fmt.Sprintf("%#v", s), s.Check().Error()} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("a password shows: %s", text)
		}
	}
}

// settings are the names of all settings.
func settings(of reflect.Type, prefix string) (names []string) {
	for f := range of.Fields() {
		if name := f.Tag.Get("name"); name != "" {
			names = append(names, prefix+name)
		} else if _, embedded := f.Tag.Lookup("embed"); embedded {
			names = append(names, settings(f.Type, prefix+f.Tag.Get("prefix"))...)
		}
	}
	return names
}

func TestAllSettingsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	all := settings(reflect.TypeFor[Server](), "")
	if len(all) < 30 {
		t.Fatalf("only %d settings were found", len(all))
	}
	for _, name := range all {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/operations.md does not name %s", name)
		}
	}
}
