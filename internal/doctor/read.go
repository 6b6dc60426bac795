package doctor

import (
	"io/fs"
	"strconv"
	"strings"
)

// read gives a file's content without the white space around it. ok is false
// when it cannot be read.
func (h *Host) read(path string) (text string, ok bool) {
	b, err := fs.ReadFile(h.FS, strings.TrimPrefix(path, "/"))
	if err != nil {
		return "", false
	}
	return strings.TrimSpace(string(b)), true
}

// readInt is read for a file that holds one whole number.
func (h *Host) readInt(path string) (n int64, ok bool) {
	text, ok := h.read(path)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// meminfo gives a line of /proc/meminfo in bytes.
func (h *Host) meminfo(name string) (bytes int64, ok bool) {
	text, ok := h.read("/proc/meminfo")
	if !ok {
		return 0, false
	}
	for line := range strings.Lines(text) {
		key, value, found := strings.Cut(line, ":")
		if !found || key != name {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		return kb << 10, err == nil
	}
	return 0, false
}

// size writes bytes for people.
func size(bytes int64) string {
	if bytes >= 1<<30 {
		return strconv.FormatFloat(float64(bytes)/(1<<30), 'f', 1, 64) + " GiB"
	}
	return strconv.FormatInt(bytes>>20, 10) + " MiB"
}
