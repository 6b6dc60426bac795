package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/supervisor"
)

type sandboxCpCmd struct {
	From string `arg:"" name:"from" help:"A path here, or ID:path in a sandbox."`
	To   string `arg:"" name:"to" help:"ID:path in a sandbox, or a path here."`
	Root bool   `name:"root" help:"Files in the sandbox belong to root, not to user."`
}

func (sandboxCpCmd) Help() string {
	return `A directory is copied with all below it: into the target if that is there, else as the target; "dir/." copies what is in it. Paths in a sandbox are absolute or relative to the user's home; a path here with a colon is written ./like:this.

Links stay links and are never followed. A link that leads out of the copied tree is left out with a warning, and the exit code is then 1. FIFOs, sockets and devices are left out too; on the way out of a sandbox, silently.`
}

// place is one end of a copy.
type place struct {
	sandbox string // "" is this host
	path    string
}

func parsePlace(arg string) place {
	id, p, found := strings.Cut(arg, ":")
	if !found || id == "" || strings.ContainsAny(id, "/.") {
		return place{path: arg}
	}
	return place{sandbox: id, path: p}
}

// guestHome is what relative paths in a sandbox are relative to.
const guestHome = "/home/user"

// inGuest makes a path in a sandbox absolute.
func inGuest(p string) string {
	if path.IsAbs(p) {
		return path.Clean(p)
	}
	return path.Join(guestHome, p)
}

// onlyContent says that a path names what is in a directory, not the directory.
func onlyContent(p string) bool { return p == "." || strings.HasSuffix(p, "/.") }

func (c sandboxCpCmd) Run(ctx context.Context, env *Env) error {
	from, to := parsePlace(c.From), parsePlace(c.To)
	if (from.sandbox == "") == (to.sandbox == "") {
		return fault.Errorf(fault.Invalid, "exactly one of the two is in a sandbox").WithHint("write it as ID:path")
	}
	if from.path == "" {
		return fault.Errorf(fault.Invalid, "no path to copy from in %q", c.From)
	}
	client, err := connect(ctx, env)
	if err != nil {
		return err
	}
	defer client.Close()
	cp := &copying{env: env, client: client, owner: guest.OwnerUser}
	if c.Root {
		cp.owner = guest.OwnerRoot
	}
	if to.sandbox != "" {
		err = cp.in(ctx, from.path, to)
	} else {
		err = cp.out(ctx, from, to.path)
	}
	cp.finish()
	if err != nil {
		return err
	}
	done := copied{Files: cp.files, Bytes: cp.bytes.Load(), LeftOut: cp.leftOut}
	if env.JSON {
		err = env.PrintJSON(done)
	}
	if err == nil && done.LeftOut > 0 {
		if more := done.LeftOut - maxWarned; more > 0 {
			env.UI.Warnf("left out %d more", more)
		}
		err = errNegative
	}
	return err
}

// copied is what a copy did.
type copied struct {
	Files   int   `json:"files"`
	Bytes   int64 `json:"bytes"`
	LeftOut int   `json:"left_out"`
}

// copying is a copy under way.
type copying struct {
	env    *Env
	client *supervisor.Client
	owner  string

	files    int
	bytes    atomic.Int64
	leftOut  int
	total    int64 // bytes, 0 if not known
	progress *Progress
}

// maxWarned is how many files left out are named.
const maxWarned = 20

// skip leaves a file out. Its name comes from the tree: it may be anything.
func (c *copying) skip(name, why string) {
	if c.leftOut++; c.leftOut <= maxWarned {
		c.env.UI.Warnf("left out %q: %s", name, why)
	}
}

// showFrom is from how many bytes on a copy shows its progress.
const showFrom = 8 << 20

// counted counts what goes through a reader.
func (c *copying) counted(r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		n, err := r.Read(p)
		sum := c.bytes.Add(int64(n))
		if c.progress == nil && sum > showFrom {
			c.progress = c.env.UI.Progress("copy (MiB)", 0)
		}
		if c.progress != nil {
			c.progress.Set(sum>>20, max(c.total>>20, sum>>20))
		}
		return n, err
	})
}

func (c *copying) finish() {
	if c.progress != nil {
		c.progress.Finish(fmt.Sprintf("%d MiB", c.bytes.Load()>>20))
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// in copies from this host into a sandbox.
func (c *copying) in(ctx context.Context, from string, to place) error {
	info, err := os.Stat(from) // what the person names is followed, what is below is not
	if err != nil {
		return hostFault("copy", err)
	}
	target := inGuest(to.path)
	there, err := c.client.Stat(ctx, to.sandbox, target)
	exists := err == nil
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if !exists { // no such path, or no such sandbox
		if _, err := c.client.Get(ctx, to.sandbox); err != nil {
			return err
		}
	}
	isDir := exists && there.Type == guest.TypeDir
	if isDir && !onlyContent(from) {
		abs, err := filepath.Abs(from)
		if err != nil {
			return hostFault("copy", err)
		}
		target = path.Join(target, filepath.Base(abs))
	}
	switch {
	case info.IsDir():
		if exists && !isDir {
			return fault.Errorf(fault.Conflict, "%s is there and is no directory", c.named(to))
		}
		return c.treeIn(ctx, from, to.sandbox, target)
	case !info.Mode().IsRegular():
		return fault.Errorf(fault.Invalid, "%s is neither a file nor a directory", from)
	case !isDir && strings.HasSuffix(to.path, "/"):
		return fault.Errorf(fault.NotFound, "no directory %s", c.named(to))
	}
	f, err := os.Open(from)
	if err != nil {
		return hostFault("copy", err)
	}
	defer f.Close()
	c.total, c.files = info.Size(), 1
	_, err = c.client.WriteFile(ctx, to.sandbox, target, c.counted(f), guest.WriteOptions{Mode: info.Mode().Perm(), Owner: c.owner})
	return err
}

func (c *copying) named(p place) string { return p.sandbox + ":" + inGuest(p.path) }

// out copies from a sandbox to this host.
func (c *copying) out(ctx context.Context, from place, to string) error {
	source := inGuest(from.path)
	what, err := c.client.Stat(ctx, from.sandbox, source)
	if err != nil {
		return err
	}
	there, err := os.Stat(to)
	exists := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return hostFault("copy", err)
	}
	isDir := exists && there.IsDir()
	switch what.Type {
	case guest.TypeDir:
		if exists && !isDir {
			return fault.Errorf(fault.Conflict, "%s is there and is no directory", to)
		}
		if isDir && !onlyContent(from.path) && source != "/" {
			to = filepath.Join(to, path.Base(source))
		}
		return c.treeOut(ctx, from.sandbox, source, to)
	case guest.TypeFile:
	case guest.TypeSymlink:
		return fault.Errorf(fault.Invalid, "%s is a link to %q: links are not followed", c.named(from), what.LinkTarget).WithHint("name the file itself")
	default:
		return fault.Errorf(fault.Invalid, "%s is neither a file nor a directory", c.named(from))
	}
	if isDir {
		to = filepath.Join(to, path.Base(source))
	} else if strings.HasSuffix(to, "/") {
		return fault.Errorf(fault.NotFound, "no directory %s", to)
	}
	body, err := c.client.ReadFile(ctx, from.sandbox, source)
	if err != nil {
		return err
	}
	defer body.Close()
	root, err := os.OpenRoot(filepath.Dir(to))
	if err != nil {
		return hostFault("copy", err)
	}
	defer root.Close()
	c.total, c.files = what.Size, 1
	return putFile(root, filepath.Base(to), what.Mode, c.counted(body))
}

// hostFault gives the kind of what the host's files answered.
func hostFault(what string, err error) error {
	kind := fault.Internal
	switch {
	case errors.Is(err, fs.ErrNotExist):
		kind = fault.NotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		kind = fault.Denied
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		kind = fault.Exhausted
	case errors.Is(err, fs.ErrExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENOTEMPTY):
		kind = fault.Conflict
	}
	return fault.Errorf(kind, "%s: %w", what, err)
}
