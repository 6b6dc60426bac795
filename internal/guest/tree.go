package guest

import (
	"context"
	"io"
	"net/url"
)

// PathTree is the path of the tree requests: GET reads, PUT writes.
const PathTree = "/v1/tree"

// Bounds of one tree, in either direction.
const (
	MaxTreeEntries = 200_000
	MaxTreeBytes   = 4 << 30 // content of regular files
	MaxTreeDepth   = 128     // directories in one another
)

// TreeInfo says what WriteTree wrote.
type TreeInfo struct {
	Entries int   `json:"entries"`
	Files   int   `json:"files"`
	Bytes   int64 `json:"bytes"`
}

// WriteTree unpacks a tar archive into a directory, which it makes, parents
// included, if it is not there. A file or link in the way is replaced, a
// directory is added to. Absolute names, "..", links that lead out of the tree,
// devices, FIFOs and anything under a symbolic link are fault.Invalid; what was
// unpacked before such an entry stays. Set-user-ID bits and owners in the
// archive are ignored: owner is OwnerUser (also if empty) or OwnerRoot.
func (c *Client) WriteTree(ctx context.Context, dir string, tar io.Reader, owner string) (TreeInfo, error) {
	q := url.Values{"path": {dir}}
	setOwner(q, owner)
	var info TreeInfo
	err := c.upload(ctx, PathTree, q, tar, &info)
	return info, err
}

// ReadTree streams a directory's content as a tar archive: directories, regular
// files, and links as links, in the order of their names; FIFOs, sockets and
// devices are left out. Reading gives io.EOF only when the archive is whole,
// fault.Exhausted beyond the bounds of a tree, and fault.Conflict when a file
// became shorter while it was read. The caller closes it.
func (c *Client) ReadTree(ctx context.Context, dir string) (io.ReadCloser, error) {
	return c.download(ctx, PathTree, url.Values{"path": {dir}})
}
