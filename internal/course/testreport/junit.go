package testreport

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"assay/internal/course"
)

// parseJUnit reads testsuites or testsuite elements, however nested. A test
// with more than one outcome has the worst of them.
func parseJUnit(data []byte) (Report, error) {
	d := xml.NewDecoder(bytes.NewReader(legalXML(data)))
	d.CharsetReader = func(charset string, r io.Reader) (io.Reader, error) {
		switch strings.ToLower(charset) {
		case "us-ascii", "ascii":
			return r, nil
		}
		return nil, fmt.Errorf("the encoding %q is not UTF-8", charset)
	}
	var (
		r     Report
		stack []string
		test  *Test
		text  strings.Builder
	)
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Report{}, err
		}
		switch tok := tok.(type) {
		case xml.Directive:
			return Report{}, errors.New("a document type or entity declaration is not allowed")
		case xml.StartElement:
			name := tok.Name.Local
			if len(stack) == 0 && name != "testsuites" && name != "testsuite" {
				return Report{}, fmt.Errorf("the root is %q, not testsuites or testsuite", clip(course.Clean(name), 40))
			}
			if len(stack) == maxDepth {
				return Report{}, errors.New("elements lie too deep in each other")
			}
			stack = append(stack, name)
			if err := junitStart(tok, stack, &test, &text); err != nil {
				return Report{}, err
			}
		case xml.CharData:
			if test != nil && outcomes[stack[len(stack)-1]] != "" && text.Len() < maxMessage {
				text.Write(tok)
			}
		case xml.EndElement:
			stack = stack[:len(stack)-1]
			if test == nil {
				continue
			}
			if outcomes[tok.Name.Local] != "" {
				test.Message = joined("\n", test.Message, strings.TrimSpace(text.String()))
				text.Reset()
			}
			if tok.Name.Local == "testcase" {
				if err := r.add(*test); err != nil {
					return Report{}, err
				}
				test = nil
			}
		}
	}
	return r, nil
}

// outcomes are the elements inside a testcase that say it did not pass.
var outcomes = map[string]course.Status{"failure": course.Failed, "error": course.Errored, "skipped": course.Skipped}

// severity orders outcomes: the worst counts.
var severity = map[course.Status]int{course.Passed: 0, course.Skipped: 1, course.Failed: 2, course.Errored: 3}

func junitStart(e xml.StartElement, stack []string, test **Test, text *strings.Builder) error {
	attr := func(name string) string {
		for _, a := range e.Attr {
			if a.Name.Local == name {
				return a.Value
			}
		}
		return ""
	}
	if e.Name.Local == "testcase" {
		if *test != nil {
			return errors.New("a testcase lies in a testcase")
		}
		took, err := strconv.ParseFloat(strings.ReplaceAll(attr("time"), ",", ""), 64)
		if err != nil {
			took = 0
		}
		*test = &Test{Name: joined(".", attr("classname"), attr("name")), Status: course.Passed, Time: seconds(took)}
		return nil
	}
	if *test == nil || stack[len(stack)-2] != "testcase" {
		return nil
	}
	if s := outcomes[e.Name.Local]; s != "" {
		if severity[s] > severity[(*test).Status] {
			(*test).Status = s
		}
		(*test).Message = joined("\n", (*test).Message, attr("message"))
		text.Reset()
	}
	return nil
}

var charRef = regexp.MustCompile(`&#(x[0-9A-Fa-f]{1,8}|[0-9]{1,10});`)

// legalXML replaces what XML does not allow, also when it is written as a
// reference, by U+FFFD: runners copy what a program printed.
func legalXML(data []byte) []byte {
	data = charRef.ReplaceAllFunc(data, func(ref []byte) []byte {
		text, base := string(ref[2:len(ref)-1]), 10
		if text[0] == 'x' {
			text, base = text[1:], 16
		}
		if n, err := strconv.ParseInt(text, base, 32); err == nil && legalChar(rune(n)) {
			return ref
		}
		return []byte("\uFFFD")
	})
	return bytes.Map(func(r rune) rune {
		if legalChar(r) {
			return r
		}
		return utf8.RuneError
	}, data)
}

func legalChar(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || r >= 0x20 && r <= 0xD7FF || r >= 0xE000 && r <= 0xFFFD || r >= 0x10000 && r <= 0x10FFFF
}
