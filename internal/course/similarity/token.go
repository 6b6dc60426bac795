package similarity

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// token is one token without its text: kind tells what counts.
type token struct {
	kind uint64
	line int32 // from 1
}

// The kinds of what may be called or set otherwise without changing a program.
const (
	nameKind uint64 = iota + 1
	callKind        // a name before a parenthesis
	numberKind
	stringKind
)

// wordKind is the FNV-1a hash of a word: the same word has the same kind in any
// run, so that any run finds the same.
func wordKind(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h | 1<<63
}

// lexer walks over one file. It reads any bytes: what it does not understand is
// a token of its own.
type lexer struct {
	l      *language
	text   string
	at     int
	line   int32
	depth  int // of brackets
	tokens []token
	// fresh says that no token was seen on this line.
	fresh bool
}

// tokens reads at most most tokens.
func (l *language) tokens(text string, most int) []token {
	x := &lexer{l: l, text: text, line: 1, fresh: true, tokens: make([]token, 0, min(most, len(text)/3))}
	for x.at < len(x.text) && len(x.tokens) < most {
		x.next()
	}
	return x.tokens
}

func (x *lexer) emit(kind uint64, line int32) {
	x.tokens, x.fresh = append(x.tokens, token{kind, line}), false
}

// skip goes n bytes on and counts lines.
func (x *lexer) skip(n int) {
	n = min(n, len(x.text)-x.at)
	x.line += int32(strings.Count(x.text[x.at:x.at+n], "\n"))
	x.at += n
}

func (x *lexer) next() {
	rest := x.text[x.at:]
	switch c := rest[0]; {
	case c == '\n':
		x.skip(1)
		x.fresh = true
		return
	case c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v':
		x.at++
		return
	case x.comment(rest), x.imported(rest), x.quoted(rest), x.regexp(rest):
		return
	case c >= '0' && c <= '9' || c == '.' && len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9':
		x.number(rest)
		return
	}
	r, n := utf8.DecodeRuneInString(rest)
	if r == '_' || r == '$' || unicode.IsLetter(r) {
		x.word(rest)
		return
	}
	x.at += n
	switch r {
	case ';':
		return // ends a line anyway
	case '(', '[', '{':
		x.depth++
	case ')', ']', '}':
		x.depth = max(0, x.depth-1)
	}
	x.emit(uint64(r)<<8, x.line)
}

// lineEnd is the length of the rest of the line.
func lineEnd(rest string) int {
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		return i
	}
	return len(rest)
}

func (x *lexer) comment(rest string) bool {
	for _, b := range x.l.block {
		if strings.HasPrefix(rest, b[0]) {
			end := strings.Index(rest[len(b[0]):], b[1])
			if end < 0 {
				x.skip(len(rest))
			} else {
				x.skip(len(b[0]) + end + len(b[1]))
			}
			return true
		}
	}
	for _, mark := range x.l.line {
		if strings.HasPrefix(rest, mark) {
			x.skip(lineEnd(rest))
			return true
		}
	}
	return false
}

// imported leaves out a line that only says what is used.
func (x *lexer) imported(rest string) bool {
	if !x.fresh || x.depth > 0 {
		return false
	}
	for _, word := range x.l.imports {
		if strings.HasPrefix(rest, word) {
			x.skip(lineEnd(rest))
			return true
		}
	}
	return false
}

func (x *lexer) quoted(rest string) bool {
	n := 0
	for n < len(rest) && n < 3 && strings.IndexByte(x.l.prefixes, rest[n]) >= 0 {
		n++
	}
	for _, q := range x.l.quotes {
		if !strings.HasPrefix(rest[n:], q.mark) {
			continue
		}
		end := stringEnd(rest[n+len(q.mark):], q)
		if end < 0 {
			return false // an apostrophe
		}
		doc, line := x.l.docs && x.fresh && x.depth == 0, x.line
		x.skip(n + len(q.mark) + end)
		if !doc {
			x.emit(stringKind, line)
		}
		return true
	}
	return false
}

// stringEnd is the length up to behind the closing mark, or -1 if a string that
// may not go over lines is not closed on its own.
func stringEnd(rest string, q quote) int {
	for i := 0; i < len(rest); i++ {
		switch {
		case rest[i] == '\\':
			i++
		case rest[i] == '\n' && !q.long:
			return -1
		case strings.HasPrefix(rest[i:], q.mark):
			return i + len(q.mark)
		}
	}
	if q.long {
		return len(rest)
	}
	return -1
}

// regexp takes a slash for the beginning of a literal where no operator can be.
func (x *lexer) regexp(rest string) bool {
	if !x.l.regexps || rest[0] != '/' {
		return false
	}
	if n := len(x.tokens); n > 0 {
		switch last := x.tokens[n-1].kind; last {
		case nameKind, callKind, numberKind, stringKind, ')' << 8, ']' << 8, '}' << 8:
			return false
		}
	}
	end := stringEnd(rest[1:], quote{mark: "/"})
	if end < 0 {
		return false
	}
	line := x.line
	x.skip(1 + end)
	x.emit(stringKind, line)
	return true
}

func (x *lexer) number(rest string) {
	n := 1
	for n < len(rest) {
		c := rest[n]
		sign := (c == '+' || c == '-') && (rest[n-1]|0x20 == 'e') && !strings.HasPrefix(rest, "0x")
		if c != '.' && c != '_' && !sign && !(c >= '0' && c <= '9') && !(c|0x20 >= 'a' && c|0x20 <= 'z') {
			break
		}
		n++
	}
	x.at += n
	x.emit(numberKind, x.line)
}

func (x *lexer) word(rest string) {
	n := 0
	for n < len(rest) {
		r, size := utf8.DecodeRuneInString(rest[n:])
		if r != '_' && r != '$' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
			break
		}
		n += size
	}
	kind, called := nameKind, n < len(rest) && rest[n] == '('
	switch {
	case x.l.words[rest[:n]], called && x.l.library[rest[:n]] && !x.defines():
		kind = wordKind(rest[:n])
	case called:
		kind = callKind
	}
	x.at += n
	x.emit(kind, x.line)
}

// defines reports whether the last token says that a function's name follows:
// it is the writer's own, even if the library has the same.
func (x *lexer) defines() bool {
	if len(x.tokens) == 0 {
		return false
	}
	last := x.tokens[len(x.tokens)-1].kind
	return last == wordKind("def") || last == wordKind("function")
}
