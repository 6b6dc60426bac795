package harness

import (
	"slices"
	"strconv"
	"strings"
)

// events are what the watching side of a run wrote to its own descriptor: the
// shell around the harness, and watch.py in each Python of it.
type events struct {
	// exit is the code of the harness, -1 when its shell did not see its end.
	exit int
	// left is how many processes were there after its end.
	left int
	// started and ended count Pythons; hung are those with threads without end.
	started, ended, hung int
	// touched are what code of the submission did to the harness: "read PATH",
	// "write PATH", "frame"; sorted, each once.
	touched []string
}

// parseEvents reads lines; what it does not know is passed over, for anybody
// inside may write there.
func parseEvents(text string) events {
	e := events{exit: -1}
	seen := map[string]string{}
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "exit":
			code, left, _ := strings.Cut(rest, " ")
			n, err := strconv.Atoi(code)
			m, err2 := strconv.Atoi(left)
			if err == nil && err2 == nil && n >= 0 && m >= 0 {
				e.exit, e.left = n, m
			}
		case "start":
			if seen[rest] == "" {
				e.started++
				seen[rest] = "start"
			}
		case "end":
			if seen[rest] == "start" {
				e.ended++
				seen[rest] = "end"
			}
		case "hung":
			e.hung++
		case "read", "write", "frame":
			e.touched = append(e.touched, strings.TrimSpace(word+" "+rest))
		}
	}
	slices.Sort(e.touched)
	e.touched = slices.Compact(e.touched)
	return e
}

// beyond are the touches of e that allowed does not have.
func (e events) beyond(allowed []string) []string {
	var out []string
	for _, t := range e.touched {
		if !slices.Contains(allowed, t) {
			out = append(out, t)
		}
	}
	return out
}
