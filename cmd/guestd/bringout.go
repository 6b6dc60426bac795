package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"assay/internal/guest"
)

// bringOut reads the declared output files of a command that has ended. What
// lies there is the program's choice: a link, a FIFO or a device must neither
// be followed nor block us.
func bringOut(root string, spec guest.ExecSpec) []guest.OutputFile {
	var list []guest.OutputFile
	left := guest.MaxOutputs
	for _, name := range spec.Outputs {
		f := guest.OutputFile{Path: name}
		full := name
		if !path.IsAbs(full) {
			dir := spec.Dir
			if dir == "" {
				dir = userHome
			}
			full = path.Join(dir, full)
		}
		data, err := readRegular(root, full, left)
		if err != nil {
			f.Refused = err.Error()
		} else {
			left -= len(data)
			sum := sha256.Sum256(data)
			f.Data, f.SHA256 = data, hex.EncodeToString(sum[:])
		}
		list = append(list, f)
	}
	return list
}

// readRegular reads a regular file of at most limit bytes, and refuses a link
// in any part of its path.
func readRegular(root, name string, limit int) ([]byte, error) {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("its directory is gone: %w", err)
	}
	parts := strings.Split(strings.Trim(path.Clean(name), "/"), "/")
	for i, part := range parts {
		flags := unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
		if i < len(parts)-1 {
			flags |= unix.O_DIRECTORY | unix.O_PATH
		}
		next, err := unix.Openat(fd, part, flags, 0)
		_ = unix.Close(fd)
		if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
			return nil, errors.New("it is, or lies behind, a symbolic link")
		}
		if err != nil {
			return nil, err
		}
		fd = next
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	if info.Size() > int64(limit) {
		return nil, fmt.Errorf("it has %d bytes, more than the %d that may be brought out", info.Size(), limit)
	}
	return io.ReadAll(io.LimitReader(f, int64(limit)))
}
