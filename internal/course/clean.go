package course

import (
	"strconv"
	"strings"
	"unicode"
)

// Clean makes text of a machine fit to be shown and stored: no NUL, no terminal
// escapes, no other control character but tab and line end, no characters that
// turn the direction of text around, no broken UTF-8. What it takes out becomes
// U+FFFD.
func Clean(s string) string {
	clean := true
	for _, r := range s {
		if unfit(r) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	return strings.Map(func(r rune) rune {
		if unfit(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ReplaceAll(s, "\r\n", "\n"))
}

func unfit(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r == unicode.ReplacementChar, unicode.IsControl(r):
		return true
	case r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069: // bidirectional overrides and isolates
		return true
	}
	return false
}

// quoted is a short, safe form of a name from a machine.
func quoted(s string) string {
	if len(s) > 80 {
		s = strings.ToValidUTF8(s[:80], "") + "…"
	}
	return strconv.Quote(Clean(s))
}
