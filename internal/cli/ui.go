package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"charm.land/lipgloss/v2"
	"golang.org/x/term"
)

// Rules of the terminal UI: results go to stdout, all else to stderr. Lines
// start with "assay: ", are in lower case and have no full stop. An error says
// what is wrong; a "hint:" line says what to do. Colour is used only on a
// terminal and is never the only sign.

// UI shows things to people. Its methods may be called concurrently.
type UI struct {
	out, err screen
	quiet    bool

	mu sync.Mutex
	// live is the progress that owns the last line of stderr, or nil.
	live *Progress
}

// screen is one of the two outputs and what it can do.
type screen struct {
	w io.Writer
	// terminal says that a person may be looking and lines can be redrawn.
	terminal bool
	color    bool
	// width is in columns; 0 is unlimited.
	width int
}

func newUI(env *Env, g globals) *UI {
	return &UI{
		out:   newScreen(env.Stdout, g.Color),
		err:   newScreen(env.Stderr, g.Color),
		quiet: g.Quiet || env.JSON,
	}
}

func newScreen(w io.Writer, color string) screen {
	s := screen{w: w}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.terminal = os.Getenv("TERM") != "dumb"
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			s.width = width
		}
	}
	switch color {
	case "always":
		s.color = true
	case "auto":
		s.color = s.terminal && os.Getenv("NO_COLOR") == ""
	}
	return s
}

// paint colours text when the screen shows colour.
func (s screen) paint(style lipgloss.Style, text string) string {
	if !s.color {
		return text
	}
	return style.Render(text)
}

var (
	styleGood  = lipgloss.NewStyle().Foreground(lipgloss.Green)
	styleWarn  = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	styleBad   = lipgloss.NewStyle().Foreground(lipgloss.Red).Bold(true)
	styleTitle = lipgloss.NewStyle().Bold(true)
	styleFaint = lipgloss.NewStyle().Faint(true)
)

// Notef tells something by the way, on stderr: "assay: …". Quiet and JSON
// leave it out.
func (u *UI) Notef(format string, args ...any) {
	if u.quiet {
		return
	}
	u.line(fmt.Sprintf("assay: "+format, args...))
}

// Hintf tells what to do next, on stderr: "assay: hint: …". Quiet and JSON
// leave it out.
func (u *UI) Hintf(format string, args ...any) {
	if u.quiet {
		return
	}
	u.complain("hint", fmt.Sprintf(format, args...))
}

// Warnf tells of something that may be wrong, on stderr: "assay: warning: …".
// Quiet does not leave it out.
func (u *UI) Warnf(format string, args ...any) {
	u.complain("warning", fmt.Sprintf(format, args...))
}

// Printf writes a part of the result to stdout, above a running progress.
func (u *UI) Printf(format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.live != nil {
		u.live.erase()
	}
	fmt.Fprintf(u.out.w, format, args...)
	if u.live != nil {
		u.live.draw()
	}
}

// complain writes "assay: label: text" to stderr.
func (u *UI) complain(label, text string) {
	style := styleFaint
	switch label {
	case "error":
		style = styleBad
	case "warning":
		style = styleWarn
	}
	u.line("assay: " + u.err.paint(style, label+":") + " " + strings.TrimRight(text, "\n"))
}

// ask writes a question to stderr, whose answer is typed behind it.
func (u *UI) ask(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.live != nil {
		u.live.erase()
	}
	fmt.Fprint(u.err.w, text)
}

// line writes one line to stderr, above a running progress.
func (u *UI) line(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.live != nil {
		u.live.erase()
	}
	fmt.Fprintln(u.err.w, text)
	if u.live != nil {
		u.live.draw()
	}
}

// Good colours a word of a result that is good, as Warn and Bad do for others.
// The word itself must say how good it is.
func (u *UI) Good(word string) string { return u.out.paint(styleGood, word) }

// Warn colours a word that asks for attention; see Good.
func (u *UI) Warn(word string) string { return u.out.paint(styleWarn, word) }

// Bad colours a word that is a failure; see Good.
func (u *UI) Bad(word string) string { return u.out.paint(styleBad, word) }
