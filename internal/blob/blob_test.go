package blob_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/blob"
	"assay/internal/blob/blobtest"
	"assay/internal/fault"
)

func closeLater(t *testing.T, s blob.Store) {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func openFolder(t *testing.T, path string) *blob.Folder {
	t.Helper()
	f, err := blob.OpenFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, f)
	return f
}

func fileOf(root, digest string) string {
	digits := strings.TrimPrefix(digest, "sha256:")
	return filepath.Join(root, digits[:2], digits)
}

func TestFolder(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blobtest.Opened {
		root := filepath.Join(t.TempDir(), "blobs")
		return blobtest.Opened{Store: openFolder(t, root), Spoil: func(digest string, other []byte) {
			path := fileOf(root, digest)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, other, 0o400); err != nil {
				t.Fatal(err)
			}
		}}
	})
}

func TestS3(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blobtest.Opened {
		server := blobtest.S3(t)
		s, err := blob.OpenS3(t.Context(), server.URL, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, s)
		return blobtest.Opened{Store: s, Spoil: func(digest string, other []byte) { server.Spoil(t, digest, other) }}
	})
}

// TestFewBytesNeedNoDisk has the folder for what waits be gone: what is small is
// kept all the same, and what is large says why not.
func TestFewBytesNeedNoDisk(t *testing.T) {
	t.Parallel()
	s, err := blob.OpenS3(t.Context(), blobtest.S3(t).URL, filepath.Join(t.TempDir(), "gone"))
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, s)
	if _, size, err := s.Put(t.Context(), strings.NewReader("few"), 10); err != nil || size != 3 {
		t.Errorf("few bytes: %d, %v", size, err)
	}
	many := bytes.NewReader(make([]byte, 3<<20))
	if _, _, err := s.Put(t.Context(), many, 4<<20); !fault.Is(err, fault.Unavailable) {
		t.Errorf("many bytes: %v", err)
	}
}

// TestCrashLeftoversAreSwept has a file that a killed process left, and then one
// that a living one is writing.
func TestCrashLeftoversAreSwept(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	temp := filepath.Join(root, "tmp")
	if err := os.MkdirAll(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(temp, "put-1"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := openFolder(t, root)
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("there are %v, %v; want nothing left", left, err)
	}
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, _, err := f.Put(t.Context(), r, 100)
		done <- err
	}()
	// The pipe gives the first half away when the file is there.
	if _, err := w.Write([]byte("one ")); err != nil {
		t.Fatal(err)
	}
	openFolder(t, root)
	if _, err := w.Write([]byte("whole")); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if err := <-done; err != nil {
		t.Errorf("another process opened the folder meanwhile: %v", err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("there are %v, %v; want nothing left", left, err)
	}
}

func TestPutMakesYoungAgain(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f := openFolder(t, root)
	digest, _, err := f.Put(t.Context(), strings.NewReader("x"), 1)
	if err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(fileOf(root, digest), long, long); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Put(t.Context(), strings.NewReader("x"), 1); err != nil {
		t.Fatal(err)
	}
	if info, err := f.Stat(t.Context(), digest); err != nil || time.Since(info.Modified) > blob.RefreshAfter {
		t.Errorf("it was modified %s, %v", info.Modified, err)
	}
}

func TestFolderThatIsGone(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "blobs")
	f := openFolder(t, root)
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	if err := f.Ping(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("ping: %v (%s)", err, fault.KindOf(err))
	}
	if _, _, err := f.Put(t.Context(), strings.NewReader("x"), 1); !fault.Is(err, fault.Unavailable) {
		t.Errorf("put: %v (%s)", err, fault.KindOf(err))
	}
	if err := os.WriteFile(root, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := blob.OpenFolder(root); !fault.Is(err, fault.Unavailable) {
		t.Errorf("open: %v (%s)", err, fault.KindOf(err))
	}
}

func TestS3ThatIsGone(t *testing.T) {
	t.Parallel()
	server := blobtest.S3(t)
	s, err := blob.OpenS3(t.Context(), server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, s)
	digest, _, err := s.Put(t.Context(), bytes.NewReader(make([]byte, 100)), 100)
	if err != nil {
		t.Fatal(err)
	}
	server.Stop()
	begin := time.Now()
	_, _, putErr := s.Put(t.Context(), strings.NewReader("x"), 1)
	_, openErr := s.Open(t.Context(), digest)
	_, listErr := s.List(t.Context(), "", 1)
	for what, err := range map[string]error{"put": putErr, "open": openErr, "list": listErr, "ping": s.Ping(t.Context()), "delete": s.Delete(t.Context(), digest)} {
		if !fault.Is(err, fault.Unavailable) || fault.HintOf(err) == "" {
			t.Errorf("%s: %v (%s)", what, err, fault.KindOf(err))
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: the secret is in %q", what, err)
		}
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it took %s to say so", took)
	}
}

func TestBadS3URLsShowNoSecret(t *testing.T) {
	// Set, so that the environment of whoever runs the tests does not count.
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY", "AWS_SECRET_KEY", "MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY"} {
		t.Setenv(name, "")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	server := blobtest.S3(t)
	for text, want := range map[string]fault.Kind{
		"": fault.Invalid, "http://k:hush@h/b": fault.Invalid, "s3://k:hush@h": fault.Invalid, "s3:///b": fault.Invalid, "s3://k:hush@h:port/b": fault.Invalid,
		"s3://k:hush%zz@h/b": fault.Invalid, "s3://k:hush@h/b?insecure=hush": fault.Invalid, "s3://k:hush@h/b?secret=hush": fault.Invalid,
		"s3://k@h/b": fault.Invalid, "s3://h/b": fault.Invalid, "s3://k:hush@h/b?%zz": fault.Invalid, "s3://k:hush@h/b/?insecure=1&region=x;hush": fault.Invalid,
		"s3://k:hush@" + l.Addr().String() + "/b?insecure=1":        fault.Unavailable,
		strings.Replace(server.URL, "/assay/some", "/none/some", 1): fault.Unavailable,
	} {
		_, err := blob.OpenS3(t.Context(), text, "")
		if !fault.Is(err, want) || fault.HintOf(err) == "" {
			t.Errorf("%s: %v (%s), want %s", text, err, fault.KindOf(err), want)
			continue
		}
		if strings.Contains(err.Error()+fault.HintOf(err), "hush") {
			t.Errorf("the secret is in %q", err)
		}
	}
}
