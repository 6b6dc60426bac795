package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"assay/internal/judge"
)

// labelMark says in a word whether a run did what its label says.
func labelMark(env *Env, r judge.Comparison) string {
	switch {
	case r.Verdict == judge.Skipped:
		return env.UI.Warn("skipped")
	case !r.Met:
		return env.UI.Bad("MISMATCH")
	case r.Expected == "anything":
		return "-"
	}
	return env.UI.Good("ok")
}

func secondsCell(us int64) string { return fmt.Sprintf("%.3f", float64(us)/1e6) }

func memoryCell(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) }

func scoreCell(s *judge.Score) string {
	if s == nil {
		return ""
	}
	return s.String()
}

func caseCell(number int) string {
	if number == 0 {
		return ""
	}
	return strconv.Itoa(number)
}

// runTable shows runs beside what was expected of them.
func runTable(env *Env, rows []judge.Comparison) {
	scored := slices.ContainsFunc(rows, func(r judge.Comparison) bool { return r.Score != nil })
	columns := []Column{Left("submission"), Left("language"), Left("verdict"), Left("expected"), Left("label"), Right("case"), Right("time s"), Right("memory MiB")}
	if scored {
		columns = append(columns, Right("score"))
	}
	columns = append(columns, Left("reason"))
	table := make([][]string, len(rows))
	for i, r := range rows {
		reason := oneLine(r.Reason)
		// What is not as expected may be another thing than what decided.
		if !r.Met && r.Verdict != judge.JudgeError && r.Verdict != judge.Skipped {
			reason = oneLine(r.Mismatch)
			if r.Reason != "" {
				reason += ": " + oneLine(r.Reason)
			}
		}
		table[i] = []string{
			oneLine(r.Submission), r.Language, string(r.Verdict), r.Expected, labelMark(env, r), caseCell(r.FailedCase),
			secondsCell(r.TimeUS), memoryCell(r.MemoryBytes),
		}
		if scored {
			table[i] = append(table[i], scoreCell(r.Score))
		}
		table[i] = append(table[i], reason)
	}
	env.UI.Table(columns, table)
}

// groupTable shows the test groups of each run.
func groupTable(env *Env, list []judged) {
	var table [][]string
	for _, l := range list {
		for _, g := range l.run.Groups {
			name := g.Name
			if name == "" {
				name = "(all)"
			}
			table = append(table, []string{oneLine(l.run.Submission.Name), oneLine(name), string(g.Verdict), scoreCell(g.Score), scoreCell(g.Max), oneLine(g.Reason)})
		}
	}
	if len(table) == 0 {
		env.UI.Notef("the problem has no test groups")
		return
	}
	env.UI.Printf("\n")
	env.UI.Table([]Column{Left("submission"), Left("group"), Left("verdict"), Right("score"), Right("at most"), Left("reason")}, table)
}

// transcripts show what was said in the cases that have a transcript.
func transcripts(env *Env, list []judged) {
	for _, l := range list {
		for _, c := range l.run.Cases {
			if c.Staff == nil || c.Staff.Transcript == "" {
				continue
			}
			env.UI.Printf("\n%s, case %d (%s): \"<\" from the interactor, \">\" from the program\n%s",
				oneLine(l.run.Submission.Name), c.Number, oneLine(c.Name), visible(c.Staff.Transcript))
			if v := c.Staff.TranscriptVerdict; v != "" {
				env.UI.Notef("that run was %s, the one that counts %s", v, c.Verdict)
			}
		}
	}
}

// visible makes text of strangers safe for a terminal: control characters but
// newline and tab are shown as a mark.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(strings.ReplaceAll(text, "\r\n", "\n"), "\uFFFD"))
}

// oneLine is visible text for a cell of a table.
func oneLine(text string) string { return strings.Join(strings.Fields(visible(text)), " ") }
