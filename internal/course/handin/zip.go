package handin

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"assay/internal/fault"
)

// The zip reader is our own because it must be stricter than one that wants to
// read whatever it can: all that a zip says twice must agree, each byte belongs
// to one entry at most, and nothing may stand before, between or behind that
// another reader would take for the archive.

// Sizes and signatures of the parts of a zip (APPNOTE 6.3.10, section 4.3).
const (
	sizeLocal     = 30
	sizeCentral   = 46
	sizeEnd       = 22
	sizeLocator   = 20
	sizeEnd64     = 56
	maxZipComment = math.MaxUint16
	// maxDirectory bounds the list of entries, which is held in memory.
	maxDirectory = 16 << 20

	signLocal   = "PK\x03\x04"
	signCentral = "PK\x01\x02"
	signEnd     = "PK\x05\x06"
	signEnd64   = "PK\x06\x06"
	signLocator = "PK\x06\x07"

	flagEncrypted  = 1 << 0
	flagDescriptor = 1 << 3 // sizes follow the data
	flagStrong     = 1 << 6
	flagMasked     = 1 << 13

	extraZip64   = 0x0001
	extraUnicode = 0x7075

	stored   = 0
	deflated = 8
)

var le = binary.LittleEndian

// zipEntry is a line of the directory of a zip.
type zipEntry struct {
	name          string
	flags, method uint16
	crc           uint32
	packed, size  int64
	header, data  int64 // offsets of the local header and of the packed bytes
	mode          uint32
	unix          bool
	// shown is the name in UTF-8, where name is of an old code page.
	shown string
}

// listZip reads the directory of a zip and checks it against the entries.
func listZip(r io.ReaderAt, size int64) ([]entry, error) {
	dir, count, begin, err := zipDirectory(r, size)
	if err != nil {
		return nil, err
	}
	list := make([]zipEntry, 0, count)
	for len(dir) > 0 {
		var e zipEntry
		if e, dir, err = centralEntry(dir); err != nil {
			return nil, err
		}
		if err := e.checkLocal(r, begin); err != nil {
			return nil, err
		}
		list = append(list, e)
		if len(list) > count {
			break
		}
	}
	if len(list) != count {
		return nil, broken("it announces %d entries and has another number of them", count)
	}
	byPlace := make([]*zipEntry, len(list))
	for i := range list {
		byPlace[i] = &list[i]
	}
	slices.SortFunc(byPlace, func(a, b *zipEntry) int { return cmp.Compare(a.header, b.header) })
	stop := int64(0) // of the entry before
	for i, e := range byPlace {
		if e.header < stop {
			return nil, broken("the entries %s and %s overlap", quote(byPlace[i-1].name), quote(e.name))
		}
		if err := checkGap(r, stop, e.header); err != nil {
			return nil, err
		}
		stop = e.data + e.packed
	}
	if err := checkGap(r, stop, begin); err != nil {
		return nil, err
	}
	entries := make([]entry, len(list))
	for i := range list {
		entries[i] = list[i].entry(r)
	}
	return entries, nil
}

// checkGap looks between entries, where a descriptor may stand, for an entry that
// the directory does not name: a reader that needs no directory would take it.
func checkGap(r io.ReaderAt, from, to int64) error {
	const descriptor = 24 // at most
	gap := make([]byte, min(to-from, descriptor+int64(len(signLocal))))
	if err := readAt(r, gap, from); err != nil {
		return err
	}
	if bytes.Contains(gap, []byte(signLocal)) {
		return broken("it has a file that its list does not name")
	}
	return nil
}

// broken refuses a zip that no honest program writes, or that was cut.
func broken(format string, args ...any) error {
	return fault.Errorf(fault.Invalid, "the zip is damaged or made to deceive: "+format, args...).WithHint("pack the files again with the zip program of your system")
}

// zipDirectory finds the list of entries, which must end where the end record
// begins.
func zipDirectory(r io.ReaderAt, size int64) (dir []byte, count int, begin int64, err error) {
	tail := make([]byte, min(size, sizeEnd+maxZipComment))
	if err := readAt(r, tail, size-int64(len(tail))); err != nil {
		return nil, 0, 0, err
	}
	at := -1
	for i := len(tail) - sizeEnd; i >= 0 && at < 0; i-- {
		if string(tail[i:i+4]) == signEnd && i+sizeEnd+int(le.Uint16(tail[i+20:])) == len(tail) {
			at = i
		}
	}
	if at < 0 {
		return nil, 0, 0, fault.Errorf(fault.Invalid, "the zip has no end").WithHint("it was not sent whole; send it again")
	}
	end := tail[at : at+sizeEnd]
	stop := size - int64(len(tail)) + int64(at)
	entries, length, offset := uint64(le.Uint16(end[10:])), uint64(le.Uint32(end[12:])), uint64(le.Uint32(end[16:]))
	if le.Uint16(end[4:]) != 0 || le.Uint16(end[6:]) != 0 || le.Uint16(end[8:]) != le.Uint16(end[10:]) {
		return nil, 0, 0, fault.Errorf(fault.Invalid, "the zip is one of several parts").WithHint("pack the files into one zip")
	}
	if at >= sizeLocator && string(tail[at-sizeLocator:at-sizeLocator+4]) == signLocator {
		if entries, length, offset, stop, err = end64(r, stop, entries, length, offset); err != nil {
			return nil, 0, 0, err
		}
	}
	switch {
	case entries > maxListed:
		return nil, 0, 0, tooMany()
	case length > maxDirectory:
		return nil, 0, 0, fault.Errorf(fault.Invalid, "the zip's list of files has more than %s", people(maxDirectory)).WithHint("pack only the files that the assignment asks for")
	case offset > uint64(stop) || uint64(stop)-offset != length:
		return nil, 0, 0, broken("its list of files does not end where its end record begins")
	}
	dir = make([]byte, length)
	if err := readAt(r, dir, int64(offset)); err != nil {
		return nil, 0, 0, err
	}
	return dir, int(entries), int64(offset), nil
}

// end64 reads the end record of a large zip; it must agree with the small one
// where that says anything. stop is where the small one begins.
func end64(r io.ReaderAt, stop int64, entries, length, offset uint64) (e, l, o uint64, begin int64, err error) {
	fail := func(format string, args ...any) (uint64, uint64, uint64, int64, error) {
		return 0, 0, 0, 0, broken(format, args...)
	}
	locator, record := make([]byte, sizeLocator), make([]byte, sizeEnd64)
	if err := readAt(r, locator, stop-sizeLocator); err != nil {
		return 0, 0, 0, 0, err
	}
	at := le.Uint64(locator[8:])
	if le.Uint32(locator[4:]) != 0 || le.Uint32(locator[16:]) != 1 || at > uint64(stop) {
		return fail("its zip64 locator leads nowhere")
	}
	if err := readAt(r, record, int64(at)); err != nil {
		return 0, 0, 0, 0, err
	}
	if string(record[:4]) != signEnd64 || le.Uint64(record[4:]) != uint64(stop-sizeLocator)-at-12 ||
		le.Uint32(record[16:]) != 0 || le.Uint32(record[20:]) != 0 || le.Uint64(record[24:]) != le.Uint64(record[32:]) {
		return fail("its zip64 end record is malformed")
	}
	e, l, o = le.Uint64(record[32:]), le.Uint64(record[40:]), le.Uint64(record[48:])
	if entries != math.MaxUint16 && entries != e || length != math.MaxUint32 && length != l || offset != math.MaxUint32 && offset != o {
		return fail("its two end records disagree")
	}
	return e, l, o, int64(at), nil
}

// centralEntry reads one line of the directory and gives the rest.
func centralEntry(dir []byte) (e zipEntry, rest []byte, err error) {
	if len(dir) < sizeCentral || string(dir[:4]) != signCentral {
		return e, nil, broken("its list of files is malformed")
	}
	name, extra, comment := int(le.Uint16(dir[28:])), int(le.Uint16(dir[30:])), int(le.Uint16(dir[32:]))
	total := sizeCentral + name + extra + comment
	if len(dir) < total {
		return e, nil, broken("its list of files is cut off")
	}
	e = zipEntry{
		name:  string(dir[sizeCentral : sizeCentral+name]),
		flags: le.Uint16(dir[8:]), method: le.Uint16(dir[10:]), crc: le.Uint32(dir[16:]),
		packed: int64(le.Uint32(dir[20:])), size: int64(le.Uint32(dir[24:])), header: int64(le.Uint32(dir[42:])),
		mode: le.Uint32(dir[38:]) >> 16,
	}
	const unixSystem, macSystem = 3, 19
	e.unix = dir[5] == unixSystem || dir[5] == macSystem
	if disk := le.Uint16(dir[34:]); disk != 0 && disk != math.MaxUint16 {
		return e, nil, broken("%s lies in another part", quote(e.name))
	}
	fields, err := extras(dir[sizeCentral+name : sizeCentral+name+extra])
	if err != nil {
		return e, nil, broken("%s: %w", quote(e.name), err)
	}
	large := fields[extraZip64]
	for _, v := range []*int64{&e.size, &e.packed, &e.header} {
		if *v != math.MaxUint32 {
			continue
		}
		if len(large) < 8 || le.Uint64(large) > math.MaxInt64 {
			return e, nil, broken("%s has no size that can be true", quote(e.name))
		}
		*v, large = int64(le.Uint64(large)), large[8:]
	}
	if err := e.otherName(fields[extraUnicode]); err != nil {
		return e, nil, err
	}
	return e, dir[total:], nil
}

// otherName takes the UTF-8 name that some programs add to one of an old code
// page. It may not differ from a name that is UTF-8 already.
func (e *zipEntry) otherName(field []byte) error {
	const head = 5
	if len(field) <= head || field[0] != 1 || le.Uint32(field[1:]) != crc32.ChecksumIEEE([]byte(e.name)) {
		return nil
	}
	other := string(field[head:])
	if utf8.ValidString(e.name) && other != e.name {
		return broken("one file is called both %s and %s", quote(e.name), quote(other))
	}
	e.shown = other
	return nil
}

// extras splits the additional fields of an entry.
func extras(b []byte) (map[uint16][]byte, error) {
	if len(b) == 0 {
		return nil, nil
	}
	fields := map[uint16][]byte{}
	for len(b) >= 4 {
		id, n := le.Uint16(b), int(le.Uint16(b[2:]))
		if n > len(b)-4 {
			return nil, errors.New("an additional field is cut off")
		}
		if _, twice := fields[id]; twice && id == extraZip64 {
			return nil, errors.New("its sizes are there twice")
		}
		fields[id], b = b[4:4+n], b[4+n:]
	}
	return fields, nil
}

// checkLocal compares the entry with what stands before its data, and finds the
// data. begin is where the directory begins.
func (e *zipEntry) checkLocal(r io.ReaderAt, begin int64) error {
	if e.header < 0 || e.header > begin-sizeLocal {
		return broken("%s lies outside of it", quote(e.name))
	}
	head := make([]byte, sizeLocal)
	if err := readAt(r, head, e.header); err != nil {
		return err
	}
	nameLen, extraLen := int(le.Uint16(head[26:])), int(le.Uint16(head[28:]))
	e.data = e.header + sizeLocal + int64(nameLen) + int64(extraLen)
	if string(head[:4]) != signLocal || e.data > begin || e.packed < 0 || e.packed > begin-e.data {
		return broken("%s lies outside of it", quote(e.name))
	}
	rest := make([]byte, nameLen+extraLen)
	if err := readAt(r, rest, e.header+sizeLocal); err != nil {
		return err
	}
	if name := string(rest[:nameLen]); name != e.name {
		return broken("one file is called both %s and %s", quote(e.name), quote(name))
	}
	const meaningful = flagEncrypted | flagDescriptor | flagStrong | flagMasked
	if le.Uint16(head[8:]) != e.method || (le.Uint16(head[6:])^e.flags)&meaningful != 0 {
		return broken("%s is packed in two ways at once", quote(e.name))
	}
	fields, err := extras(rest[nameLen:])
	if err != nil {
		return broken("%s: %w", quote(e.name), err)
	}
	crc, packed, size := le.Uint32(head[14:]), int64(le.Uint32(head[18:])), int64(le.Uint32(head[22:]))
	if large := fields[extraZip64]; size == math.MaxUint32 && packed == math.MaxUint32 && len(large) >= 16 {
		size, packed = int64(le.Uint64(large)), int64(le.Uint64(large[8:]))
	}
	unknown := e.flags&flagDescriptor != 0 // then zeros may stand for them
	if !(crc == e.crc && packed == e.packed && size == e.size) && !(unknown && (crc == 0 || crc == e.crc) && (packed == 0 || packed == e.packed) && (size == 0 || size == e.size)) {
		return broken("%s has two sizes", quote(e.name))
	}
	if !unknown {
		return nil
	}
	return e.checkDescriptor(r, begin)
}

// checkDescriptor compares the entry with what stands behind its data. Its
// signature may be left out, and sizes may have 4 or 8 bytes.
func (e *zipEntry) checkDescriptor(r io.ReaderAt, begin int64) error {
	const sign, rest = "PK\x07\x08", 12
	tail := make([]byte, max(0, min(len(sign)+rest, int(begin-e.data-e.packed))))
	if err := readAt(r, tail, e.data+e.packed); err != nil {
		return err
	}
	tail = bytes.TrimPrefix(tail, []byte(sign))
	if len(tail) < rest || le.Uint32(tail) != e.crc {
		return broken("%s has two checksums", quote(e.name))
	}
	return nil
}

// entry says what the archive's entry is.
func (e *zipEntry) entry(r io.ReaderAt) entry {
	const typeMask, regular, folder, link = 0o170000, 0o100000, 0o040000, 0o120000
	out := entry{name: cmp.Or(e.shown, e.name), size: e.size}
	kind := uint32(0)
	if e.unix {
		kind, out.executable = e.mode&typeMask, e.mode&0o111 != 0
	}
	switch {
	case e.flags&(flagEncrypted|flagStrong|flagMasked) != 0:
		out.refused, out.remedy = "encrypted", "pack the files without a password"
	case kind == link:
		out.refused = "a symbolic link"
		if e.size >= 0 && e.size <= MaxName {
			if target := make([]byte, e.size); e.read(r, target) == nil {
				out.refused += " to " + quote(string(target))
			}
		}
	case kind != 0 && kind != regular && kind != folder:
		out.refused = "a device, a pipe or a socket"
	case kind == folder || strings.HasSuffix(e.name, "/"):
		if out.folder = true; e.size != 0 || kind == regular {
			out.folder, out.refused = false, "both a file and a folder"
		}
	case e.method != stored && e.method != deflated:
		out.refused, out.remedy = "packed with a method that is not read", "pack the files with the zip program of your system"
	}
	out.read = func(buf []byte) error { return e.read(r, buf) }
	return out
}

// inflaters are used again: a fresh one for each of thousands of files would
// cost more memory than the files.
var inflaters = sync.Pool{New: func() any { return flate.NewReader(bytes.NewReader(nil)) }}

// read unpacks the entry into buf, which has its announced size.
func (e *zipEntry) read(r io.ReaderAt, buf []byte) error {
	packed := io.NewSectionReader(r, e.data, e.packed)
	if e.method == stored {
		if err := readFull(packed, buf); err != nil {
			return err
		}
	} else {
		z := inflaters.Get().(io.ReadCloser)
		defer inflaters.Put(z)
		if err := z.(flate.Resetter).Reset(packed, nil); err != nil {
			return err
		}
		if err := readFull(z, buf); err != nil {
			return err
		}
	}
	if crc32.ChecksumIEEE(buf) != e.crc {
		return errors.New("its checksum is wrong")
	}
	return nil
}

// readAt fills buf.
func readAt(r io.ReaderAt, buf []byte, at int64) error {
	if at < 0 {
		return broken("a part lies before its beginning")
	}
	if n, err := r.ReadAt(buf, at); n < len(buf) {
		if errors.Is(err, io.EOF) {
			return broken("a part lies behind its end")
		}
		return fault.Errorf(fault.Invalid, "the zip cannot be read: %w", err).WithHint("try again, or copy it to another place")
	}
	return nil
}
