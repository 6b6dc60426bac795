package blob

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"assay/internal/fault"
)

// S3 keeps blobs as objects of one bucket, named by their digits after a prefix.
type S3 struct {
	client         *minio.Client
	bucket, prefix string
	// spool is where many bytes wait until their digest is known.
	spool string
	// transport is ours to close.
	transport *http.Transport
}

var _ Store = (*S3)(nil)

const (
	// s3Tries is how often one request is made: S3 asks for patience, and who
	// calls us does not have much.
	s3Tries   = 3
	s3Timeout = 20 * time.Second
)

// OpenS3 opens the store that a URL names:
// s3://KEY:SECRET@host:port/bucket/prefix?region=…&insecure=1. Without key and
// secret they are taken from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or
// MINIO_…); insecure is plain HTTP. The bucket must be there. Bytes that are
// being put wait in memory or, if they are many, in the folder spool ("" is the
// system's). No error has the secret in it.
func OpenS3(ctx context.Context, storeURL, spool string) (*S3, error) {
	s, options, host, err := parseS3(storeURL)
	if err != nil {
		return nil, err
	}
	s.spool = spool
	if s.transport, err = minio.DefaultTransport(options.Secure); err != nil {
		return nil, fault.Errorf(fault.Invalid, "the URL of blobs cannot be used: %w", err)
	}
	s.transport.ResponseHeaderTimeout = s3Timeout
	options.Transport = s.transport
	if s.client, err = minio.New(host, options); err != nil {
		return nil, fault.Errorf(fault.Invalid, "the URL of blobs cannot be used: %w", err).WithHint(s3Hint)
	}
	if err := s.Ping(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

const s3Hint = "a URL of blobs looks like s3://KEY:SECRET@host:port/bucket/prefix?region=REGION"

func parseS3(storeURL string) (*S3, *minio.Options, string, error) {
	bad := func(why string) (*S3, *minio.Options, string, error) {
		return nil, nil, "", fault.Errorf(fault.Invalid, "the URL of blobs cannot be used: %s", why).WithHint(s3Hint)
	}
	u, err := url.Parse(storeURL)
	// The error of url.Parse repeats the URL, and the secret with it.
	if err != nil || u.Scheme != "s3" || u.Host == "" {
		return bad("it is no address of S3")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return bad("what follows the question mark cannot be read")
	}
	options := &minio.Options{Secure: true, MaxRetries: s3Tries}
	for name := range query {
		switch v := query.Get(name); name {
		case "region":
			options.Region = v
		case "insecure":
			if v != "1" && v != "0" {
				return bad("insecure is 1 or 0")
			}
			options.Secure = v == "0"
		default:
			return bad("it may have region and insecure only")
		}
	}
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if bucket == "" {
		return bad("it names no bucket")
	}
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	key := u.User.Username()
	secret, _ := u.User.Password()
	switch {
	case key != "" && secret != "":
		options.Creds = credentials.NewStaticV4(key, secret, "")
	case key != "" || secret != "":
		return bad("key and secret go together")
	default:
		options.Creds = credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.EnvMinio{}})
		v, err := options.Creds.GetWithContext(&credentials.CredContext{})
		if err != nil || v.SignerType.IsAnonymous() {
			return bad("it has no key and secret, and neither has the environment")
		}
	}
	return &S3{bucket: bucket, prefix: prefix}, options, u.Host, nil
}

// Close ends the use of the store.
func (s *S3) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}

// Ping asks whether the bucket is there.
func (s *S3) Ping(ctx context.Context) error {
	there, err := s.client.BucketExists(ctx, s.bucket)
	if err == nil && !there {
		return fault.Errorf(fault.Unavailable, "there is no bucket %q for blobs", s.bucket).WithHint("make the bucket, or correct the URL of blobs")
	}
	return s.explain("look for the bucket of blobs", "", err)
}

// explain gives an error of S3 its kind. All that is not better known may go
// away.
func (s *S3) explain(doing, digest string, err error) error {
	if err == nil || fault.KindOf(err) != fault.Internal || errors.Is(err, context.Canceled) {
		return err
	}
	if e, ok := errors.AsType[minio.ErrorResponse](err); ok {
		switch {
		case digest != "" && (e.Code == minio.NoSuchKey || (e.StatusCode == http.StatusNotFound && e.Code != minio.NoSuchBucket)):
			return notFound(digest)
		case e.StatusCode == http.StatusInsufficientStorage, strings.HasSuffix(e.Code, "StorageFull"), strings.HasSuffix(e.Code, "QuotaExceeded"):
			return fault.Errorf(fault.Exhausted, "%s: S3 has no room: %w", doing, err).WithHint("make room in the bucket %s", s.bucket)
		case e.StatusCode == http.StatusForbidden, e.StatusCode == http.StatusUnauthorized:
			return fault.Errorf(fault.Unavailable, "%s: S3 refuses us: %w", doing, err).WithHint("are key and secret of the URL of blobs right, and may they use the bucket %s?", s.bucket)
		}
	}
	return fault.Errorf(fault.Unavailable, "%s: S3 cannot be used: %w", doing, err).WithHint("try again; is it running?")
}

// Put keeps what r gives.
func (s *S3) Put(ctx context.Context, r io.Reader, max int64) (string, int64, error) {
	temp := &waiting{dir: s.spool}
	defer func() { _ = temp.Close() }() // nothing was written that is still needed
	digits, size, err := receive(ctx, temp, r, max)
	if err != nil {
		return "", 0, err
	}
	digest := digestPrefix + digits
	info, err := s.Stat(ctx, digest)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return "", 0, err
	}
	if err == nil && info.Size == size && time.Since(info.Modified) < RefreshAfter {
		return digest, size, nil
	}
	body, err := temp.reader()
	if err != nil {
		return "", 0, explainDisk("keep a blob", err)
	}
	// An object appears when it is whole.
	_, err = s.client.PutObject(ctx, s.bucket, s.prefix+digits, body, size, minio.PutObjectOptions{
		ContentType: "application/octet-stream", NumThreads: 1,
		// S3 checks each part by this sum. Signed piece by piece over plain HTTP, an
		// empty blob would be a stream of unknown length, which S3 refuses.
		SendContentMd5: true, DisableContentSha256: true,
	})
	if err != nil {
		return "", 0, s.explain("keep a blob", "", err)
	}
	return digest, size, nil
}

// Open gives the bytes of a blob.
func (s *S3) Open(ctx context.Context, digest string) (io.ReadCloser, error) {
	digits, err := parseDigest(digest)
	if err != nil {
		return nil, err
	}
	body, _, _, err := minio.Core{Client: s.client}.GetObject(ctx, s.bucket, s.prefix+digits, minio.GetObjectOptions{})
	if err != nil {
		return nil, s.explain("read a blob", digest, err)
	}
	return newChecked(body, digest, func(err error) error { return s.explain("read a blob", "", err) }), nil
}

// Stat says how large a blob is.
func (s *S3) Stat(ctx context.Context, digest string) (Info, error) {
	digits, err := parseDigest(digest)
	if err != nil {
		return Info{}, err
	}
	o, err := s.client.StatObject(ctx, s.bucket, s.prefix+digits, minio.StatObjectOptions{})
	if err != nil {
		return Info{}, s.explain("look for a blob", digest, err)
	}
	return Info{digest, o.Size, o.LastModified}, nil
}

// List gives the blobs after a digest.
func (s *S3) List(ctx context.Context, after string, max int) ([]Info, error) {
	from, err := listFrom(after, max)
	if err != nil {
		return nil, err
	}
	options := minio.ListObjectsOptions{Prefix: s.prefix, Recursive: true, MaxKeys: min(max, 1000)}
	if from != "" {
		options.StartAfter = s.prefix + from
	}
	var all []Info
	for o := range s.client.ListObjectsIter(ctx, s.bucket, options) {
		if o.Err != nil {
			return nil, s.explain("list blobs", "", o.Err)
		}
		digits := strings.TrimPrefix(o.Key, s.prefix)
		if !isDigits(digits) {
			continue // not ours
		}
		if all = append(all, Info{digestPrefix + digits, o.Size, o.LastModified}); len(all) == max {
			break
		}
	}
	return all, nil
}

// Delete removes a blob.
func (s *S3) Delete(ctx context.Context, digest string) error {
	digits, err := parseDigest(digest)
	if err != nil {
		return err
	}
	err = s.explain("delete a blob", digest, s.client.RemoveObject(ctx, s.bucket, s.prefix+digits, minio.RemoveObjectOptions{}))
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
