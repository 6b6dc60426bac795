package sdk_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/require"
)

// installed is where tools/install-compat-packages puts the published clients.
const installed = "../e2e/pandastack"

// needPackage gives the absolute path of what was installed, or skips.
func needPackage(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(filepath.Join(installed, path))
	if err != nil {
		t.Fatal(err)
	}
	_, err = os.Stat(abs)
	require.Thing(t, "pandastack", err == nil, "the published clients are not installed: run tools/install-compat-packages")
	return abs
}

// front is the environment of a client of the PandaStack front.
func front(t *testing.T, more ...string) (url string, env []string) {
	t.Helper()
	url = serve(t)
	return url, append([]string{"PANDASTACK_API=" + url, "PANDASTACK_API_KEY=pds_ann", "HOME=" + t.TempDir()}, more...)
}

func TestPublishedPythonClient(t *testing.T) {
	packages := needPackage(t, "python")
	python := require.Tool(t, "python3")
	url, env := front(t, "PYTHONPATH="+packages)
	run(t, url, env, python, "testdata/pandastack/client.py")
}

func TestPublishedJavaScriptClient(t *testing.T) {
	packages := needPackage(t, "node_modules")
	node := require.Tool(t, "node")
	// A module finds packages beside itself only.
	script, err := os.ReadFile("testdata/pandastack/client.mjs")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := errors.Join(os.Symlink(packages, filepath.Join(dir, "node_modules")), os.WriteFile(filepath.Join(dir, "client.mjs"), script, 0o600)); err != nil {
		t.Fatal(err)
	}
	url, env := front(t)
	run(t, url, env, node, filepath.Join(dir, "client.mjs"))
}
