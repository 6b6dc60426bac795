package class

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	xunicode "golang.org/x/text/encoding/unicode"

	"assay/internal/course"
	"assay/internal/fault"
)

// Bounds of a table.
const (
	MaxTableBytes   = 16 << 20
	maxTableRows    = 20_000
	maxTableColumns = 1_000
	maxTableCell    = 10_000
)

// sheet is a table of text as somebody's program wrote it: the first row names
// the columns.
type sheet struct {
	name   string
	comma  rune
	bom    bool
	header []string
	rows   []sheetRow
	// notes tell what had to be guessed.
	notes []string
}

type sheetRow struct {
	line  int
	cells []string
}

// cell gives a cell of a row that may be too short.
func (r sheetRow) cell(column int) string {
	if column < 0 || column >= len(r.cells) {
		return ""
	}
	return r.cells[column]
}

// readSheet reads CSV with any of the usual separators and encodings. name is
// for messages.
func readSheet(name string, data []byte) (sheet, error) {
	s := sheet{name: name}
	if len(data) > MaxTableBytes {
		return s, fault.Errorf(fault.Invalid, "%s has more than %d MiB", name, MaxTableBytes>>20)
	}
	text, err := s.decode(data)
	if err != nil {
		return s, err
	}
	if rest, ok := strings.CutPrefix(text, "sep="); ok && len(rest) > 1 {
		// Excel's own line about the separator, which the header shows anyway.
		_, text, _ = strings.Cut(text, "\n")
	}
	s.comma = separator(text)
	r := csv.NewReader(strings.NewReader(text))
	r.Comma, r.FieldsPerRecord = s.comma, -1
	for {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if pe, ok := errors.AsType[*csv.ParseError](err); ok {
				return s, fault.Errorf(fault.Invalid, "%s: line %d: %w", name, pe.Line, pe.Err).
					WithHint("a quotation mark inside a quoted cell is written twice; save the table as CSV again")
			}
			return s, fault.Errorf(fault.Invalid, "%s: %w", name, err)
		}
		line, _ := r.FieldPos(0)
		if err := s.add(line, cells); err != nil {
			return s, err
		}
	}
	if s.header == nil {
		return s, fault.Errorf(fault.Invalid, "%s is empty", name)
	}
	return s, nil
}

func (s *sheet) add(line int, cells []string) error {
	empty := true
	for _, c := range cells {
		if len(c) > maxTableCell {
			return fault.Errorf(fault.Invalid, "%s: line %d: a cell has more than %d bytes", s.name, line, maxTableCell)
		}
		empty = empty && strings.TrimSpace(c) == ""
	}
	switch {
	case empty:
	case len(cells) > maxTableColumns:
		return fault.Errorf(fault.Invalid, "%s: line %d: more than %d columns", s.name, line, maxTableColumns)
	case s.header == nil:
		s.header = cells
	case len(s.rows) == maxTableRows:
		return fault.Errorf(fault.Invalid, "%s has more than %d rows", s.name, maxTableRows)
	default:
		s.rows = append(s.rows, sheetRow{line, cells})
	}
	return nil
}

// decode makes UTF-8 with line ends of one kind.
func (s *sheet) decode(data []byte) (string, error) {
	utf16 := func(order xunicode.Endianness) error {
		var err error
		data, err = xunicode.UTF16(order, xunicode.UseBOM).NewDecoder().Bytes(data)
		return err
	}
	var err error
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		s.bom = true
		data = data[3:]
	case bytes.HasPrefix(data, []byte("\xff\xfe")):
		err = utf16(xunicode.LittleEndian)
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		err = utf16(xunicode.BigEndian)
	}
	if err == nil && !utf8.Valid(data) {
		// What is not defined there becomes U+FFFD.
		data, err = charmap.Windows1252.NewDecoder().Bytes(data)
		s.notes = append(s.notes, s.name+" is not UTF-8 and was read as Latin-1 (Windows-1252): look at letters with accents")
	}
	if err != nil {
		return "", fault.Errorf(fault.Invalid, "%s: %w", s.name, err)
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return "", fault.Errorf(fault.Invalid, "%s is not a text file", s.name).WithHint("save the table as CSV")
	}
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	if !strings.Contains(text, "\n") {
		text = strings.ReplaceAll(text, "\r", "\n")
	}
	return text, nil
}

// separator is the one that the first line with something in it has most of.
func separator(text string) rune {
	line := ""
	for l := range strings.Lines(text) {
		if strings.TrimSpace(l) != "" {
			line = l
			break
		}
	}
	counts := map[rune]int{}
	quoted := false
	for _, r := range line {
		if r == '"' {
			quoted = !quoted
		} else if !quoted {
			counts[r]++
		}
	}
	best := ','
	for _, r := range ";\t" {
		if counts[r] > counts[best] {
			best = r
		}
	}
	return best
}

// plain makes of a cell what was meant: without blanks around it, without the
// form ="0042" that keeps a spreadsheet from counting, without the mark that
// Neutral puts in front, and fit to be shown in one line.
func plain(cell string) string {
	cell = strings.TrimFunc(cell, func(r rune) bool { return unicode.IsSpace(r) || r == '\u200b' || r == '\ufeff' })
	if inner, ok := strings.CutPrefix(cell, `="`); ok && strings.HasSuffix(inner, `"`) {
		cell = strings.TrimSuffix(inner, `"`)
	}
	if rest, ok := strings.CutPrefix(cell, "'"); ok && Neutral(rest) == cell {
		cell = rest
	}
	return strings.Join(strings.Fields(course.Clean(cell)), " ")
}

// Neutral makes of text a cell that no spreadsheet takes for a formula.
func Neutral(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

// bare is a column's name without case, blanks and signs.
func bare(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// troubles collects what is wrong with the lines of a table.
type troubles struct {
	name string
	list []string
}

func (t *troubles) add(text string) { t.list = append(t.list, text) }

// maxTroubles are told at once.
const maxTroubles = 10

// fault is nil if there is no trouble.
func (t *troubles) fault() error {
	n := len(t.list)
	if n == 0 {
		return nil
	}
	text := strings.Join(t.list[:min(n, maxTroubles)], "\n  ")
	err := fault.Errorf(fault.Invalid, "%s cannot be used:\n  %s", t.name, text)
	if n > maxTroubles {
		err = fault.Errorf(fault.Invalid, "%w\n  and %d more", err, n-maxTroubles)
	}
	return err.WithHint("nothing was changed; mend these lines and import again")
}
