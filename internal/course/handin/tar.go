package handin

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"io"

	"assay/internal/fault"
)

// compressed reads a tar inside of gzip or bzip2.
func (g *gathering) compressed(kind content, base string, r io.Reader) error {
	var inner io.Reader
	if kind == bzipped {
		inner = bzip2.NewReader(r)
	} else {
		z, err := gzip.NewReader(r)
		if err != nil {
			return damaged(err)
		}
		inner = z
	}
	b := bufio.NewReaderSize(&stream{r: inner, packed: g.packed}, 64<<10)
	switch first, err := b.Peek(tarBlock); {
	case err != nil && !errors.Is(err, io.EOF):
		return damaged(err)
	case sniffBlock(first) != tarred:
		return fault.Errorf(fault.Invalid, "%s is compressed, but there is no tar in it", quote(base)).WithHint("hand in the file as it is, or pack the folder as .zip or .tar.gz")
	}
	return g.tar(b)
}

// stream bounds what is unpacked to get to the entries, those that are dropped
// included.
type stream struct {
	r            io.Reader
	packed, read int64
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.read += int64(n)
	switch {
	case s.read > maxStream:
		return 0, fault.Errorf(fault.Invalid, "the archive unpacks to more than %s", people(maxStream)).WithHint("pack only the files that the assignment asks for")
	case s.read > ratioFloor && s.read/MaxRatio > s.packed:
		return 0, fault.Errorf(fault.Invalid, "the archive grows more than %d times when it is unpacked", MaxRatio).WithHint("pack only the files that the assignment asks for")
	}
	return n, err
}

func damaged(err error) error {
	if fault.KindOf(err) != fault.Internal {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it is cut off")
	}
	return fault.Errorf(fault.Invalid, "the archive cannot be read: %w", err).WithHint("it is damaged or was not sent whole; pack the files again")
}

// tar reads the entries of a tar one by one.
func (g *gathering) tar(r io.Reader) error {
	end := &endSeen{r: r}
	t := tar.NewReader(end)
	for {
		h, err := t.Next()
		if errors.Is(err, tar.ErrInsecurePath) {
			err = nil // add refuses the name, with a message that says why
		}
		switch {
		case errors.Is(err, io.EOF):
			if !end.zeros {
				return damaged(io.ErrUnexpectedEOF)
			}
			return nil
		case err != nil:
			return damaged(err)
		}
		e := entry{name: h.Name, size: h.Size, executable: h.Mode&0o111 != 0, read: func(buf []byte) error { return readFull(t, buf) }}
		switch h.Typeflag {
		case tar.TypeXGlobalHeader:
			continue // what "git archive" writes in front
		case tar.TypeReg, tar.TypeGNUSparse:
		case tar.TypeDir:
			e.folder = true
		case tar.TypeSymlink:
			e.refused = "a symbolic link to " + quote(h.Linkname)
		case tar.TypeLink:
			e.refused = "a hard link to " + quote(h.Linkname)
		case tar.TypeChar, tar.TypeBlock:
			e.refused = "a device"
		case tar.TypeFifo:
			e.refused = "a named pipe"
		default:
			e.refused = "an entry of the unknown kind " + quote(string(rune(h.Typeflag)))
		}
		if err := g.add(e); err != nil {
			return err
		}
	}
}

// endSeen remembers whether the last block was the empty one that ends a tar:
// without it the rest may have been lost.
type endSeen struct {
	r     io.Reader
	zeros bool
}

func (e *endSeen) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if n > 0 {
		e.zeros = n == tarBlock && len(bytes.Trim(p[:n], "\x00")) == 0
	}
	return n, err
}
