package app

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/guest"
	"assay/internal/require"
	"assay/internal/sandbox"
)

// TestPackagesInstallThroughTheAllowList has the real pip and npm install one
// small package each, over TLS, from an index that the test itself serves.
func TestPackagesInstallThroughTheAllowList(t *testing.T) {
	t.Parallel()
	wheel, tarball := greetWheel(t), greetTarball(t)
	index := http.NewServeMux()
	index.HandleFunc("/simple/greet/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!DOCTYPE html><html><body><a href="/files/greet-1.0-py3-none-any.whl">greet-1.0-py3-none-any.whl</a></body></html>`)
	})
	index.HandleFunc("/files/greet-1.0-py3-none-any.whl", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(wheel) })
	index.HandleFunc("/npm/greet", func(w http.ResponseWriter, _ *http.Request) {
		sum := sha512.Sum512(tarball)
		version := map[string]any{"name": "greet", "version": "1.0.0", "main": "index.js", "dist": map[string]any{
			"tarball": "https://example.com/files/greet-1.0.0.tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
		}}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"name": "greet", "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{"1.0.0": version},
		})
	})
	index.HandleFunc("/files/greet-1.0.0.tgz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(tarball) })
	srv := httptest.NewTLSServer(index)
	t.Cleanup(srv.Close)
	out := newStandIn()
	out.servers[webServer+":443"] = srv.Listener.Addr().String()
	e, base := netEngine(t, out, 0)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	box := func(t *testing.T) *sandbox.Sandbox {
		s := createOf(t, e, sandbox.Spec{Template: &base, Network: &sandbox.NetworkPolicy{Allow: []string{"example.com:443"}}})
		putFile(t, s, "/tmp/ca.pem", bytes.NewReader(ca), 0o644)
		return s
	}
	t.Run("pip", func(t *testing.T) {
		pip := bundledPip(t)
		s := box(t)
		f, err := os.Open(pip)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		putFile(t, s, "/tmp/pip.whl", f, 0o644)
		got, x := runIn(t, s, "", "sh", "-c", `PYTHONPATH=/tmp/pip.whl python3 -m pip install --disable-pip-version-check --cert /tmp/ca.pem --index-url https://example.com/simple/ --target /tmp/lib greet &&
			PYTHONPATH=/tmp/lib python3 -c 'import greet; print(greet.hello())'`)
		if x.Code != 0 || !strings.Contains(got, "hello from a wheel") {
			t.Errorf("%+v\n%s", x, got)
		}
		if !logged(s, "connect", "example.com:443", true) {
			t.Errorf("log %v", attempts(s))
		}
		// The index may be reached, and nothing else: not even by an option of pip.
		got, x = runIn(t, s, "", "sh", "-c", `PYTHONPATH=/tmp/pip.whl python3 -m pip install --disable-pip-version-check --retries 0 --cert /tmp/ca.pem --index-url https://beside.example.net/simple/ --target /tmp/lib2 greet`)
		if x.Code == 0 || !logged(s, "connect", "beside.example.net:443", false) && !logged(s, "connect", "beside.example.net", false) {
			t.Errorf("%+v\n%s\nlog %v", x, got, attempts(s))
		}
	})
	t.Run("npm", func(t *testing.T) {
		node, npm := nodeAndNpm(t)
		s := box(t)
		f, err := os.Open(node)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		putFile(t, s, "/usr/local/bin/node", f, 0o755)
		pack := exec.CommandContext(t.Context(), "tar", "-C", filepath.Dir(npm), "-cf", "-", filepath.Base(npm))
		tree, err := pack.Output()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Guest().WriteTree(t.Context(), "/tmp", bytes.NewReader(tree), guest.OwnerUser); err != nil {
			t.Fatal(err)
		}
		got, x := runIn(t, s, "", "sh", "-c", `mkdir /tmp/p && cd /tmp/p && echo '{"name":"p","version":"1.0.0"}' > package.json &&
			NODE_EXTRA_CA_CERTS=/tmp/ca.pem node /tmp/npm/bin/npm-cli.js install --no-audit --no-fund --no-update-notifier --registry https://example.com/npm/ greet &&
			node -e 'console.log(require("greet").hello())'`)
		if x.Code != 0 || !strings.Contains(got, "hello from a tarball") {
			t.Errorf("%+v\n%s", x, got)
		}
		if !logged(s, "connect", "example.com:443", true) {
			t.Errorf("log %v", attempts(s))
		}
	})
}

func putFile(t *testing.T, s *sandbox.Sandbox, path string, r io.Reader, mode os.FileMode) {
	t.Helper()
	if _, err := s.Guest().WriteFile(t.Context(), path, r, guest.WriteOptions{Mode: mode}); err != nil {
		t.Fatal(err)
	}
}

// bundledPip is the pip that came with the host's Python.
func bundledPip(t *testing.T) string {
	t.Helper()
	python := require.Tool(t, "python3")
	b, err := exec.CommandContext(t.Context(), python, "-c", `
import glob, os, sys
places = []
try:
    import ensurepip
    places.append(os.path.join(os.path.dirname(ensurepip.__file__), "_bundled"))
except ImportError:
    pass
for d in places + ["/usr/share/python-wheels"]:
    for f in glob.glob(os.path.join(d, "pip-*.whl")):
        print(f); sys.exit()
`).Output()
	path := strings.TrimSpace(string(b))
	require.Thing(t, "pip", err == nil && path != "", "Python has no pip of its own: install python3-pip or python3-venv")
	return path
}

// nodeAndNpm gives the host's node and the folder of its npm.
func nodeAndNpm(t *testing.T) (node, npm string) {
	t.Helper()
	node, err := filepath.EvalSymlinks(require.Tool(t, "node"))
	if err != nil {
		t.Fatal(err)
	}
	cli, err := filepath.EvalSymlinks(require.Tool(t, "npm"))
	if err != nil {
		t.Fatal(err)
	}
	npm = filepath.Dir(filepath.Dir(cli))
	_, err = os.Stat(filepath.Join(npm, "node_modules"))
	require.Thing(t, "npm", err == nil, "npm does not stand in one folder with all it needs")
	return node, npm
}

func greetWheel(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range [][2]string{
		{"greet.py", "def hello():\n    return 'hello from a wheel'\n"},
		{"greet-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: greet\nVersion: 1.0\n"},
		{"greet-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{"greet-1.0.dist-info/RECORD", "greet.py,,\ngreet-1.0.dist-info/METADATA,,\ngreet-1.0.dist-info/WHEEL,,\ngreet-1.0.dist-info/RECORD,,\n"},
	} {
		w, err := z.Create(f[0])
		if err == nil {
			_, err = io.WriteString(w, f[1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func greetTarball(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	for _, f := range [][2]string{
		{"package/package.json", `{"name":"greet","version":"1.0.0","main":"index.js"}`},
		{"package/index.js", "exports.hello = () => 'hello from a tarball'\n"},
	} {
		err := w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1]))})
		if err == nil {
			_, err = io.WriteString(w, f[1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := gz.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
