package blob

import (
	"bytes"
	"io"
	"os"
)

// fewBytes is how much waits in memory: a submission does, and needs no room on
// this host's disk.
const fewBytes = 1 << 20

// waiting holds bytes until their digest is known, in memory while they are few
// and else in a file of the folder dir. Close it.
type waiting struct {
	dir  string
	few  bytes.Buffer
	file *os.File
}

func (w *waiting) Write(p []byte) (int, error) {
	if w.file == nil && w.few.Len()+len(p) <= fewBytes {
		return w.few.Write(p)
	}
	if w.file == nil {
		if err := w.open(); err != nil {
			return 0, err
		}
	}
	return w.file.Write(p)
}

// open begins the file with what there is.
func (w *waiting) open() (err error) {
	if w.file, err = os.CreateTemp(w.dir, "assay-blob-"); err != nil {
		return err
	}
	// Nobody needs its name: without one it is gone when this process is.
	if err := os.Remove(w.file.Name()); err != nil {
		return err
	}
	_, err = w.few.WriteTo(w.file)
	return err
}

// reader reads all from its beginning; nothing is written after that.
func (w *waiting) reader() (io.ReadSeeker, error) {
	if w.file == nil {
		return bytes.NewReader(w.few.Bytes()), nil
	}
	_, err := w.file.Seek(0, io.SeekStart)
	return w.file, err
}

// Close frees the file.
func (w *waiting) Close() error {
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}
