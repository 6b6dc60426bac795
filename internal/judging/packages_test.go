package judging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"assay/internal/fault"
	"assay/internal/judge/problempkg"
)

// oneBlob gives the same package under every digest, after a look at the context.
type oneBlob struct {
	zip   []byte
	opens *atomic.Int32
}

func (oneBlob) Put(context.Context, io.Reader, int64) (string, int64, error) {
	return "", 0, fault.Errorf(fault.Unsupported, "it holds one blob")
}

func (b oneBlob) Open(ctx context.Context, _ string) (io.ReadCloser, error) {
	b.opens.Add(1)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(b.zip)), nil
}

func newPackages(t *testing.T) (*packages, *atomic.Int32) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "sum")
	var zip bytes.Buffer
	err := problempkg.New(dir, problempkg.PassFailTemplate, "")
	if err == nil {
		_, err = problempkg.Zip(dir, &zip)
	}
	if err != nil {
		t.Fatal(err)
	}
	var opens atomic.Int32
	p := &packages{blobs: oneBlob{zip.Bytes(), &opens}, dir: t.TempDir(), held: map[string]*held{}}
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	return p, &opens
}

// TestPackagesAreBounded: what nobody uses goes, from the memory and the disk,
// and what somebody uses stays.
func TestPackagesAreBounded(t *testing.T) {
	t.Parallel()
	p, opens := newPackages(t)
	used, err := p.open(t.Context(), "sha256:used")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * maxHeld {
		h, err := p.open(t.Context(), fmt.Sprintf("sha256:%d", i))
		if err != nil {
			t.Fatal(err)
		}
		h.release()
	}
	if len(p.held) != maxHeld || p.held["sha256:used"] != used {
		t.Errorf("%d packages are held, want %d with the one in use", len(p.held), maxHeld)
	}
	files, err := os.ReadDir(p.dir)
	if err != nil || len(files) != maxHeld {
		t.Errorf("%d files are there, want %d, %v", len(files), maxHeld, err)
	}
	before := opens.Load()
	again, err := p.open(t.Context(), "sha256:used")
	if err != nil || again != used || opens.Load() != before {
		t.Errorf("the one in use is read again: %v", err)
	}
	again.release()
	used.release()
}

// TestWhoGoesAwayFailsNobody: the first who asks reads for all who wait.
func TestWhoGoesAwayFailsNobody(t *testing.T) {
	t.Parallel()
	p, _ := newPackages(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	h, err := p.open(gone, "sha256:x")
	if err != nil {
		t.Fatalf("somebody else would get %v", err)
	}
	h.release()
}

// TestTidyBoundsWhatEarlierProcessesLeft: each start may leave packages that
// nobody asks for again.
func TestTidyBoundsWhatEarlierProcessesLeft(t *testing.T) {
	t.Parallel()
	p, _ := newPackages(t)
	for i := range maxHeld + 3 {
		path := p.path(fmt.Sprintf("sha256:%02d", i))
		at := time.Now().Add(time.Duration(i) * time.Minute)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.tidy(); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(p.dir)
	if err != nil || len(files) != maxHeld || files[0].Name() != filepath.Base(p.path("sha256:03")) {
		t.Errorf("%v are left, want the %d last ones, %v", files, maxHeld, err)
	}
}
