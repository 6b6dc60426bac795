// Package blob keeps bytes by their SHA-256 digest: in a folder, or in a bucket
// of S3. Start with Store, OpenFolder and OpenS3.
//
// What is kept never changes: the same digest is the same bytes, so a blob may be
// put twice, and read by anybody who knows its digest. The package knows nothing
// about what the bytes mean or who refers to them.
package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// Store keeps blobs. It may be used from many goroutines, and many processes may
// have the same one open. A digest is "sha256:" and 64 hexadecimal digits; what
// looks otherwise is Invalid. Each failure of the disk or of S3 that may go away
// is Unavailable, no room is Exhausted.
type Store interface {
	// Put keeps all that r gives, at most max bytes of it: one more is Exhausted.
	// When it returns, the bytes are on the disk; before, nobody sees them. Bytes
	// that are there already only become younger (Info.Modified), perhaps by less
	// than RefreshAfter. An error of r is returned as it is.
	Put(ctx context.Context, r io.Reader, max int64) (digest string, size int64, err error)
	// Open gives the bytes; NotFound if there are none. The reader checks them: if
	// they are not those of the digest, it ends with Conflict instead of io.EOF.
	// Whoever stops early has read unchecked bytes.
	Open(ctx context.Context, digest string) (io.ReadCloser, error)
	// Stat says how large a blob is; NotFound if it is not there.
	Stat(ctx context.Context, digest string) (Info, error)
	// List gives at most max blobs whose digests come after the given one ("" is
	// the first), in their order. Fewer than max means that there are no more.
	List(ctx context.Context, after string, max int) ([]Info, error)
	// Delete removes a blob; that it is not there is no error. Nobody may be about
	// to refer to it: delete only what nothing refers to and what was Modified
	// longer ago than RefreshAfter and any request lasts.
	Delete(ctx context.Context, digest string) error
	// Ping asks whether the store can be reached.
	Ping(ctx context.Context) error
	// Close ends the use of the store.
	Close() error
}

// RefreshAfter is the age from which on Put makes a blob young again.
const RefreshAfter = time.Hour

// Info is what is known of a blob without reading it.
type Info struct {
	Digest string
	// Size is in bytes.
	Size int64
	// Modified is when it was last put, see Put.
	Modified time.Time
}

const digestPrefix = "sha256:"

// parseDigest gives the hexadecimal digits.
func parseDigest(digest string) (string, error) {
	digits, ok := strings.CutPrefix(digest, digestPrefix)
	if !ok || !isDigits(digits) {
		return "", fault.Errorf(fault.Invalid, "%q is no digest", digest).WithHint("a digest is %q and %d hexadecimal digits", digestPrefix, 2*sha256.Size)
	}
	return digits, nil
}

func isDigits(s string) bool {
	// One digest has one spelling.
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 2*sha256.Size && s == strings.ToLower(s)
}

func notFound(digest string) error {
	return fault.Errorf(fault.NotFound, "there is no blob %s", digest)
}

// Where an error came from, so that one of the reader does not count as ours.
type readError struct{ err error }

func (e readError) Error() string { return e.err.Error() }
func (e readError) Unwrap() error { return e.err }

// receiver reads what is to be put: it ends with the context and beyond max.
type receiver struct {
	ctx  context.Context
	r    io.Reader
	left int64
}

func (s *receiver) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, readError{context.Cause(s.ctx)}
	}
	n, err := s.r.Read(p)
	if s.left -= int64(n); s.left < 0 {
		return 0, readError{fault.Errorf(fault.Exhausted, "there are more bytes than may be kept at once")}
	}
	if err != nil && err != io.EOF {
		err = readError{err}
	}
	return n, err
}

// receive writes what r gives to w and says what it was. The digits are those of
// its digest.
func receive(ctx context.Context, w io.Writer, r io.Reader, max int64) (digits string, size int64, err error) {
	sum := sha256.New()
	size, err = io.Copy(io.MultiWriter(w, sum), &receiver{ctx, r, max})
	if e, ok := errors.AsType[readError](err); ok {
		return "", 0, e.err
	}
	if err != nil {
		return "", 0, explainDisk("keep bytes", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), size, nil
}

// explainDisk gives an error of the disk its kind.
func explainDisk(doing string, err error) error {
	switch {
	case err == nil, fault.KindOf(err) != fault.Internal, errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fault.Errorf(fault.Exhausted, "%s: the disk is full: %w", doing, err).WithHint("make room on the disk")
	case errors.Is(err, os.ErrPermission), errors.Is(err, unix.EROFS):
		return fault.Errorf(fault.Unavailable, "%s: %w", doing, err).WithHint("is the folder yours, and may it be written?")
	}
	return fault.Errorf(fault.Unavailable, "%s: %w", doing, err)
}

// checked reads a blob and ends with Conflict if it is not what it is called.
type checked struct {
	io.ReadCloser
	digest  string
	sum     hash.Hash
	explain func(error) error
}

func newChecked(r io.ReadCloser, digest string, explain func(error) error) io.ReadCloser {
	return &checked{r, digest, sha256.New(), explain}
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.sum.Write(p[:n])
	switch {
	case err == nil:
	case err != io.EOF: //nolint:errorlint // a reader gives io.EOF itself, see io.Reader
		err = c.explain(fmt.Errorf("read blob %s: %w", c.digest, err))
	case digestPrefix+hex.EncodeToString(c.sum.Sum(nil)) != c.digest:
		err = fault.Errorf(fault.Conflict, "blob %s has other bytes than it should have", c.digest).WithHint("put a copy of it back, or delete it and put it again from where it came")
	}
	return n, err
}
