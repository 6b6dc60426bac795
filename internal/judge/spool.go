package judge

import (
	"bytes"
	"errors"
	"io"
	"os"

	"assay/internal/fault"
)

// spoolMemory is how much of a spool stays in memory, in bytes.
const spoolMemory = 4 << 20

// spool holds what a program wrote until a checker reads it: the beginning in
// memory, all of it in a nameless file when it is long. One goroutine writes,
// then reads.
type spool struct {
	mem  bytes.Buffer
	file *os.File
	size int64
}

func (s *spool) Write(b []byte) (int, error) {
	s.size += int64(len(b))
	if s.file == nil {
		if s.mem.Len()+len(b) <= spoolMemory {
			return s.mem.Write(b)
		}
		if err := s.spill(); err != nil {
			return 0, err
		}
	}
	return s.file.Write(b)
}

// spill moves the spool into a file that is gone when it is closed.
func (s *spool) spill() error {
	f, err := os.CreateTemp("", "assay-output-*")
	if err == nil {
		err = errors.Join(os.Remove(f.Name()), writeAll(f, s.mem.Bytes()))
	}
	if err != nil {
		return fault.Errorf(fault.Unavailable, "keep a program's output: %w", err)
	}
	s.file, s.mem = f, bytes.Buffer{}
	return nil
}

func writeAll(f *os.File, b []byte) error {
	_, err := f.Write(b)
	return err
}

// reader gives all that was written, from the beginning.
func (s *spool) reader() io.Reader {
	if s.file == nil {
		return bytes.NewReader(s.mem.Bytes())
	}
	return io.NewSectionReader(s.file, 0, s.size)
}

// blank reports whether there is nothing but white space at the beginning that
// is in memory, and nothing else.
func (s *spool) blank() bool { return s.file == nil && len(bytes.TrimSpace(s.mem.Bytes())) == 0 }

// close frees the file. A reader must not be used afterwards.
func (s *spool) close() {
	if s.file != nil {
		// The file has no name and nobody reads it any more.
		_ = s.file.Close()
	}
}
