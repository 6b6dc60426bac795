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

// TestNSInitJumpsToItsWait: a first process that reaps an orphan must go on
// waiting, not jump into the middle of an instruction.
func TestNSInitJumpsToItsWait(t *testing.T) {
	t.Parallel()
	wait := bytes.Index(nsinitCode, []byte{0xb8, 0x3d, 0, 0, 0})
	for _, jump := range []struct {
		name   string
		before []byte // the comparison in front of it
		opcode byte
	}{
		{"je", []byte{0x83, 0xf8, 0xfc}, 0x74},
		{"jne", []byte{0x83, 0xf8, 0x02}, 0x75},
	} {
		at := bytes.Index(nsinitCode, append(jump.before, jump.opcode)) + len(jump.before)
		if got := at + 2 + int(int8(nsinitCode[at+1])); got != wait {
			t.Errorf("%s at %d jumps to %d, want %d", jump.name, at, got, wait)
		}
	}
}
