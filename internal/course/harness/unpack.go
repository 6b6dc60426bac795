package harness

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"assay/internal/course"
)

// Bounds of a harness's archive. It is the teacher's; the bounds keep a mistake
// from taking the host.
const (
	maxEntries  = 10_000
	maxUnpacked = 200 << 20
)

// unpack reads the files of a zip or a tar, which may be compressed with gzip.
func unpack(f course.File) ([]course.File, error) {
	var c collector
	var err error
	switch {
	case bytes.HasPrefix(f.Data, []byte("PK")):
		err = c.zip(f.Data)
	case bytes.HasPrefix(f.Data, []byte{0x1f, 0x8b}):
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(f.Data)); err == nil {
			err = c.tar(z)
		}
	default:
		err = c.tar(bytes.NewReader(f.Data))
	}
	if err == nil && len(c.files) == 0 {
		err = errors.New("the archive is empty")
	}
	return c.files, err
}

type collector struct {
	files []course.File
	left  int64
}

// add reads one file. Links and devices are refused by name.
func (c *collector) add(name string, mode fs.FileMode, r io.Reader) error {
	if c.files == nil {
		c.left = maxUnpacked
	}
	clean := path.Clean(strings.TrimPrefix(name, "./"))
	if mode.IsDir() || strings.HasPrefix(name, "__MACOSX/") || path.Base(clean) == ".DS_Store" {
		return nil
	}
	if !fs.ValidPath(clean) || strings.ContainsAny(clean, "\\\x00") {
		return fmt.Errorf("the name %q leads out of the archive", name)
	}
	if !mode.IsRegular() {
		return fmt.Errorf("%q is not a regular file", name)
	}
	if len(c.files) == maxEntries {
		return fmt.Errorf("more than %d files", maxEntries)
	}
	data, err := io.ReadAll(io.LimitReader(r, c.left+1))
	if err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	if c.left -= int64(len(data)); c.left < 0 {
		return fmt.Errorf("more than %d MiB unpacked", maxUnpacked>>20)
	}
	c.files = append(c.files, course.File{Name: clean, Data: data, Executable: mode&0o111 != 0})
	return nil
}

func (c *collector) zip(data []byte) error {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			return fmt.Errorf("%q: %w", f.Name, err)
		}
		err = c.add(f.Name, f.Mode(), r)
		_ = r.Close() // it was only read
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) tar(r io.Reader) error {
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		mode := h.FileInfo().Mode()
		if h.Typeflag == tar.TypeLink {
			mode |= fs.ModeSymlink
		}
		if err := c.add(h.Name, mode, t); err != nil {
			return err
		}
	}
}
