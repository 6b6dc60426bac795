package sandboxes

import (
	"context"
	"io"
	"io/fs"

	"assay/internal/account"
	"assay/internal/guest"
)

// Calls on files. Paths are absolute, in the guest; rules and errors are those
// of guest.Client. What is read is a claim of the guest.

// Stat says what is at a path, links not followed.
func (s *Service) Stat(ctx context.Context, id, path string) (info guest.FileInfo, err error) {
	err = s.onFiles(ctx, id, "stat", func(ctx context.Context, g *guest.Client) error {
		info, err = g.Stat(ctx, path)
		return err
	})
	return info, err
}

// List gives the entries of a directory, by name.
func (s *Service) List(ctx context.Context, id, path string) (list []guest.FileInfo, err error) {
	err = s.onFiles(ctx, id, "list files", func(ctx context.Context, g *guest.Client) error {
		list, err = g.List(ctx, path)
		return err
	})
	return list, err
}

// WriteFile writes all of r to a file, or nothing.
func (s *Service) WriteFile(ctx context.Context, id, path string, r io.Reader, o guest.WriteOptions) (info guest.FileInfo, err error) {
	err = s.onFiles(ctx, id, "write file", func(ctx context.Context, g *guest.Client) error {
		info, err = g.WriteFile(ctx, path, r, o)
		return err
	})
	return info, err
}

// WriteTree unpacks a tar archive into a directory, as owner.
func (s *Service) WriteTree(ctx context.Context, id, dir string, tar io.Reader, owner string) (info guest.TreeInfo, err error) {
	err = s.onFiles(ctx, id, "write tree", func(ctx context.Context, g *guest.Client) error {
		info, err = g.WriteTree(ctx, dir, tar, owner)
		return err
	})
	return info, err
}

// MakeDir makes a directory.
func (s *Service) MakeDir(ctx context.Context, id, path string, mode fs.FileMode, owner string, parents bool) error {
	return s.onFiles(ctx, id, "make directory", func(ctx context.Context, g *guest.Client) error {
		return g.MakeDir(ctx, path, mode, owner, parents)
	})
}

// Remove removes what is at a path.
func (s *Service) Remove(ctx context.Context, id, path string, recursive bool) error {
	return s.onFiles(ctx, id, "remove file", func(ctx context.Context, g *guest.Client) error {
		return g.Remove(ctx, path, recursive)
	})
}

// Rename moves what is at from to the path to.
func (s *Service) Rename(ctx context.Context, id, from, to string) error {
	return s.onFiles(ctx, id, "rename file", func(ctx context.Context, g *guest.Client) error {
		return g.Rename(ctx, from, to)
	})
}

// Chmod sets the permission bits of a file or directory.
func (s *Service) Chmod(ctx context.Context, id, path string, mode fs.FileMode) error {
	return s.onFiles(ctx, id, "change mode", func(ctx context.Context, g *guest.Client) error {
		return g.Chmod(ctx, path, mode)
	})
}

func (s *Service) onFiles(ctx context.Context, id, what string, f func(context.Context, *guest.Client) error) error {
	in, err := s.inside(ctx, account.Use, what, id)
	if err != nil {
		return err
	}
	defer in.done()
	return in.settle(f(in.ctx, in.sb.Guest()))
}

// ReadFile streams a file. The caller closes it; reading fails when ctx or the
// sandbox ends.
func (s *Service) ReadFile(ctx context.Context, id, path string) (io.ReadCloser, error) {
	return s.read(ctx, id, "read file", func(ctx context.Context, g *guest.Client) (io.ReadCloser, error) {
		return g.ReadFile(ctx, path)
	})
}

// ReadFileRange is ReadFile from an offset on, for length bytes or, if that is
// negative, to the end.
func (s *Service) ReadFileRange(ctx context.Context, id, path string, offset, length int64) (io.ReadCloser, error) {
	return s.read(ctx, id, "read file", func(ctx context.Context, g *guest.Client) (io.ReadCloser, error) {
		return g.ReadFileRange(ctx, path, offset, length)
	})
}

// ReadTree streams a directory as a tar archive, as ReadFile does a file.
func (s *Service) ReadTree(ctx context.Context, id, dir string) (io.ReadCloser, error) {
	return s.read(ctx, id, "read tree", func(ctx context.Context, g *guest.Client) (io.ReadCloser, error) {
		return g.ReadTree(ctx, dir)
	})
}

func (s *Service) read(ctx context.Context, id, what string, open func(context.Context, *guest.Client) (io.ReadCloser, error)) (io.ReadCloser, error) {
	in, err := s.inside(ctx, account.Use, what, id)
	if err != nil {
		return nil, err
	}
	r, err := open(in.ctx, in.sb.Guest())
	if err != nil {
		err = in.settle(err)
		in.done()
		return nil, err
	}
	return &reading{r, in}, nil
}

// reading ends its session when it is closed.
type reading struct {
	r  io.ReadCloser
	in *session
}

func (r *reading) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // a reader's end is io.EOF itself
		err = r.in.settle(err)
	}
	return n, err
}

func (r *reading) Close() error {
	err := r.r.Close()
	r.in.done()
	return err
}
