package qemu

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// A machine's memory is a private mapping of a template: what the guest only
// reads is shared by all machines of the template, what it writes is its own.
// The template is a file in memory that is sealed before any QEMU has it: QEMU
// opens it for writing, and the kernel refuses every write and every shared
// mapping. A snapshot is the template's content with the machine's own pages
// over it, so machines made from snapshots of machines made from snapshots are
// like any other.

const pageSize = 4096

// newTemplate makes a template of a machine that boots: so many empty bytes.
func newTemplate(size int64) (*os.File, error) {
	f, err := emptyTemplate(size)
	if err != nil {
		return nil, err
	}
	return f, seal(f)
}

func emptyTemplate(size int64) (*os.File, error) {
	fd, err := unix.MemfdCreate("assay-memory", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fault.Errorf(fault.Exhausted, "make a machine's memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "memory")
	if err := f.Truncate(size); err != nil {
		_ = f.Close()
		return nil, fault.Errorf(fault.Exhausted, "make a machine's memory: %w", err)
	}
	return f, nil
}

func seal(f *os.File) error {
	const all = unix.F_SEAL_SEAL | unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, all); err != nil {
		_ = f.Close()
		return fault.Errorf(fault.Internal, "seal a machine's memory: %w", err)
	}
	return nil
}

// loadTemplate makes a template of a snapshot's memory file, of so many bytes
// with such a digest.
func loadTemplate(ctx context.Context, path string, size int64, digest string) (_ *os.File, err error) {
	from, err := os.Open(path)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "open memory of a snapshot: %w", err)
	}
	defer from.Close()
	if info, err := from.Stat(); err != nil || info.Size() != size {
		return nil, fault.Errorf(fault.Invalid, "memory of the snapshot in %s does not have %d bytes", path, size).
			WithHint("remove the snapshot and take a new one")
	}
	f, err := emptyTemplate(size)
	if err != nil {
		return nil, err
	}
	got, err := copyExtents(ctx, f, from)
	if err == nil && got != digest {
		err = fault.Errorf(fault.Invalid, "memory of the snapshot in %s is not what was written: its digest is %s, not %s", path, got, digest).
			WithHint("remove the snapshot and take a new one")
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, seal(f)
}

// copyExtents copies what is not empty in a file to the same places in another
// and gives the digest of offsets and content.
func copyExtents(ctx context.Context, to, from *os.File) (string, error) {
	h := sha256.New()
	buf := make([]byte, 1<<20)
	err := extents(from, func(begin, end int64) error {
		for begin < end {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			n, err := from.ReadAt(buf[:min(int64(len(buf)), end-begin)], begin)
			if n == 0 && err != nil {
				return fmt.Errorf("read memory of a snapshot: %w", err)
			}
			// A file system may give whole blocks where only some pages were
			// written; the digest must be the same whatever it does.
			for at := 0; at < n; at += pageSize {
				page := buf[at:min(at+pageSize, n)]
				if isZero(page) {
					continue
				}
				digestPage(h, begin+int64(at), page)
				if _, err := to.WriteAt(page, begin+int64(at)); err != nil {
					return fault.Errorf(fault.Exhausted, "fill a machine's memory: %w", err)
				}
			}
			begin += int64(n)
		}
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

func digestPage(h io.Writer, at int64, page []byte) {
	var offset [8]byte
	binary.LittleEndian.PutUint64(offset[:], uint64(at))
	_, _ = h.Write(offset[:]) // a hash takes everything
	_, _ = h.Write(page)
}

var zeroPage [pageSize]byte

func isZero(page []byte) bool { return bytes.Equal(page, zeroPage[:len(page)]) }

// extents calls do for each stretch of a file that holds something.
func extents(f *os.File, do func(begin, end int64) error) error {
	for at := int64(0); ; {
		begin, err := f.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // nothing more
		}
		if err != nil {
			return fmt.Errorf("look for content: %w", err)
		}
		end, err := f.Seek(begin, unix.SEEK_HOLE)
		if err != nil {
			return fmt.Errorf("look for content: %w", err)
		}
		if err := do(begin, end); err != nil {
			return err
		}
		at = end
	}
}

// The bits of an entry of a process's page map.
const (
	pagePresent = 1 << 63
	pageSwapped = 1 << 62
	pageOfFile  = 1 << 61 // or of shared memory: the template's
)

// saveMemory writes the memory of a machine that stands still: its template's
// content, and over it the pages of QEMU's mapping that are its own. It gives
// the digest.
func saveMemory(ctx context.Context, path string, pid int, template *os.File) (digest string, err error) {
	info, err := template.Stat()
	if err != nil {
		return "", fmt.Errorf("read size of a machine's memory: %w", err)
	}
	to, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fault.Errorf(fault.Internal, "write memory of a snapshot: %w", err)
	}
	defer func() {
		if closeErr := to.Close(); err == nil {
			err = closeErr
		}
	}()
	if err := to.Truncate(info.Size()); err != nil {
		return "", fault.Errorf(fault.Internal, "write memory of a snapshot: %w", err)
	}
	own, err := openOwnPages(pid, info.Size())
	if err != nil {
		return "", err
	}
	defer own.close()
	shared := make([]bool, info.Size()/pageSize) // pages with content of the template
	if err := extents(template, func(begin, end int64) error {
		for p := begin / pageSize; p < (end+pageSize-1)/pageSize; p++ {
			shared[p] = true
		}
		return nil
	}); err != nil {
		return "", err
	}
	h := sha256.New()
	w := pageWriter{to: to}
	page := make([]byte, pageSize)
	for p := range shared {
		if p%4096 == 0 {
			if err := context.Cause(ctx); err != nil {
				return "", err
			}
		}
		at := int64(p) * pageSize
		switch {
		case own.has(p):
			err = own.read(p, page)
		case shared[p]:
			_, err = template.ReadAt(page, at)
		default:
			continue
		}
		if err != nil {
			return "", fault.Errorf(fault.Internal, "read a machine's memory: %w", err)
		}
		if isZero(page) {
			continue
		}
		digestPage(h, at, page)
		if err := w.put(at, page); err != nil {
			return "", fault.Errorf(fault.Internal, "write memory of a snapshot: %w", err)
		}
	}
	if err := w.flush(); err != nil {
		return "", fault.Errorf(fault.Internal, "write memory of a snapshot: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// pageWriter joins pages that follow each other to one write.
type pageWriter struct {
	to  *os.File
	at  int64
	buf []byte
}

func (w *pageWriter) put(at int64, page []byte) error {
	if at != w.at+int64(len(w.buf)) || len(w.buf) >= 1<<20 {
		if err := w.flush(); err != nil {
			return err
		}
		w.at = at
	}
	w.buf = append(w.buf, page...)
	return nil
}

func (w *pageWriter) flush() error {
	_, err := w.to.WriteAt(w.buf, w.at)
	w.buf = w.buf[:0]
	return err
}

// ownPages are the pages of a private mapping that are no longer the file's.
type ownPages struct {
	mem   *os.File
	start int64 // of the mapping, in the process
	bits  []byte
	// ahead holds pages that were read with the last one.
	ahead      []byte
	aheadFirst int
}

// openOwnPages finds the mapping of a template in a process.
func openOwnPages(pid int, size int64) (*ownPages, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, fault.Errorf(fault.Unavailable, "read QEMU's mappings: %w", err)
	}
	start := int64(0)
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var mode string
		if !strings.Contains(line, "/memfd:assay-memory") {
			continue
		}
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); n == 3 && to-from == size && strings.HasSuffix(mode, "p") {
			start = from
		}
	}
	if start == 0 {
		return nil, fault.Errorf(fault.Internal, "QEMU has not mapped the machine's memory as one piece")
	}
	pagemap, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		return nil, fault.Errorf(fault.Unavailable, "read QEMU's page map: %w", err)
	}
	defer pagemap.Close()
	bits := make([]byte, size/pageSize*8)
	if _, err := pagemap.ReadAt(bits, start/pageSize*8); err != nil {
		return nil, fault.Errorf(fault.Unavailable, "read QEMU's page map: %w", err)
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return nil, fault.Errorf(fault.Unavailable, "read QEMU's memory: %w", err)
	}
	return &ownPages{mem: mem, start: start, bits: bits}, nil
}

func (o *ownPages) has(p int) bool {
	b := binary.LittleEndian.Uint64(o.bits[p*8:])
	return b&pageSwapped != 0 || b&pagePresent != 0 && b&pageOfFile == 0
}

// aheadMost is how many pages are read at once: one call for each costs more
// than the copying.
const aheadMost = 256

// read reads an own page. Pages are asked for in order.
func (o *ownPages) read(p int, page []byte) error {
	if at := (p - o.aheadFirst) * pageSize; p < o.aheadFirst || at >= len(o.ahead) {
		n := 1
		for n < aheadMost && (p+n)*8 < len(o.bits) && o.has(p+n) {
			n++
		}
		if cap(o.ahead) < aheadMost*pageSize {
			o.ahead = make([]byte, aheadMost*pageSize)
		}
		o.ahead, o.aheadFirst = o.ahead[:n*pageSize], p
		if _, err := o.mem.ReadAt(o.ahead, o.start+int64(p)*pageSize); err != nil {
			o.ahead = o.ahead[:0]
			return err
		}
	}
	copy(page, o.ahead[(p-o.aheadFirst)*pageSize:])
	return nil
}

func (o *ownPages) close() { _ = o.mem.Close() }
