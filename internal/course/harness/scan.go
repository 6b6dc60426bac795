package harness

import "strings"

// token is a word or a sign of a C or Java source, with where it lies. Strings
// and characters are one token; comments and preprocessor lines are none.
type token struct {
	text       string
	start, end int
}

// scan splits a source. It never fails: a source that does not compile may
// give any tokens.
func scan(src string, preprocessor bool) []token {
	var out []token
	lineBegins := true
	for i := 0; i < len(src); {
		c := src[i]
		switch {
		case c == '\n':
			lineBegins = true
			i++
			continue
		case c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v':
			i++
			continue
		case strings.HasPrefix(src[i:], "//"):
			i += until(src[i:], "\n", 0)
			continue
		case strings.HasPrefix(src[i:], "/*"):
			i += until(src[i:], "*/", 2)
			continue
		case c == '#' && lineBegins && preprocessor:
			for {
				n := until(src[i:], "\n", 0)
				line := strings.TrimRight(src[i:i+n], "\r")
				if i += n; !strings.HasSuffix(line, `\`) || i >= len(src) {
					break
				}
				i++
			}
			continue
		}
		lineBegins = false
		n := 1
		switch {
		case strings.HasPrefix(src[i:], `"""`):
			n = 3 + until(src[i+3:], `"""`, 3)
		case c == '"' || c == '\'':
			n = quotedLength(src[i:])
		case wordByte(c):
			for i+n < len(src) && wordByte(src[i+n]) {
				n++
			}
		}
		out = append(out, token{src[i : i+n], i, i + n})
		i += n
	}
	return out
}

// until is how far it is to the end of what stop ends, with so many bytes of
// stop.
func until(s, stop string, with int) int {
	if i := strings.Index(s, stop); i >= 0 {
		return i + with
	}
	return len(s)
}

func quotedLength(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		case '\n':
			return i
		}
	}
	return len(s)
}

func wordByte(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func isWord(t token) bool { return wordByte(t.text[0]) && !(t.text[0] >= '0' && t.text[0] <= '9') }

// depthChange is what a sign does to the nesting of brackets.
func depthChange(t token) int {
	switch t.text {
	case "(", "[", "{":
		return 1
	case ")", "]", "}":
		return -1
	}
	return 0
}

// cFunctions are the names of the functions that a C source defines and other
// files can call, in its order.
func cFunctions(src string) []string {
	var names []string
	tokens := scan(src, true)
	begin, depth := 0, 0
	for i, t := range tokens {
		depth = max(0, depth+depthChange(t))
		switch {
		case t.text == "{" && depth == 1:
			if name := definedIn(tokens[begin:i]); name != "" {
				names = append(names, name)
			}
		case (t.text == ";" || t.text == "}") && depth == 0:
			begin = i + 1
		}
	}
	return names
}

// definedIn finds the function whose head the tokens are, or gives "".
func definedIn(head []token) string {
	name := ""
	for i := 0; i < len(head); i++ {
		switch t := head[i]; {
		case t.text == "static" || t.text == "inline" || t.text == "typedef" || t.text == "=":
			return ""
		case t.text == "__attribute__" || t.text == "__declspec":
			i = closing(head, i+1)
		case t.text == "(":
			if name == "" && i > 0 && isWord(head[i-1]) {
				name = head[i-1].text
			}
			i = closing(head, i)
		}
	}
	return name
}

// closing is where the bracket at open closes, or the last token.
func closing(tokens []token, open int) int {
	depth := 0
	for i := open; i < len(tokens); i++ {
		if depth += depthChange(tokens[i]); depth <= 0 {
			return i
		}
	}
	return len(tokens) - 1
}
