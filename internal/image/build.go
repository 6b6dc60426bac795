package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/sandbox"
)

// record is what was built last under a name.
type record struct {
	Name   string    `json:"name"`
	Digest string    `json:"digest"`
	Tree   string    `json:"tree"`
	Image  string    `json:"image"`
	Built  time.Time `json:"built"`
}

// imageInfo is what image.json says of a finished image.
type imageInfo struct {
	Digest string `json:"digest"`
	Tree   string `json:"tree"`
	Guestd string `json:"guestd"`
	Bytes  int64  `json:"bytes"`
}

const (
	treeInfoName  = "tree.json"
	imageInfoName = "image.json"
	imageName     = "image.erofs"
)

// Build gives the template called name, or defined in the file name, and makes
// what is not there yet. The second build of one definition finds the first
// one's result; a new guestd costs a new image, not a new tree. Builds of one
// template wait for each other, across processes too. A build that fails or is
// cancelled leaves nothing but its log.
//
// Kinds of error: fault.Invalid for the definition, fault.NotFound for what it
// names, fault.Unsupported for a missing tool, fault.Exhausted for a full disk,
// fault.Unavailable when packages or images cannot be fetched.
func (s *Store) Build(ctx context.Context, name string, obs Observer) (sandbox.Template, error) {
	if obs == nil {
		obs = silent{}
	}
	p, err := s.plan(ctx, name, obs)
	if err != nil {
		return sandbox.Template{}, err
	}
	if err := s.build(ctx, p, obs); err != nil {
		return sandbox.Template{}, s.diskFault(fmt.Errorf("build template %s: %w", p.name, err), 0)
	}
	t := s.template(p)
	if err := os.MkdirAll(t.Snapshots, 0o755); err != nil {
		return sandbox.Template{}, s.diskFault(fmt.Errorf("build template %s: %w", p.name, err), 0)
	}
	return t, nil
}

// Built reports whether Build would find the template made already, and makes
// nothing. Its errors are those of Build for the definition.
func (s *Store) Built(ctx context.Context, name string) (bool, error) {
	p, err := s.plan(ctx, name, silent{})
	if err != nil {
		return false, err
	}
	return s.hasImage(p.image), nil
}

func (s *Store) template(p *plan) sandbox.Template {
	return sandbox.Template{
		Name: p.name, Digest: p.digest, Image: s.path(dirImages, hexOf(p.image), imageName),
		Shape: p.def.Shape.engine(), Driver: p.def.Driver, Warm: p.def.Warm, Snapshots: s.path(dirSnapshots, hexOf(p.digest)),
	}
}

// build makes the image of p unless it is there. Lock order: image, tree.
func (s *Store) build(ctx context.Context, p *plan, obs Observer) error {
	waiting := func() { obs.Progress(Progress{Stage: StageWait, Text: "wait for another build of " + p.name}) }

	// A shared lock is enough to find a result, and keeps it from being
	// removed before the record names it.
	l, err := lock(ctx, s.lockPath("image", p.image), unix.LOCK_SH, waiting)
	if err != nil {
		return err
	}
	if s.hasImage(p.image) {
		defer l.release()
		return s.remember(p)
	}
	l.release()

	if l, err = lock(ctx, s.lockPath("image", p.image), unix.LOCK_EX, waiting); err != nil {
		return err
	}
	defer l.release()
	if s.hasImage(p.image) {
		return s.remember(p)
	}
	tl, err := lock(ctx, s.lockPath("tree", p.tree), unix.LOCK_EX, waiting)
	if err != nil {
		return err
	}
	defer tl.release()

	file, err := os.Create(s.path(dirLogs, p.name+".log"))
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer file.Close()
	log := &buildLog{file: file}

	tree, err := s.tree(ctx, p, log, obs)
	if err != nil {
		s.dropLock("tree", p.tree)
		s.dropLock("image", p.image)
		return err
	}
	if err := s.makeImage(ctx, p, tree, log, obs); err != nil {
		if err = s.diskFault(err, tree.Bytes); fault.Is(err, fault.Exhausted) {
			// A tree is kept for the next try, but not on a full disk. One that
			// cannot be removed is whole and does no harm.
			_ = s.collectOf(record{Digest: p.digest, Image: p.image, Tree: p.tree})
		}
		s.dropLock("image", p.image)
		return err
	}
	if err := s.remember(p); err != nil {
		return err
	}
	// Earlier results of this name that nothing uses any more.
	return s.collect()
}

func (s *Store) hasImage(digest string) bool {
	var info imageInfo
	if err := readJSON(s.path(dirImages, hexOf(digest), imageInfoName), &info); err != nil {
		return false
	}
	st, err := os.Stat(s.path(dirImages, hexOf(digest), imageName))
	return err == nil && st.Size() == info.Bytes
}

// tree gives the finished tree of p, and makes it if it is not there. Caller
// holds the tree's lock.
func (s *Store) tree(ctx context.Context, p *plan, log *buildLog, obs Observer) (treeInfo, error) {
	final := s.path(dirTrees, hexOf(p.tree))
	var info treeInfo
	err := readJSON(filepath.Join(final, treeInfoName), &info)
	if err == nil {
		return info, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return info, err
	}
	w, err := s.newWork()
	if err != nil {
		return info, err
	}
	info, err = s.makeTree(ctx, p, w.path, log, obs)
	if err == nil {
		err = publish(filepath.Join(w.path, "out"), final)
	}
	// What cannot be removed now is removed by the next Open.
	if rerr := w.remove(); err == nil {
		err = rerr
	}
	return info, err
}

// makeTree builds the tree in work/out.
func (s *Store) makeTree(ctx context.Context, p *plan, work string, log *buildLog, obs Observer) (treeInfo, error) {
	root := filepath.Join(work, "root")
	var err error
	if p.source == "debian" {
		err = s.debianTree(ctx, p, work, log, obs)
	} else {
		if err := os.Mkdir(root, 0o755); err != nil {
			return treeInfo{}, err
		}
		if p.source == "oci" {
			err = s.ociTree(ctx, p.def.From.OCI, hexDigest(p.base), root, obs)
		} else {
			err = s.tarTree(ctx, p.def.From.Tar, hexDigest(p.base), root, obs)
		}
		if err == nil {
			err = s.addFiles(ctx, root, p.files)
		}
	}
	if err != nil {
		return treeInfo{}, err
	}
	obs.Progress(Progress{Stage: StageFinish, Text: "clean up the root filesystem"})
	info, err := finish(root, p.def.User, p.source == "debian")
	if err != nil {
		return treeInfo{}, err
	}
	info.Digest = p.tree
	out := filepath.Join(work, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		return treeInfo{}, err
	}
	if err := os.Rename(root, filepath.Join(out, "root")); err != nil {
		return treeInfo{}, err
	}
	return info, s.writeJSON(filepath.Join(out, treeInfoName), info)
}

// hexDigest takes the kind off a base such as "oci:sha256:…".
func hexDigest(base string) string {
	for i := range base {
		if base[i] == ':' {
			return base[i+1:]
		}
	}
	return base
}

// addFiles puts the definition's files into a tree that no tool of ours made,
// so through the same guards as a hostile tar.
func (s *Store) addFiles(ctx context.Context, root string, files []treeFile) error {
	if len(files) == 0 {
		return nil
	}
	var b bytes.Buffer
	if err := packFiles(&b, files); err != nil {
		return err
	}
	u, err := newUnpacker(root, s.opt.Caps, nil)
	if err != nil {
		return err
	}
	defer u.close()
	return u.apply(ctx, &b)
}

// makeImage writes and publishes the image. Caller holds the image's and the
// tree's lock.
func (s *Store) makeImage(ctx context.Context, p *plan, tree treeInfo, log *buildLog, obs Observer) error {
	obs.Progress(Progress{Stage: StageImage, Text: "write the image", Total: tree.Bytes})
	root := s.path(dirTrees, hexOf(p.tree), "root")
	if err := s.putGuestd(root); err != nil {
		return fmt.Errorf("put guestd into the tree: %w", err)
	}
	w, err := s.newWork()
	if err != nil {
		return err
	}
	err = func() error {
		out := filepath.Join(w.path, imageName)
		if err := s.mkfs(ctx, tree, root, out, p.image, log); err != nil {
			return err
		}
		st, err := os.Stat(out)
		if err != nil {
			return err
		}
		if err := os.Chmod(out, 0o444); err != nil {
			return err
		}
		info := imageInfo{Digest: p.image, Tree: p.tree, Guestd: p.guestd, Bytes: st.Size()}
		if err := s.writeJSON(filepath.Join(w.path, imageInfoName), info); err != nil {
			return err
		}
		obs.Progress(Progress{Stage: StageImage, Text: "write the image", Done: tree.Bytes, Total: tree.Bytes})
		return publish(w.path, s.path(dirImages, hexOf(p.image)))
	}()
	if rerr := w.remove(); err == nil {
		err = rerr
	}
	return err
}

// remember notes what a name now stands for. Caller holds the image's lock.
func (s *Store) remember(p *plan) error {
	var old record
	path := s.path(dirRecords, p.name+".json")
	if err := readJSON(path, &old); err == nil && old.Digest == p.digest {
		return nil
	}
	return s.writeJSON(path, record{Name: p.name, Digest: p.digest, Tree: p.tree, Image: p.image, Built: time.Now().UTC()})
}

// Use keeps a template's image and snapshots from being removed until release
// is called or this process dies. It fails with fault.NotFound if they are
// gone already: build again. Take it before the first look into the template's
// Snapshots directory.
func (s *Store) Use(ctx context.Context, t sandbox.Template) (release func(), err error) {
	image := filepath.Base(filepath.Dir(t.Image))
	var held []*fileLock
	release = func() {
		for _, l := range held {
			l.release()
		}
	}
	for _, path := range []string{s.lockPath("image", image), s.lockPath("template", t.Digest)} {
		l, err := lock(ctx, path, unix.LOCK_SH, nil)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, l)
	}
	if !s.hasImage(image) {
		release()
		return nil, fault.Errorf(fault.NotFound, "template %s was removed", t.Name).WithHint("build it again with \"assay template build %s\"", t.Name)
	}
	if err := os.MkdirAll(t.Snapshots, 0o755); err != nil {
		release()
		return nil, s.diskFault(fmt.Errorf("use template %s: %w", t.Name, err), 0)
	}
	return release, nil
}
