package qemu

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// TestOwnPagesOverTemplate: what a snapshot holds is the template with the pages
// over it that a private mapping has written, also where those are empty again.
func TestOwnPagesOverTemplate(t *testing.T) {
	t.Parallel()
	const pages = 4096
	text := func(b byte) []byte { return bytes.Repeat([]byte{b}, pageSize) }
	base, err := emptyTemplate(pages * pageSize)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	want := make([]byte, pages*pageSize)
	for _, p := range []int{1, 2, 700, pages - 1} {
		if _, err := base.WriteAt(text('t'), int64(p)*pageSize); err != nil {
			t.Fatal(err)
		}
		copy(want[p*pageSize:], text('t'))
	}
	if err := seal(base); err != nil {
		t.Fatal(err)
	}
	own, err := unix.Mmap(int(base.Fd()), 0, pages*pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(own) }()
	for p, b := range map[int]byte{2: 'o', 3: 'o', 4: 'o', 700: 0, 2000: 'o', 3999: 'o'} {
		copy(own[p*pageSize:], text(b))
		copy(want[p*pageSize:], text(b))
	}
	_ = own[1*pageSize] // read only: it stays the template's
	path := filepath.Join(t.TempDir(), "memory")
	digest, err := saveMemory(t.Context(), path, os.Getpid(), base)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		for p := range pages {
			if at := p * pageSize; !bytes.Equal(got[at:at+pageSize], want[at:at+pageSize]) {
				t.Errorf("page %d begins with %q, want %q", p, got[at], want[at])
			}
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Blocks*512 > 64*pageSize {
		t.Errorf("%d bytes on the disk for 7 pages, %v", st.Blocks*512, err)
	}

	loaded, err := loadTemplate(t.Context(), path, pages*pageSize, digest)
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	again := make([]byte, len(want))
	if _, err := loaded.ReadAt(again, 0); err != nil || !bytes.Equal(again, want) {
		t.Errorf("a template of it differs, %v", err)
	}
	got[2000*pageSize] ^= 1
	if err := os.WriteFile(path, got, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = loadTemplate(t.Context(), path, pages*pageSize, digest)
	refused(t, err, fault.Invalid, "not what was written", "take a new one")
	_, err = loadTemplate(t.Context(), path, 2*pages*pageSize, digest)
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("a memory of another size: %v", err)
	}
}

// TestTemplateCannotBeWritten: not by who opens it for writing, as QEMU does, and
// not by a shared mapping.
func TestTemplateCannotBeWritten(t *testing.T) {
	t.Parallel()
	f, err := newTemplate(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("write: %v", err)
	}
	if err := f.Truncate(0); !errors.Is(err, unix.EPERM) {
		t.Errorf("truncate: %v", err)
	}
	if m, err := unix.Mmap(int(f.Fd()), 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		_ = unix.Munmap(m)
		t.Error("it can be mapped for others to see what is written")
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("seals can be changed: %v", err)
	}
}
