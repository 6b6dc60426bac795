package problempkg

import (
	"strings"

	"assay/internal/judge"
)

// Caps on what one pattern may stand for.
const (
	maxBraces   = 1000
	maxGlobText = 1000
)

// glob is a pattern of submissions.yaml: "*" inside of one part of a path, and
// braces with alternatives. A pattern that matches a folder matches what is in
// it.
type glob struct {
	text     string
	patterns [][]string
}

func parseGlob(f field, text string) (glob, error) {
	g := glob{text: text}
	if len(text) > maxGlobText {
		return g, f.wrong("the pattern is longer than %d bytes", maxGlobText)
	}
	if strings.Contains(text, "**") {
		return g, f.wrong("** is not allowed in patterns").WithHint("write * for each folder")
	}
	list, ok := expandBraces(text)
	if !ok {
		return g, f.wrong("the pattern stands for more than %d others", maxBraces)
	}
	for _, p := range list {
		g.patterns = append(g.patterns, strings.Split(strings.TrimSuffix(p, "/"), "/"))
	}
	return g, nil
}

// expandBraces replaces a{b,c}d by abd and acd. Braces without a partner, and
// those that hold no comma, stand for themselves.
func expandBraces(text string) (list []string, ok bool) {
	todo := []string{text}
	for len(todo) > 0 {
		if len(todo)+len(list) > maxBraces {
			return nil, false
		}
		s := todo[0]
		todo = todo[1:]
		open, alternatives, end := firstBraces(s)
		if alternatives == nil {
			list = append(list, s)
			continue
		}
		if len(todo)+len(list)+len(alternatives) > maxBraces {
			return nil, false
		}
		more := make([]string, 0, len(alternatives)+len(todo))
		for _, a := range alternatives {
			more = append(more, s[:open]+a+s[end:])
		}
		todo = append(more, todo...)
	}
	return list, true
}

// firstBraces finds the first pair of braces that has an alternative or holds
// anything but another pair.
func firstBraces(s string) (open int, alternatives []string, end int) {
	for open = 0; open < len(s); open++ {
		if s[open] != '{' {
			continue
		}
		depth, from := 0, open+1
		var parts []string
		for i := open; i < len(s); i++ {
			switch {
			case s[i] == '{':
				depth++
			case s[i] == ',' && depth == 1:
				parts, from = append(parts, s[from:i]), i+1
			case s[i] == '}':
				if depth--; depth > 0 {
					continue
				}
				if parts == nil {
					i = len(s)
					continue
				}
				return open, append(parts, s[from:i]), i + 1
			}
		}
	}
	return 0, nil, 0
}

// matches reports whether the pattern matches a path or a folder it lies in.
func (g glob) matches(path string) bool {
	parts := strings.Split(path, "/")
	for _, p := range g.patterns {
		if len(p) > len(parts) {
			continue
		}
		all := true
		for i, pattern := range p {
			if !matchPart(pattern, parts[i]) {
				all = false
				break
			}
		}
		if all {
			return true
		}
	}
	return false
}

// exactly reports whether the pattern matches the whole path.
func (g glob) exactly(path string) bool {
	n := strings.Count(path, "/") + 1
	for _, p := range g.patterns {
		if len(p) == n && (glob{patterns: [][]string{p}}).matches(path) {
			return true
		}
	}
	return false
}

// matchPart matches one part of a path, in which * stands for any text.
func matchPart(pattern, s string) bool {
	star, from, p, i := -1, 0, 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from, p = p, i, p+1
		case p < len(pattern) && pattern[p] == s[i]:
			p, i = p+1, i+1
		case star >= 0:
			from++
			p, i = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// casePaths finds cases and groups by patterns.
type casePaths struct{ problem judge.Problem }

func newCasePaths(p judge.Problem) casePaths { return casePaths{p} }

// find gives the cases that a pattern selects, and the one group it names, or
// -1.
func (c casePaths) find(g glob) (cases []int, group int) {
	for i, k := range c.problem.Cases {
		if g.matches(k.Name) {
			cases = append(cases, i)
		}
	}
	group = -1
	for i, k := range c.problem.Groups {
		if k.Name == "" || !g.exactly(k.Name) {
			continue
		}
		if group >= 0 {
			return cases, -1
		}
		group = i
	}
	return cases, group
}

// ofGroup gives the cases of a group and of those in it.
func (c casePaths) ofGroup(group int) []int {
	var cases []int
	for i, k := range c.problem.Cases {
		for g := k.Group; g >= 0; g = c.problem.Groups[g].Parent {
			if g == group {
				cases = append(cases, i)
				break
			}
		}
	}
	return cases
}
