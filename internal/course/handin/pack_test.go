package handin

import (
	"archive/tar"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
)

// item is an entry of a zip written by hand: whatever it says is written, true
// or not.
type item struct {
	name, data string
	local      string // name in the local header, if another
	flags      uint16
	localFlags uint16
	deflate    bool
	method     uint16 // of the directory, if not the one used
	mode       uint32 // with the type of the file
	// size and packed, if not 0, are announced in place of the true ones.
	size, packed uint32
	// localSize is announced before the data.
	localSize   uint32
	badCRC      bool
	lateCRC     uint32 // added to the one behind the data
	extra       []byte
	localExtra  []byte
	at          *uint32 // offset announced
	descriptor  bool
	dosSystem   bool
	centralSign string
	hidden      bool // the directory does not name it
}

// zipOf writes a zip; each tweak may change the whole of it.
func zipOf(items []item, tweaks ...func([]byte) []byte) []byte {
	var body, dir bytes.Buffer
	var named uint16
	put := func(b *bytes.Buffer, values ...any) {
		for _, v := range values {
			_ = binary.Write(b, binary.LittleEndian, v) // a buffer takes all
		}
	}
	squeeze, _ := flate.NewWriter(nil, flate.BestSpeed) // the level is right
	for _, it := range items {
		packed, method := []byte(it.data), uint16(stored)
		if it.deflate {
			var z bytes.Buffer
			squeeze.Reset(&z)
			_, _ = squeeze.Write(packed)
			_ = squeeze.Close()
			packed, method = z.Bytes(), deflated
		}
		if it.method != 0 {
			method = it.method
		}
		crc := crc32.ChecksumIEEE([]byte(it.data))
		if it.badCRC {
			crc++
		}
		size, packedSize := uint32(len(it.data)), uint32(len(packed))
		if it.size != 0 {
			size = it.size
		}
		if it.packed != 0 {
			packedSize = it.packed
		}
		local, offset := it.local, uint32(body.Len())
		if local == "" {
			local = it.name
		}
		localSize := size
		if it.localSize != 0 {
			localSize = it.localSize
		}
		flags := it.flags
		body.WriteString(signLocal)
		if it.descriptor {
			flags |= flagDescriptor
			put(&body, uint16(20), flags, method, uint32(0), uint32(0), uint32(0), uint32(0))
		} else {
			put(&body, uint16(20), flags|it.localFlags, method, uint32(0), crc, packedSize, localSize)
		}
		put(&body, uint16(len(local)), uint16(len(it.localExtra)))
		body.WriteString(local)
		body.Write(it.localExtra)
		body.Write(packed)
		if it.descriptor {
			body.WriteString("PK\x07\x08")
			put(&body, crc+it.lateCRC, packedSize, size)
		}
		if it.hidden {
			continue
		}
		named++
		if it.at != nil {
			offset = *it.at
		}
		system := byte(3)
		if it.dosSystem {
			system = 0
		}
		sign := it.centralSign
		if sign == "" {
			sign = signCentral
		}
		dir.WriteString(sign)
		put(&dir, byte(20), system, uint16(20), flags, method, uint32(0), crc, packedSize, size,
			uint16(len(it.name)), uint16(len(it.extra)), uint16(0), uint16(0), uint16(0), it.mode<<16, offset)
		dir.WriteString(it.name)
		dir.Write(it.extra)
	}
	at := uint32(body.Len())
	body.Write(dir.Bytes())
	body.WriteString(signEnd)
	put(&body, uint16(0), uint16(0), named, named, uint32(dir.Len()), at, uint16(0))
	out := body.Bytes()
	for _, tweak := range tweaks {
		out = tweak(out)
	}
	return out
}

// zip64Field says sizes and offset in 64 bits.
func zip64Field(values ...uint64) []byte {
	b := binary.LittleEndian.AppendUint16(nil, extraZip64)
	b = binary.LittleEndian.AppendUint16(b, uint16(8*len(values)))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

func unicodeField(name, other string) []byte {
	b := binary.LittleEndian.AppendUint16(nil, extraUnicode)
	b = binary.LittleEndian.AppendUint16(b, uint16(5+len(other)))
	b = append(b, 1)
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE([]byte(name)))
	return append(b, other...)
}

// tarOf writes a tar; an entry without a type is a file with its name as
// content.
func tarOf(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range headers {
		body := []byte(nil)
		if h.Typeflag == 0 || h.Typeflag == tar.TypeReg {
			h.Typeflag = tar.TypeReg
			body = []byte(h.Name)
			h.Size = int64(len(body))
		}
		if h.Mode == 0 && h.Typeflag != tar.TypeXGlobalHeader {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func gzipOf(t testing.TB, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// place writes a file and gives its name on this host.
func place(t testing.TB, name string, data []byte) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}
