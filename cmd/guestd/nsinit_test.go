package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"testing"
)

func TestNSInitIsAnExecutableThatSendsAWholeChildEnd(t *testing.T) {
	t.Parallel()
	f, err := elf.NewFile(bytes.NewReader(nsinitELF()))
	if err != nil {
		t.Fatal(err)
	}
	if f.Type != elf.ET_EXEC || f.Machine != elf.EM_X86_64 || len(f.Progs) != 1 {
		t.Errorf("got %v for %v with %d segments", f.Type, f.Machine, len(f.Progs))
	}
	want := binary.LittleEndian.AppendUint32([]byte{0xba}, uint32(binary.Size(childEnd{})))
	if !bytes.Contains(nsinitCode, want) {
		t.Errorf("it does not write the %d bytes of a childEnd", binary.Size(childEnd{}))
	}
}
