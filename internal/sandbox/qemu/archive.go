package qemu

import (
	"bytes"
	"fmt"
)

// archive is a cpio archive in the form that Linux unpacks into its first
// filesystem ("newc").
type archive struct {
	b     bytes.Buffer
	inode int
}

// The kinds of entries, as in stat's mode.
const (
	modeDir    = 0o040000
	modeFile   = 0o100000
	modeDevice = 0o020000
)

// entry writes one entry. Times and owners are zero: the same content gives the
// same bytes.
func (a *archive) entry(name string, mode, major, minor int, content []byte) {
	a.inode++
	fmt.Fprintf(&a.b, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", a.inode, mode, 0, 0, 1, 0, len(content), 0, 0, major, minor, len(name)+1, 0)
	a.b.WriteString(name)
	a.b.WriteByte(0)
	a.pad()
	a.b.Write(content)
	a.pad()
}

func (a *archive) pad() {
	for a.b.Len()%4 != 0 {
		a.b.WriteByte(0)
	}
}

func (a *archive) dir(name string) { a.entry(name, modeDir|0o755, 0, 0, nil) }
func (a *archive) file(name string, mode int, content []byte) {
	a.entry(name, modeFile|mode, 0, 0, content)
}

// console makes the device that the first process has as its stdio.
func (a *archive) console(name string) { a.entry(name, modeDevice|0o600, 5, 1, nil) }

// end gives the whole archive.
func (a *archive) end() []byte {
	a.entry("TRAILER!!!", 0, 0, 0, nil)
	return a.b.Bytes()
}
