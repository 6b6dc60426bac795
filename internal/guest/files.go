package guest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"assay/internal/fault"
)

// The paths of the file requests.
const (
	PathFile   = "/v1/file" // GET reads, PUT writes, DELETE removes
	PathStat   = "/v1/file/stat"
	PathRename = "/v1/file/rename"
	PathChmod  = "/v1/file/chmod"
	PathDir    = "/v1/dir" // GET lists, PUT makes
)

// Bounds of file requests.
const (
	// MaxFile is the largest file WriteFile writes, in bytes; the machine's
	// disk is usually the lower bound.
	MaxFile = 4 << 30
	// MaxList is how many entries List gives of one directory.
	MaxList = 10_000
)

// The owners a new file can have. The empty string is OwnerUser.
const (
	OwnerUser = "user" // the template's user, as which commands run
	OwnerRoot = "root"
)

// FileType is what a path is.
type FileType string

// The types of files.
const (
	TypeFile    FileType = "file"
	TypeDir     FileType = "dir"
	TypeSymlink FileType = "symlink"
	TypeOther   FileType = "other" // a FIFO, a socket or a device
)

// FileInfo says what lies at a path in the guest. It is a claim of the guest:
// the next moment may differ.
type FileInfo struct {
	Name string   `json:"name"`
	Type FileType `json:"type"`
	// Size is in bytes; it means something for regular files only.
	Size int64 `json:"size_bytes"`
	// Mode is the permission bits.
	Mode    fs.FileMode `json:"mode"`
	UID     uint32      `json:"uid"`
	ModTime time.Time   `json:"mtime"`
	// LinkTarget is what a symbolic link says.
	LinkTarget string `json:"link_target,omitempty"`
	// SHA256 is the hex digest of the content; WriteFile alone sets it.
	SHA256 string `json:"sha256,omitempty"`
}

// WriteOptions say how WriteFile makes the file.
type WriteOptions struct {
	// Mode is the permission bits; zero is 0644.
	Mode fs.FileMode
	// Owner is OwnerUser (also if empty) or OwnerRoot.
	Owner string
	// MakeParents makes missing parent directories, mode 0755, same owner.
	MakeParents bool
}

// Rules of all file calls: a path is absolute and looked up in the guest only.
// The last part of a path is never followed if it is a symbolic link; a link
// further up is followed only if root owns it and nobody else could have put
// it there, else the call is fault.Denied. Other kinds: NotFound; Conflict (the
// wrong thing is there, or a directory is not empty); Exhausted (a cap, a full
// disk); Invalid. After a broken session (ErrSessionEnded) a call may or may
// not have been carried out.

// WriteFile writes all of r to a file, in place of what is there: readers see
// the old content or the new, never a part. It gives size and SHA-256 of what
// was written. If r fails, nothing is changed. It does not close r.
func (c *Client) WriteFile(ctx context.Context, path string, r io.Reader, opt WriteOptions) (FileInfo, error) {
	q := url.Values{"path": {path}}
	setMode(q, opt.Mode)
	setOwner(q, opt.Owner)
	if opt.MakeParents {
		q.Set("parents", "1")
	}
	var info FileInfo
	err := c.upload(ctx, PathFile, q, r, &info)
	return info, err
}

// ReadFile streams a regular file, at most as far as it reaches when reading
// gets there. Reading gives io.EOF only when all of it has come; a FIFO, a
// device or a link is refused with fault.Invalid. The caller closes it.
func (c *Client) ReadFile(ctx context.Context, path string) (io.ReadCloser, error) {
	return c.ReadFileRange(ctx, path, 0, -1)
}

// ReadFileRange is ReadFile from an offset on, for length bytes or, with a
// negative length, to the end. Beyond the end there is nothing to read.
func (c *Client) ReadFileRange(ctx context.Context, path string, offset, length int64) (io.ReadCloser, error) {
	q := url.Values{"path": {path}, "offset": {strconv.FormatInt(offset, 10)}}
	if length >= 0 {
		q.Set("length", strconv.FormatInt(length, 10))
	}
	return c.download(ctx, PathFile, q)
}

// Stat says what is at path, links not followed.
func (c *Client) Stat(ctx context.Context, path string) (FileInfo, error) {
	var info FileInfo
	err := c.call(ctx, http.MethodGet, PathStat, url.Values{"path": {path}}, nil, &info)
	return info, err
}

// List gives the entries of a directory, sorted by name. A directory of more
// than MaxList entries is fault.Exhausted.
func (c *Client) List(ctx context.Context, path string) ([]FileInfo, error) {
	var list []FileInfo
	err := c.call(ctx, http.MethodGet, PathDir, url.Values{"path": {path}}, nil, &list)
	return list, err
}

// Remove removes a file, a link or an empty directory; with recursive a whole
// tree, links in it not followed.
func (c *Client) Remove(ctx context.Context, path string, recursive bool) error {
	q := url.Values{"path": {path}}
	if recursive {
		q.Set("recursive", "1")
	}
	return c.call(ctx, http.MethodDelete, PathFile, q, nil, nil)
}

// Rename moves what is at from to the path to, in place of a file or an empty
// directory there.
func (c *Client) Rename(ctx context.Context, from, to string) error {
	return c.call(ctx, http.MethodPost, PathRename, url.Values{"path": {from}, "to": {to}}, nil, nil)
}

// Chmod sets the permission bits of a regular file or a directory.
func (c *Client) Chmod(ctx context.Context, path string, mode fs.FileMode) error {
	q := url.Values{"path": {path}, "mode": {strconv.FormatUint(uint64(mode.Perm()), 8)}}
	return c.call(ctx, http.MethodPost, PathChmod, q, nil, nil)
}

// MakeDir makes a directory; mode zero is 0755. With parents it makes what is
// missing above, and a directory that is there already stays as it is; without,
// that is fault.Conflict.
func (c *Client) MakeDir(ctx context.Context, path string, mode fs.FileMode, owner string, parents bool) error {
	q := url.Values{"path": {path}}
	setMode(q, mode)
	setOwner(q, owner)
	if parents {
		q.Set("parents", "1")
	}
	return c.call(ctx, http.MethodPut, PathDir, q, nil, nil)
}

func setMode(q url.Values, mode fs.FileMode) {
	if mode != 0 {
		q.Set("mode", strconv.FormatUint(uint64(mode.Perm()), 8))
	}
}

func setOwner(q url.Values, owner string) {
	if owner != "" {
		q.Set("owner", owner)
	}
}

// upload streams r as a request's body and decodes the answer.
func (c *Client) upload(ctx context.Context, path string, q url.Values, r io.Reader, out any) error {
	if r == nil {
		r = bytes.NewReader(nil)
	}
	src := newSource(r)
	resp, err := c.roundTrip(ctx, http.MethodPut, path, q, src)
	failed := src.stop()
	if err != nil {
		if failed != nil && ctx.Err() == nil {
			return fault.Errorf(fault.Invalid, "read what is to be written: %w", failed)
		}
		return err
	}
	return decodeReply(resp, out)
}

// source is a caller's reader as a request body. HTTP/2 gives up a request
// only when its body has been read or closed, and a reader cannot be
// interrupted: so a goroutine reads it, which stops after the Read under way
// when the call is over. The reader's own failure is told apart from the link's.
type source struct {
	*io.PipeReader
	mu  sync.Mutex
	err error
}

func newSource(r io.Reader) *source {
	pr, pw := io.Pipe()
	s := &source{PipeReader: pr}
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := r.Read(buf)
			if n > 0 {
				if _, werr := pw.Write(buf[:n]); werr != nil {
					return // the call is over
				}
			}
			if err == nil {
				continue
			}
			if !errors.Is(err, io.EOF) {
				s.mu.Lock()
				s.err = err
				s.mu.Unlock()
			}
			_ = pw.CloseWithError(err)
			return
		}
	}()
	return s
}

// stop ends the use of the reader and gives its failure, if it had one.
func (s *source) stop() error {
	_ = s.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// TrailerEnd is the trailer that ends every streamed answer: "ok", or a
// WireFault as base64 of JSON. Without it the stream was cut.
const TrailerEnd = "Assay-End"

// EndTrailer is the trailer's value for an outcome of a stream.
func EndTrailer(err error) string {
	if err == nil {
		return "ok"
	}
	b, _ := json.Marshal(ToWire(err)) // three strings
	return base64.StdEncoding.EncodeToString(b)
}

// maxEndTrailer bounds the trailer's length, in bytes.
const maxEndTrailer = 64 << 10

// parseEndTrailer is the reverse of EndTrailer.
func parseEndTrailer(v string) error {
	if v == "ok" {
		return nil
	}
	if v == "" || len(v) > maxEndTrailer {
		return fault.Errorf(fault.Unavailable, "guestd's answer was cut")
	}
	b, err := base64.StdEncoding.DecodeString(v)
	if err != nil {
		return fault.Errorf(fault.Internal, "decode the end of guestd's answer: %w", err)
	}
	var w WireFault
	if err := json.Unmarshal(b, &w); err != nil {
		return fault.Errorf(fault.Internal, "decode the end of guestd's answer: %w", err)
	}
	return w.Fault()
}

// download opens a streamed answer.
func (c *Client) download(ctx context.Context, path string, q url.Values) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	resp, err := c.roundTrip(ctx, http.MethodGet, path, q, nil)
	if err == nil && resp.StatusCode/100 != 2 {
		err = decodeReply(resp, nil)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return &download{resp: resp, cancel: cancel, broken: func(err error) error {
		return c.broken(ctx, http.MethodGet, path, err)
	}}, nil
}

// download is a streamed answer whose end is checked.
type download struct {
	resp   *http.Response
	cancel context.CancelFunc
	broken func(error) error
}

func (d *download) Read(p []byte) (int, error) {
	n, err := d.resp.Body.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		if end := parseEndTrailer(d.resp.Trailer.Get(TrailerEnd)); end != nil {
			err = end
		}
	default:
		err = d.broken(err)
	}
	return n, err
}

// Close ends the stream wherever it is.
func (d *download) Close() error {
	d.cancel()
	return d.resp.Body.Close()
}
