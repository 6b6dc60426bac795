package image

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"assay/internal/fault"
	"assay/internal/require"
)

// makeImage makes an OCI image with one layer for each tar.
func makeImage(t *testing.T, arch string, layers ...[]byte) v1.Image {
	t.Helper()
	img := v1.Image(empty.Image)
	for _, data := range layers {
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil })
		if err != nil {
			t.Fatal(err)
		}
		if img, err = mutate.AppendLayers(img, l); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture = "linux", arch
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		t.Fatal(err)
	}
	return img
}

func twoLayers(t *testing.T) v1.Image {
	return makeImage(t, runtime.GOARCH, smallRoot(t), makeTar(t, entry{name: "usr/bin/.wh.su"}, entry{name: "opt/app", data: "app"}))
}

func writeLayout(t *testing.T, img v1.Image) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AppendImage(img); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestBuildFromOCI(t *testing.T) {
	t.Parallel()
	require.Tool(t, "mkfs.erofs")
	img := twoLayers(t)
	dir := writeLayout(t, img)

	docker := filepath.Join(t.TempDir(), "docker.tar")
	tag, err := name.NewTag("local/test:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(docker, tag, img); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "oci.tar")
	writeFile(t, archive, string(tarDir(t, dir)))

	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	ref := strings.TrimPrefix(server.URL, "http://") + "/test:1"
	parsed, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(parsed, img); err != nil {
		t.Fatal(err)
	}

	for kind, source := range map[string]string{"layout": dir, "docker": docker, "archive": archive, "registry": ref} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := openStore(t, Options{})
			if _, err := s.Import(t.Context(), "app", source); err != nil {
				t.Fatal(err)
			}
			mustBuild(t, s, "app", nil)
			wantEmptyTmp(t, s)
			root := filepath.Join(s.path(dirTrees), onlyEntry(t, s.path(dirTrees)), "root")
			if got, err := os.ReadFile(filepath.Join(root, "opt/app")); err != nil || string(got) != "app" {
				t.Errorf("opt/app: got %q, %v", got, err)
			}
			if exists(filepath.Join(root, "usr/bin/su")) {
				t.Error("the upper layer's whiteout was not applied")
			}
		})
	}
}

// TestRegistryIsAskedOnce: the second build of one definition is the same
// build, also when the tag has moved or the registry is gone.
func TestRegistryIsAskedOnce(t *testing.T) {
	t.Parallel()
	require.Tool(t, "mkfs.erofs")
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	ref := strings.TrimPrefix(server.URL, "http://") + "/test:1"
	parsed, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(parsed, twoLayers(t)); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, Options{})
	if _, err := s.Import(t.Context(), "app", ref); err != nil {
		t.Fatal(err)
	}
	first := mustBuild(t, s, "app", nil)
	server.Close()
	if second := mustBuild(t, s, "app", nil); second.Digest != first.Digest {
		t.Errorf("digests %s and %s differ", first.Digest, second.Digest)
	}
	if _, err := s.Import(t.Context(), "other", ref); !fault.Is(err, fault.Unavailable) {
		t.Errorf("import from a registry that is gone: got %v, want unavailable", err)
	}
}

func TestHostileOCI(t *testing.T) {
	t.Parallel()
	escape := makeTar(t, entry{name: "up", link: "/", kind: tar.TypeSymlink}, entry{name: "../../x", data: "x"})
	tests := []struct {
		name string
		dir  func(t *testing.T) string
		says string
	}{
		{"escaping_layer", func(t *testing.T) string { return writeLayout(t, makeImage(t, runtime.GOARCH, escape)) }, `".."`},
		{"other_architecture", func(t *testing.T) string { return writeLayout(t, makeImage(t, "s390x", smallRoot(t))) }, "the image is for linux/s390x"},
		{"no_index", func(t *testing.T) string { return t.TempDir() }, "not an OCI layout"},
		{"changed_layer", func(t *testing.T) string {
			img := makeImage(t, runtime.GOARCH, smallRoot(t))
			dir := writeLayout(t, img)
			other := makeImage(t, runtime.GOARCH, makeTar(t, entry{name: "evil", data: "x"}))
			replaceLayer(t, dir, img, other)
			return dir
		}, "not sha256:"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t, Options{})
			file := filepath.Join(t.TempDir(), "bad.yaml")
			writeFile(t, file, "from: {oci: "+tt.dir(t)+"}\n")
			_, err := s.Build(t.Context(), file, nil)
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v (%v), want a fault of kind invalid that says %q", err, fault.KindOf(err), tt.says)
			}
			wantNothingBuilt(t, s)
		})
	}
}

// replaceLayer puts other's layer under the name of img's.
func replaceLayer(t *testing.T, dir string, img, other v1.Image) {
	t.Helper()
	digest := func(img v1.Image) (v1.Hash, []byte) {
		layers, err := img.Layers()
		if err != nil {
			t.Fatal(err)
		}
		h, err := layers[0].Digest()
		if err != nil {
			t.Fatal(err)
		}
		r, err := layers[0].Compressed()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return h, data
	}
	h, _ := digest(img)
	_, data := digest(other)
	writeFile(t, filepath.Join(dir, "blobs", h.Algorithm, h.Hex), string(data))
}

// tarDir packs a directory.
func tarDir(t *testing.T, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestTarKind(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for name, data := range map[string][]byte{
		"rootfs": smallRoot(t), "layout": makeTar(t, entry{name: "blobs/x"}, entry{name: "oci-layout"}),
		"docker": makeTar(t, entry{name: "oci-layout"}, entry{name: "manifest.json"}),
	} {
		kind, err := tarKindOf(bytes.NewReader(data))
		if err != nil {
			t.Error(err)
		}
		got[name] = kind
	}
	if diff := cmp.Diff(map[string]string{"rootfs": "rootfs", "layout": "layout", "docker": "docker"}, got); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}
