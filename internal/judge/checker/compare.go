package checker

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// Difference is the first place where an output is wrong. Lines, columns and
// tokens count from 1, columns in bytes; Offset counts bytes from 0.
type Difference struct {
	// Kind says what is wrong there.
	Kind DifferenceKind
	// Token is the number of the word, or of the word after the white space.
	Token int64
	// Line, Column and Offset are where it begins in the output; AnswerLine and
	// AnswerColumn in the answer.
	Line, Column, Offset     int64
	AnswerLine, AnswerColumn int64
	// Output and Answer are short excerpts, quoted: bytes that do not print are
	// written as \x00.
	Output, Answer string
}

// DifferenceKind says in what an output is wrong.
type DifferenceKind string

// The kinds of difference.
const (
	DifferentWord   DifferenceKind = "different word"
	DifferentNumber DifferenceKind = "number too far off"
	NotANumber      DifferenceKind = "not a number"
	DifferentSpace  DifferenceKind = "different white space"
	TooShort        DifferenceKind = "output ends too early"
	TooLong         DifferenceKind = "output goes on after the end"
	NoOutput        DifferenceKind = "no output"
)

// String is the message for staff.
func (d *Difference) String() string {
	where := fmt.Sprintf("word %d, line %d, column %d (byte %d)", d.Token, d.Line, d.Column, d.Offset)
	switch d.Kind {
	case NoOutput:
		return fmt.Sprintf("no output: want %s (answer line %d)", d.Answer, d.AnswerLine)
	case TooShort:
		return fmt.Sprintf("%s: %s: want %s (answer line %d)", where, d.Kind, d.Answer, d.AnswerLine)
	case TooLong:
		return fmt.Sprintf("%s: %s: got %s", where, d.Kind, d.Output)
	}
	return fmt.Sprintf("%s: %s: got %s, want %s (answer line %d)", where, d.Kind, d.Output, d.Answer, d.AnswerLine)
}

// Compare reads both streams and gives the first difference, or nil when the
// output is right. It reads no further than it must and holds a few kilobytes,
// whatever comes. Errors are those of the readers.
func Compare(answer, output io.Reader, o Options) (*Difference, error) {
	c := comparison{o: o, float: o.Abs != nil || o.Rel != nil, ans: newStream(answer), out: newStream(output)}
	diff := c.run()
	if err := errors.Join(c.ans.err, c.out.err); err != nil {
		return nil, err
	}
	return diff, nil
}

type comparison struct {
	o              Options
	float          bool
	ans, out       *stream
	ansNum, outNum number
	token          int64
}

func (c *comparison) run() *Difference {
	for c.token = 1; ; c.token++ {
		if c.o.SpaceSensitive {
			if d := c.space(); d != nil {
				return d
			}
		} else {
			c.ans.skipSpace()
			c.out.skipSpace()
		}
		_, wantMore := c.ans.peek()
		_, gotMore := c.out.peek()
		if c.ans.err != nil || c.out.err != nil || !wantMore && !gotMore {
			return nil
		}
		d := c.here()
		switch {
		case !gotMore:
			d.Kind = TooShort
			if c.token == 1 {
				d.Kind = NoOutput
			}
			d.Answer = c.ans.excerpt()
			return d
		case !wantMore:
			d.Kind = TooLong
			d.Output = c.out.excerpt()
			return d
		}
		if wrong := c.word(d); wrong {
			return d
		}
	}
}

// here begins a difference at the present place.
func (c *comparison) here() *Difference {
	return &Difference{Token: c.token, Line: c.out.line, Column: c.out.column, Offset: c.out.offset, AnswerLine: c.ans.line, AnswerColumn: c.ans.column}
}

// space compares a run of white space byte for byte.
func (c *comparison) space() *Difference {
	for {
		a, aok := c.ans.peek()
		b, bok := c.out.peek()
		aok, bok = aok && isSpace(a), bok && isSpace(b)
		if !aok && !bok {
			return nil
		}
		if aok != bok || a != b {
			d := c.here()
			d.Kind = DifferentSpace
			d.Answer, d.Output = c.ans.excerpt(), c.out.excerpt()
			return d
		}
		c.ans.next()
		c.out.next()
	}
}

// word compares one word of each stream, side by side, and completes d when
// they differ.
func (c *comparison) word(d *Difference) (wrong bool) {
	c.ansNum.reset()
	c.outNum.reset()
	var aw, ow window
	same := true
	for {
		a, aok := c.ans.peek()
		b, bok := c.out.peek()
		aok, bok = aok && !isSpace(a), bok && !isSpace(b)
		if !aok && !bok {
			break
		}
		if same && (aok != bok || !c.equal(a, b)) {
			same = false
			aw.mark()
			ow.mark()
		}
		if !same && !c.float && (!aok || aw.full()) && (!bok || ow.full()) {
			break
		}
		if aok {
			c.ans.next()
			aw.add(a)
			if c.float {
				c.ansNum.add(a)
			}
		}
		if bok {
			c.out.next()
			ow.add(b)
			if c.float {
				c.outNum.add(b)
			}
		}
	}
	if same {
		return false
	}
	d.Kind = DifferentWord
	if c.float {
		if want, ok := c.ansNum.value(); ok {
			got, ok := c.outNum.value()
			switch {
			case !ok:
				d.Kind = NotANumber
			case near(got, want, c.o):
				return false
			default:
				d.Kind = DifferentNumber
			}
		}
	}
	d.Answer, d.Output = aw.String(), ow.String()
	return true
}

func (c *comparison) equal(a, b byte) bool {
	return a == b || !c.o.CaseSensitive && lower(a) == lower(b)
}

// lower folds ASCII letters only: the comparison knows bytes, not characters.
func lower(b byte) byte {
	if b >= 'A' && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

func isSpace(b byte) bool {
	switch b {
	case ' ', '\n', '\r', '\t', '\v', '\f':
		return true
	}
	return false
}

// stream is a reader that knows where it is.
type stream struct {
	r                    *bufio.Reader
	line, column, offset int64
	b                    byte
	have, ended          bool
	err                  error
}

func newStream(r io.Reader) *stream {
	return &stream{r: bufio.NewReaderSize(r, 32<<10), line: 1, column: 1}
}

// peek gives the next byte without taking it; ok is false at the end, or after
// an error, which err then holds.
func (s *stream) peek() (b byte, ok bool) {
	if s.have {
		return s.b, true
	}
	if s.ended {
		return 0, false
	}
	b, err := s.r.ReadByte()
	if err != nil {
		s.ended = true
		if !errors.Is(err, io.EOF) {
			s.err = err
		}
		return 0, false
	}
	s.b, s.have = b, true
	return b, true
}

// next takes the byte that peek gave.
func (s *stream) next() {
	s.have = false
	s.offset++
	s.column++
	if s.b == '\n' {
		s.line++
		s.column = 1
	}
}

func (s *stream) skipSpace() {
	for b, ok := s.peek(); ok && isSpace(b); b, ok = s.peek() {
		s.next()
	}
}

// excerpt takes a few bytes from here on. The stream is not usable afterwards.
func (s *stream) excerpt() string {
	var w window
	w.mark()
	for !w.full() {
		b, ok := s.peek()
		if !ok {
			break
		}
		s.next()
		w.add(b)
	}
	return w.String()
}
