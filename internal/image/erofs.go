package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/fault"
	"assay/internal/guest"
)

// imageEpoch is the time stamp of every file in an image: images are
// reproducible. It lies in the past of every host and after 1980, which zip
// needs.
const imageEpoch = 1_600_000_000

// putGuestd places guestd into a tree, whole or not at all. Caller holds the
// tree's lock.
func (s *Store) putGuestd(treeRoot string) error {
	root, err := os.OpenRoot(treeRoot)
	if err != nil {
		return err
	}
	defer root.Close()
	name := strings.TrimPrefix(guest.InitPath, "/")
	dir := path.Dir(name)
	if err := root.RemoveAll(dir); err != nil {
		return err
	}
	if err := root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := root.Chmod(dir, 0o755); err != nil {
		return err
	}
	src, err := os.Open(s.opt.Guestd)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	if err == nil {
		err = dst.Chmod(0o755)
	}
	if cerr := dst.Close(); err == nil {
		err = cerr
	}
	return err
}

// mkfs writes the image of a tree. noinline_data is a must: gVisor cannot map
// data that shares a block with its inode, and programs then fail to load with
// "bad address".
func (s *Store) mkfs(ctx context.Context, tree treeInfo, treeRoot, out, digest string, log *buildLog) error {
	bin, err := findTool("mkfs.erofs", "erofs-utils")
	if err != nil {
		return err
	}
	need := tree.Bytes + tree.Bytes/50 + tree.Entries*64
	if err := s.needSpace("write the image", need); err != nil {
		return err
	}
	argv := []string{
		bin, "-E", "noinline_data",
		"-x", "-1", // no extended attributes: file capabilities are setuid by another name
		"-T", fmt.Sprint(imageEpoch), "-U", uuidOf(digest),
	}
	if !tree.Owned {
		argv = append(argv, "--all-root")
	}
	water := watchSpace(ctx, filepath.Dir(out))
	err = tool{argv: append(argv, out, treeRoot), env: toolEnv(), log: log}.run(ctx)
	full := water.end()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return err
	case full:
		return s.full("write the image", need, water.lowest.Load())
	}
	return fault.Errorf(fault.Internal, "mkfs.erofs: %w%s", err, log.end())
}

// uuidOf derives a filesystem UUID (version 8, "own") from a digest.
func uuidOf(digest string) string {
	b := sha256.Sum256([]byte(digest))
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// toolEnv is a small fixed environment, with what reaches the network taken
// from the caller's. Nothing else of it: steps could carry it into the tree.
func toolEnv(extra ...string) []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"}
	for _, v := range os.Environ() {
		switch name, _, _ := strings.Cut(v, "="); name {
		case "HOME", "USER", "http_proxy", "https_proxy", "no_proxy", "APT_CONFIG":
			env = append(env, v)
		}
	}
	return append(env, extra...)
}

// stepEnv gives the host's settings of how steps reach the network, as words of
// a shell, and the file of certificates that it trusts there, or "".
func stepEnv() (words, certificates string) {
	var env []string
	for _, v := range os.Environ() {
		switch name, value, _ := strings.Cut(v, "="); name {
		case "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
			"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_DEFAULT_TIMEOUT":
			env = append(env, quote(v))
		case "PIP_CERT":
			if info, err := os.Stat(value); err == nil && info.Mode().IsRegular() {
				certificates = value
				env = append(env, "PIP_CERT="+hostCertificates, "SSL_CERT_FILE="+hostCertificates)
			}
		}
	}
	slices.Sort(env)
	return strings.Join(env, " "), certificates
}
