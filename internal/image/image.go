// Package image turns a template definition into a root filesystem image: it
// reads the definition, makes the tree (mmdebstrap, an OCI image or a tar),
// puts guestd into it, and writes a read-only EROFS image. Start with Open,
// Store.Build and Definition.
//
// Everything is kept by content under one directory. A tree is expensive and
// is named by what the definition says; an image is cheap and is named by its
// tree and guestd. What is unfinished lies in tmp/ and is never taken for a
// result.
//
// The package boots nothing: warm-up and snapshots are the manager's. It must
// not know drivers, judging or any store, and prints nothing.
package image

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/fault"
)

// Options say what a Store works with.
type Options struct {
	// Guestd is the path of the static guestd binary. It is read at each Build.
	Guestd string
	// Builtin has the definitions that ship with the program: NAME.yaml at its
	// top. May be nil.
	Builtin fs.FS
	// Dirs are directories with further definitions, NAME.yaml; the first that
	// has a name counts, and before Builtin.
	Dirs []string
	// Caps bound what an OCI image or tar may unpack to. Zero is DefaultCaps.
	Caps Caps
}

// Store builds templates and keeps them under one directory. Its methods may
// be called at the same time, also from several processes on one directory.
type Store struct {
	root string
	opt  Options
}

// The directories under a store's root.
const (
	dirDefinitions = "definitions" // imported definitions, NAME.yaml
	dirTrees       = "trees"       // HEX/root and HEX/tree.json
	dirImages      = "images"      // HEX/image.erofs and HEX/image.json
	dirSnapshots   = "snapshots"   // HEX of the template digest; the manager fills it
	dirRecords     = "templates"   // NAME.json: what was built last under a name
	dirResolved    = "resolved"    // registry references and the digest found for them
	dirLocks       = "locks"
	dirLogs        = "logs" // NAME.log: the tools' output of the last build
	dirTmp         = "tmp"
)

// Open prepares a store in root, which is made if it does not exist, and
// removes what builds that died left behind. Builds running in other processes
// are left alone.
func Open(root string, opt Options) (*Store, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "template directory %q: %w", root, err)
	}
	if opt.Caps == (Caps{}) {
		opt.Caps = DefaultCaps
	}
	s := &Store{root: abs, opt: opt}
	for _, d := range []string{dirDefinitions, dirTrees, dirImages, dirSnapshots, dirRecords, dirResolved, dirLocks, dirLogs, dirTmp} {
		// 0755: mmdebstrap's unprivileged parts must be able to pass through.
		if err := os.MkdirAll(filepath.Join(abs, d), 0o755); err != nil {
			return nil, fault.Errorf(kindOfFS(err), "open template directory: %w", err).
				WithHint("give a data directory that you may write to")
		}
	}
	if err := s.sweepTmp(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{s.root}, elem...)...)
}

// hexOf gives the hex part of a "sha256:…" digest, as used in file names.
func hexOf(digest string) string { return strings.TrimPrefix(digest, "sha256:") }
