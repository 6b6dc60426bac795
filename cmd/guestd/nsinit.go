package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// An isolated command is the second process of its PID namespace. The first
// must be there too: a program that is process 1 cannot be killed by its own
// abort(), and nobody would reap what it leaves. The first process is this
// program: it reaps until process 2 has ended, kills the rest, tells guestd how
// it ended, and stays until guestd has looked at the mount namespace's files.
//
// It is made here, byte by byte, because it is started for every test case:
// it has one page and needs no runtime, no loader and no allocation. A fork of
// guestd itself in its place took 6 ms, this takes less than one.

// nsinitFD is the descriptor on which it speaks with guestd.
const nsinitFD = 3

// nsinitCode is the program for x86-64. It sends a childEnd.
var nsinitCode = []byte{
	0x48, 0x81, 0xec, 0xa0, 0x00, 0x00, 0x00, // sub rsp, 160
	// wait:
	0xb8, 0x3d, 0x00, 0x00, 0x00, // mov eax, 61 (wait4)
	0x48, 0x83, 0xcf, 0xff, // or rdi, -1: any child
	0x48, 0x89, 0xe6, // mov rsi, rsp: status
	0x31, 0xd2, // xor edx, edx
	0x4c, 0x8d, 0x54, 0x24, 0x08, // lea r10, [rsp+8]: usage
	0x0f, 0x05, // syscall
	0x83, 0xf8, 0xfc, // cmp eax, -4 (EINTR)
	0x74, 0xe6, // je wait
	0x85, 0xc0, // test eax, eax
	0x78, 0x05, // js end: no child left
	0x83, 0xf8, 0x02, // cmp eax, 2
	0x75, 0xdd, // jne wait
	// end:
	0xb8, 0x3e, 0x00, 0x00, 0x00, // mov eax, 62 (kill)
	0x48, 0x83, 0xcf, 0xff, // or rdi, -1: all but us
	0xbe, 0x09, 0x00, 0x00, 0x00, // mov esi, 9 (SIGKILL)
	0x0f, 0x05, // syscall
	0xb8, 0x01, 0x00, 0x00, 0x00, // mov eax, 1 (write)
	0xbf, nsinitFD, 0x00, 0x00, 0x00, // mov edi, 3
	0x48, 0x89, 0xe6, // mov rsi, rsp
	0xba, 0x98, 0x00, 0x00, 0x00, // mov edx, 152
	0x0f, 0x05, // syscall
	0x31, 0xc0, // xor eax, eax (read)
	0xbf, nsinitFD, 0x00, 0x00, 0x00, // mov edi, 3
	0x48, 0x89, 0xe6, // mov rsi, rsp
	0xba, 0x01, 0x00, 0x00, 0x00, // mov edx, 1
	0x0f, 0x05, // syscall: until guestd closes its end
	0xb8, 0xe7, 0x00, 0x00, 0x00, // mov eax, 231 (exit_group)
	0x31, 0xff, // xor edi, edi
	0x0f, 0x05, // syscall
}

// nsinitELF is the program as an executable with one segment.
func nsinitELF() []byte {
	const (
		base   = 0x400000
		header = 64
		phdr   = 56
	)
	size := uint64(header + phdr + len(nsinitCode))
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) } // a buffer takes everything
	b.WriteString("\x7fELF\x02\x01\x01")                                // 64 bits, little endian
	b.Write(make([]byte, 9))
	put(struct {
		Type, Machine                                    uint16
		Version                                          uint32
		Entry, Phoff, Shoff                              uint64
		Flags                                            uint32
		Ehsize, Phentsize, Phnum, Shentsize, Shnum, Shst uint16
	}{Type: 2, Machine: 62, Version: 1, Entry: base + header + phdr, Phoff: header, Ehsize: header, Phentsize: phdr, Phnum: 1})
	put(struct {
		Type, Flags                                uint32
		Offset, Vaddr, Paddr, Filesz, Memsz, Align uint64
	}{Type: 1, Flags: 5, Vaddr: base, Paddr: base, Filesz: size, Memsz: size, Align: 0x1000})
	b.Write(nsinitCode)
	return b.Bytes()
}

// openNSInit gives the program as a file that has no name and can no longer be
// changed: a root command must not be able to put another in its place.
func openNSInit() (*os.File, error) {
	fd, err := unix.MemfdCreate("nsinit", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make first process of namespaces: %w", err)
	}
	f := os.NewFile(uintptr(fd), "nsinit")
	if _, err := f.Write(nsinitELF()); err != nil {
		return nil, fmt.Errorf("write first process of namespaces: %w", err)
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("seal first process of namespaces: %w", err)
	}
	return f, nil
}
