package checker

import "strconv"

// Sizes of an excerpt, in bytes before and after the first difference.
const (
	windowBefore = 16
	windowAfter  = 32
)

// window keeps a few bytes around the place where a word begins to differ.
type window struct {
	before  [windowBefore]byte
	n       int // bytes before the mark, in all
	after   []byte
	marked  bool
	dropped bool
}

// mark says that what is added from now on comes after the difference.
func (w *window) mark() { w.marked = true }

func (w *window) add(b byte) {
	switch {
	case !w.marked:
		w.before[w.n%windowBefore] = b
		w.n++
	case len(w.after) < windowAfter:
		w.after = append(w.after, b)
	default:
		w.dropped = true
	}
}

// full reports whether another byte would not be kept any more.
func (w *window) full() bool { return w.dropped }

// String quotes what was kept; dots stand for what was not.
func (w *window) String() string {
	var text []byte
	if w.n > windowBefore {
		start := w.n % windowBefore
		text = append(append(text, w.before[start:]...), w.before[:start]...)
	} else {
		text = append(text, w.before[:w.n]...)
	}
	text = append(text, w.after...)
	quoted := quote(text)
	if w.n > windowBefore {
		quoted = "…" + quoted
	}
	if w.dropped {
		quoted += "…"
	}
	return quoted
}

// quote writes bytes so that each can be told from every other: what does not
// print in ASCII is \xNN, but for the usual short names of white space.
func quote(b []byte) string {
	const hex = "0123456789abcdef"
	out := make([]byte, 0, len(b)+2)
	out = append(out, '"')
	for _, c := range b {
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case isSpace(c) && c != ' ':
			q := strconv.QuoteRune(rune(c))
			out = append(out, q[1:len(q)-1]...)
		case c >= 0x20 && c < 0x7f:
			out = append(out, c)
		default:
			out = append(out, '\\', 'x', hex[c>>4], hex[c&15])
		}
	}
	return string(append(out, '"'))
}
