package handin

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// maxOverhead is what reading may hold besides the files, in bytes.
const maxOverhead = 32 << 20

// peak runs a function and gives by how much the heap grew at most meanwhile.
func peak(f func()) uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	start := m.HeapAlloc
	stop, done := make(chan struct{}), make(chan uint64)
	go func() {
		most := start
		var m runtime.MemStats
		for {
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
			select {
			case <-stop:
				done <- most - start
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	f()
	close(stop)
	return <-done
}

// largePackages writes what TestMemory reads.
func largePackages(t *testing.T) map[string]string {
	t.Helper()
	random := rand.NewChaCha8([32]byte{})
	block := make([]byte, MaxBytes/20)
	_, _ = random.Read(block)
	var tarred bytes.Buffer
	z, err := gzip.NewWriterLevel(&tarred, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	var items []item
	for i := range 20 {
		name := fmt.Sprint(i)
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(block)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(block); err != nil {
			t.Fatal(err)
		}
		items = append(items, item{name: name, data: string(block), deflate: true})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	small := make([]item, MaxEntries)
	for i := range small {
		small[i] = item{name: fmt.Sprint(i), data: string(block[i : i+2000]), deflate: true}
	}
	claims := make([]item, 3000)
	for i := range claims {
		claims[i] = item{name: fmt.Sprint(i), size: 30 << 10, deflate: true}
	}
	return map[string]string{
		"tar":   place(t, "a.tar.gz", tarred.Bytes()),
		"zip":   place(t, "a.zip", zipOf(items)),
		"small": place(t, "a.zip", zipOf(small)),
		"claim": place(t, "a.zip", zipOf(claims)),
		"many":  place(t, "a.zip", manyEmpty(60_000)),
	}
}

// TestMemory reads what is just allowed, and what is not, and looks at the
// heap, the open files and the folder for temporary files. It is not parallel.
func TestMemory(t *testing.T) {
	paths := largePackages(t)
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	tests := []struct {
		name  string
		bytes int64 // of the files, if they are taken
	}{
		{"tar", MaxBytes},
		{"zip", MaxBytes},
		{"small", MaxEntries * 2000},
		{"claim", 0},
		{"many", 0},
	}
	for _, tt := range tests {
		before := openFiles(t)
		var got int64
		most := peak(func() {
			s, err := Read(paths[tt.name], Options{})
			for _, f := range s.Files {
				got += int64(len(f.Data))
			}
			if (err == nil) != (tt.bytes > 0) {
				t.Errorf("%s: %v", tt.name, err)
			}
		})
		if got != tt.bytes {
			t.Errorf("%s: %d bytes, want %d", tt.name, got, tt.bytes)
		}
		if over := int64(most) - tt.bytes; over > maxOverhead {
			t.Errorf("%s: %d MiB of heap besides the files", tt.name, over>>20)
		}
		if after := openFiles(t); after != before {
			t.Errorf("%s: %d files are left open", tt.name, after-before)
		}
		t.Logf("%s: %d MiB of heap for %d MiB of files", tt.name, most>>20, tt.bytes>>20)
	}
	left, err := filepath.Glob(filepath.Join(temporary, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files %v, %v", left, err)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
