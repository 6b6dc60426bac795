package problempkg

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"time"

	"assay/internal/fault"
)

// iniName is the file that DOMjudge adds to packages.
const iniName = "domjudge-problem.ini"

// sideFiles is what .timelimit and domjudge-problem.ini say. Zero is not given.
type sideFiles struct {
	dotTimeLimit, iniTimeLimit time.Duration
	shortName, name            string
	// special are the programs that the ini names, which may lie in the package.
	special     []iniLine
	compareArgs []string
}

func readSideFiles(t *tree) (sideFiles, error) {
	var s sideFiles
	if t.files[".timelimit"] != nil {
		data, err := t.text(".timelimit", maxTextFile)
		if err != nil {
			return s, err
		}
		if s.dotTimeLimit, err = parseSeconds(strings.TrimSpace(string(data))); err != nil {
			return s, at(".timelimit", 1, err)
		}
	}
	const ini = iniName
	if t.files[ini] == nil {
		return s, nil
	}
	data, err := t.text(ini, maxTextFile)
	if err != nil {
		return s, err
	}
	lines, err := parseINI(data)
	if err != nil {
		return s, err
	}
	for _, l := range lines {
		switch l.key {
		case "timelimit":
			if s.iniTimeLimit, err = parseSeconds(l.value); err != nil {
				return s, at(ini, l.line, err)
			}
		case "short-name", "externalid":
			if l.key == "short-name" && entryName.MatchString(l.value) {
				s.shortName = l.value
			}
		case "special_run", "special_compare":
			if l.value != "" {
				s.special = append(s.special, l)
			}
		case "special_compare_args":
			s.compareArgs = strings.Fields(l.value)
		case "name":
			s.name = strings.ToValidUTF8(l.value, "\uFFFD")
		case "color", "points", "allow_submit", "allow_judge", "probid", "cid":
		default:
			t.warn("%s:%d: key %q is not known and is ignored", ini, l.line, clip(l.key))
		}
	}
	return s, nil
}

var plainDecimal = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{0,9})?$`)

// parseSeconds reads a plain decimal number of seconds.
func parseSeconds(text string) (time.Duration, error) {
	if !plainDecimal.MatchString(text) {
		return 0, fault.Errorf(fault.Invalid, "time limit %q is not a number of seconds", clip(text)).
			WithHint("write it like 2 or 1.5")
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v < 0.001 || v > maxSeconds {
		return 0, fault.Errorf(fault.Invalid, "time limit %s must be from 0.001 to %d seconds", clip(text), maxSeconds)
	}
	return time.Duration(v * float64(time.Second)).Round(time.Microsecond), nil
}

type iniLine struct {
	line       int
	key, value string
}

// parseINI reads key = value lines. Section headings and comments (; or #) are
// skipped; one pair of quotes around a value is taken off.
func parseINI(data []byte) ([]iniLine, error) {
	var lines []iniLine
	for i, raw := range bytes.Split(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), []byte("\n")) {
		text := strings.TrimSpace(string(raw))
		if text == "" || text[0] == ';' || text[0] == '#' || text[0] == '[' {
			continue
		}
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, spot(iniName, data, i+1, "expected key = value")
		}
		value = strings.TrimSpace(value)
		if n := len(value); n >= 2 && (value[0] == '\'' || value[0] == '"') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		lines = append(lines, iniLine{line: i + 1, key: strings.TrimSpace(key), value: strings.TrimSpace(value)})
	}
	return lines, nil
}
