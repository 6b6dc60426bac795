package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"assay/internal/fault"
)

// checkReference refuses what can be no registry reference.
func checkReference(ref string) error {
	_, err := name.ParseReference(ref)
	return err
}

var platform = v1.Platform{OS: "linux", Architecture: runtime.GOARCH}

// resolved is what a registry said of a reference. It is kept so that a second
// build of a definition is the same build, also without the registry.
type resolved struct {
	Reference string `json:"reference"`
	Digest    string `json:"digest"`
}

func (s *Store) resolvedPath(ref string) string {
	sum := sha256.Sum256([]byte(ref))
	return s.path(dirResolved, hex.EncodeToString(sum[:])+".json")
}

// resolveOCI gives the digest of the image that ref names. fresh asks the
// registry even if it was asked before.
func (s *Store) resolveOCI(ctx context.Context, ref string, fresh bool) (string, error) {
	if isPath(ref) {
		img, cleanup, err := s.localImage(ctx, ref)
		if err != nil {
			return "", err
		}
		defer cleanup()
		d, err := img.Digest()
		if err != nil {
			return "", fault.Errorf(fault.Invalid, "read OCI image %s: %w", ref, err)
		}
		return d.String(), nil
	}
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return "", fault.Errorf(fault.Invalid, "%w", err)
	}
	if d, ok := parsed.(name.Digest); ok {
		return d.DigestStr(), nil
	}
	var known resolved
	if err := readJSON(s.resolvedPath(ref), &known); err == nil && !fresh && known.Reference == ref {
		return known.Digest, nil
	}
	d, err := remote.Head(parsed, remoteOptions(ctx)...)
	if err != nil {
		return "", registryFault(ref, err)
	}
	known = resolved{Reference: ref, Digest: d.Digest.String()}
	return known.Digest, s.writeJSON(s.resolvedPath(ref), known)
}

// ociTree unpacks an OCI image into dir.
func (s *Store) ociTree(ctx context.Context, ref, digest, dir string, obs Observer) error {
	var img v1.Image
	obs.Progress(Progress{Stage: StageFetch, Text: "fetch " + ref})
	if isPath(ref) {
		local, cleanup, err := s.localImage(ctx, ref)
		if err != nil {
			return err
		}
		defer cleanup()
		img = local
	} else {
		parsed, err := name.ParseReference(ref)
		if err != nil {
			return fault.Errorf(fault.Invalid, "%w", err)
		}
		img, err = remote.Image(parsed.Context().Digest(digest), remoteOptions(ctx)...)
		if err != nil {
			return registryFault(ref, err)
		}
	}
	layers, content, err := inspect(img)
	if err != nil {
		return fault.Errorf(fault.Invalid, "read OCI image %s: %w", ref, err)
	}
	var i int
	u, err := newUnpacker(dir, s.opt.Caps, func(n int64) {
		obs.Progress(Progress{Stage: StageUnpack, Text: fmt.Sprintf("layer %d of %d", i+1, len(layers)), Done: n})
	})
	if err != nil {
		return err
	}
	defer u.close()
	for i = range layers {
		if err := applyImageLayer(ctx, u, layers[i], content[i]); err != nil {
			return s.diskFault(fmt.Errorf("layer %d of %s: %w", i+1, ref, err), 0)
		}
	}
	return nil
}

// inspect gives an image's layers and the digest that the content of each must
// have. The image's digest covers its manifest, the manifest the
// configuration, and the configuration the layers' content; what lies on disk
// is not checked by anybody else.
func inspect(img v1.Image) ([]v1.Layer, []v1.Hash, error) {
	m, err := img.Manifest()
	if err != nil {
		return nil, nil, err
	}
	raw, err := img.RawConfigFile()
	if err != nil {
		return nil, nil, err
	}
	sum := sha256.Sum256(raw)
	if got := "sha256:" + hex.EncodeToString(sum[:]); got != m.Config.Digest.String() {
		return nil, nil, fmt.Errorf("the configuration is %s, not %s as the manifest says", got, m.Config.Digest)
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		return nil, nil, err
	}
	if (cfg.OS != "" && cfg.OS != platform.OS) || (cfg.Architecture != "" && cfg.Architecture != platform.Architecture) {
		return nil, nil, fmt.Errorf("the image is for %s/%s, this host is %s", cfg.OS, cfg.Architecture, platform.String())
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, nil, err
	}
	if len(layers) != len(cfg.RootFS.DiffIDs) {
		return nil, nil, fmt.Errorf("the manifest has %d layers, the configuration %d", len(layers), len(cfg.RootFS.DiffIDs))
	}
	return layers, cfg.RootFS.DiffIDs, nil
}

// applyImageLayer unpacks a layer and checks that its content is the one
// wanted.
func applyImageLayer(ctx context.Context, u *unpacker, l v1.Layer, want v1.Hash) error {
	r, err := l.Uncompressed()
	if err != nil {
		return fault.Errorf(fault.Unavailable, "fetch: %w", err)
	}
	defer r.Close()
	sum := sha256.New()
	tee := io.TeeReader(r, sum)
	if err := u.applyLayer(ctx, tee); err != nil {
		return err
	}
	// What follows the tar's end belongs to the digest too; it is bounded like
	// the rest.
	if n, err := io.Copy(io.Discard, io.LimitReader(tee, u.caps.Bytes+1)); err != nil || n > u.caps.Bytes {
		return fault.Errorf(fault.Invalid, "the layer does not end: %w", errors.Join(err))
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != want.String() {
		return fault.Errorf(fault.Invalid, "the layer's content is %s, not %s as the image says", got, want)
	}
	return nil
}

// localImage opens an OCI layout directory, or an image tar as Docker or OCI
// tools write it. cleanup must be called when the image is no longer read.
func (s *Store) localImage(ctx context.Context, path string) (img v1.Image, cleanup func(), err error) {
	nothing := func() {}
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, fault.Errorf(kindOfFS(err), "open OCI image: %w", err)
	}
	if info.IsDir() {
		img, err := layoutImage(path)
		return img, nothing, err
	}
	if kind, err := tarKind(path); err != nil {
		return nil, nil, err
	} else if kind != "layout" {
		img, err := tarball.ImageFromPath(path, nil)
		if err != nil {
			return nil, nil, fault.Errorf(fault.Invalid, "%s is not an image tar: %w", path, err)
		}
		return img, nothing, nil
	}
	// A layout inside a tar: unpack the layout itself first.
	w, err := s.newWork()
	if err != nil {
		return nil, nil, err
	}
	cleanup = func() { _ = w.remove() } // the next Open removes what this could not
	f, err := os.Open(path)
	if err != nil {
		cleanup()
		return nil, nil, fault.Errorf(kindOfFS(err), "open OCI image: %w", err)
	}
	defer f.Close()
	u, err := newUnpacker(w.path, s.opt.Caps, nil)
	if err == nil {
		err = u.apply(ctx, f)
		u.close()
	}
	if err == nil {
		img, err = layoutImage(w.path)
	}
	if err != nil {
		cleanup()
		return nil, nil, s.diskFault(fmt.Errorf("open %s: %w", path, err), info.Size())
	}
	return img, cleanup, nil
}

// layoutImage finds the image for this machine in an OCI layout.
func layoutImage(dir string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "%s is not an OCI layout: %w", filepath.Base(dir), err)
	}
	img, err := fromIndex(index, 0)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "OCI layout: %w", err)
	}
	return img, nil
}

func fromIndex(index v1.ImageIndex, depth int) (v1.Image, error) {
	if depth > 4 {
		return nil, errors.New("indexes in indexes")
	}
	m, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, d := range m.Manifests {
		switch {
		case d.MediaType.IsImage():
			if d.Platform != nil && (d.Platform.OS != platform.OS || d.Platform.Architecture != platform.Architecture) {
				continue
			}
			return index.Image(d.Digest)
		case d.MediaType.IsIndex():
			sub, err := index.ImageIndex(d.Digest)
			if err != nil {
				return nil, err
			}
			return fromIndex(sub, depth+1)
		}
	}
	return nil, fmt.Errorf("no image for %s", platform.String())
}

func remoteOptions(ctx context.Context) []remote.Option {
	return []remote.Option{
		remote.WithContext(ctx), remote.WithPlatform(platform),
		remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithUserAgent("assay"),
	}
}

func registryFault(ref string, err error) error {
	if te, ok := errors.AsType[*transport.Error](err); ok {
		switch te.StatusCode {
		case http.StatusNotFound:
			return fault.Errorf(fault.NotFound, "OCI image %s: %w", ref, err)
		case http.StatusUnauthorized, http.StatusForbidden:
			return fault.Errorf(fault.Denied, "OCI image %s: %w", ref, err).
				WithHint("check the name, or sign in to the registry")
		}
	}
	return fault.Errorf(fault.Unavailable, "OCI image %s: %w", ref, err).
		WithHint("check the network, or import an OCI layout or image tar from disk")
}

// tarKind looks at a tar's first entries: "layout" for an OCI layout, "docker"
// for docker save's format, "rootfs" for anything else.
func tarKind(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fault.Errorf(kindOfFS(err), "open tar: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode().Type()&^fs.ModeNamedPipe != 0 {
		return "", fault.Errorf(fault.Invalid, "%s is not a file", path)
	}
	r, err := gunzip(f)
	if err != nil {
		return "", err
	}
	return tarKindOf(r)
}

// isReference says that a text may name an image in a registry: it has a host,
// a tag or a digest, so that a mistyped file name is not looked up anywhere.
func isReference(s string) bool {
	return strings.ContainsAny(s, ":/@") && checkReference(s) == nil
}
