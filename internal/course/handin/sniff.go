package handin

import (
	"bytes"
	"io"
	"strconv"
	"strings"
)

// content is what a file is, by its first bytes.
type content byte

const (
	plain content = iota
	zipped
	tarred
	gzipped
	bzipped
	// foreign is an archive that is not read.
	foreign
)

// archive reports whether the content holds other files.
func (c content) archive() bool { return c != plain }

// sniff looks at the first block of a file.
func sniff(r io.ReaderAt, size int64) content {
	block := make([]byte, min(tarBlock, size))
	n, _ := r.ReadAt(block, 0) // what cannot be read is read again, with an error
	return sniffBlock(block[:n])
}

const tarBlock = 512

func sniffBlock(block []byte) content {
	starts := func(magic string) bool { return bytes.HasPrefix(block, []byte(magic)) }
	switch {
	case starts("PK\x03\x04"), starts("PK\x05\x06"), starts("PK\x07\x08"):
		return zipped
	case starts("\x1f\x8b"):
		return gzipped
	case starts("BZh") && len(block) > 10 && string(block[4:10]) == "1AY&SY":
		return bzipped
	case starts("7z\xbc\xaf\x27\x1c"), starts("Rar!\x1a\x07"), starts("\xfd7zXZ\x00"), starts("\x28\xb5\x2f\xfd"):
		return foreign
	case isTar(block):
		return tarred
	}
	return plain
}

// isTar checks the sum in a tar's first header; old tars have no magic.
func isTar(block []byte) bool {
	if len(block) < tarBlock || block[0] == 0 {
		return false
	}
	const from, to = 148, 156
	want, err := strconv.ParseInt(strings.Trim(string(block[from:to]), " \x00"), 8, 64)
	if err != nil {
		return false
	}
	var sum int64
	for i, b := range block[:tarBlock] {
		if i >= from && i < to {
			b = ' '
		}
		sum += int64(b)
	}
	return sum == want
}
