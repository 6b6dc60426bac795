package problempkg

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"assay/internal/fault"
	"assay/internal/judge"
)

// lineFeeds reads a file with each CR LF made a LF: test data that was made on
// Windows is the same test elsewhere.
type lineFeeds struct {
	r io.ReadCloser
	// held says that a CR was read and what follows it is not known.
	held bool
	err  error
	buf  []byte
	rest []byte
}

func (l *lineFeeds) Read(out []byte) (int, error) {
	if len(out) == 0 {
		return 0, nil
	}
	for len(l.rest) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		l.fill()
	}
	n := copy(out, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// fill reads a block and takes the CRs out that a LF follows.
func (l *lineFeeds) fill() {
	if l.buf == nil {
		l.buf = make([]byte, 64<<10)
	}
	from := 0
	if l.held {
		// Room for the CR, if it stays.
		l.buf[0], from = '\r', 1
	}
	n, err := l.r.Read(l.buf[from:])
	l.err = err
	data := l.buf[:from+n]
	l.held = false
	if len(data) > 0 && data[len(data)-1] == '\r' && err == nil {
		l.held, data = true, data[:len(data)-1]
	}
	l.rest = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
}

func (l *lineFeeds) Close() error { return l.r.Close() }

// lineFeedBlob is a file of the package with line ends of one byte. The file was
// read once before; one without a CR is given as it is.
func (t *tree) lineFeedBlob(name string) (judge.Blob, error) {
	f := t.files[name]
	open := func() (io.ReadCloser, error) {
		r, err := f.open()
		if err != nil {
			return nil, err
		}
		return &lineFeeds{r: r}, nil
	}
	r, err := open()
	if err != nil {
		return judge.Blob{}, fault.Errorf(fault.Invalid, "open %s: %w", name, err)
	}
	sum := sha256.New()
	n, err := io.Copy(sum, r)
	if closeErr := r.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return judge.Blob{}, fault.Errorf(fault.Invalid, "read %s: %w", name, err)
	}
	if n == f.size {
		return t.blob(name), nil
	}
	return judge.NewBlob(name, n, hex.EncodeToString(sum.Sum(nil)), open), nil
}
