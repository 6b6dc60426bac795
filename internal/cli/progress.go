package cli

import (
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
)

// redrawEvery bounds how often a progress line is redrawn.
const redrawEvery = 100 * time.Millisecond

// Progress shows work that takes longer than a second. On a terminal it is one
// line that redraws itself; elsewhere each stage is one line. Its methods may
// be called concurrently. Finish must be called.
type Progress struct {
	ui    *UI
	title string
	start time.Time
	stop  chan struct{}
	gone  chan struct{}

	// The fields below are guarded by ui.mu.
	stage       string
	detail      string
	done, total int64
	finished    bool
}

// Progress begins to show work called title ("build base"). total is the
// number of steps, or 0 when it is not known. One progress is live at a time:
// a new one ends the one before.
func (u *UI) Progress(title string, total int64) *Progress {
	u.endProgress()
	p := &Progress{
		ui: u, title: title, total: total, start: time.Now(),
		stop: make(chan struct{}), gone: make(chan struct{}),
	}

	if u.quiet || !u.err.terminal {
		close(p.gone)
		return p
	}
	u.mu.Lock()
	u.live = p
	p.draw()
	u.mu.Unlock()
	go p.redraw()
	return p
}

// redraw keeps the elapsed time moving until the progress ends.
func (p *Progress) redraw() {
	defer close(p.gone)
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
			p.ui.mu.Lock()
			if p.ui.live == p {
				p.draw()
			}
			p.ui.mu.Unlock()
		}
	}
}

// Stage names what is done now ("copy packages"). Where lines cannot be
// redrawn it prints one line for each new stage.
func (p *Progress) Stage(name string) {
	p.ui.mu.Lock()
	defer p.ui.mu.Unlock()
	if p.finished || p.stage == name {
		return
	}
	p.stage, p.detail = name, ""
	if !p.ui.quiet && !p.ui.err.terminal {
		fmt.Fprintf(p.ui.err.w, "assay: %s: %s\n", p.title, name)
	}
}

// Detail says more about the stage, for as long as it lasts ("case 3/12"). It
// changes often, so it is shown only where the line can be redrawn.
func (p *Progress) Detail(text string) {
	p.ui.mu.Lock()
	defer p.ui.mu.Unlock()
	p.detail = text
}

// Set says how many of how many steps are done; a total of 0 is "not known".
func (p *Progress) Set(done, total int64) {
	p.ui.mu.Lock()
	defer p.ui.mu.Unlock()
	p.done, p.total = done, total
}

// Add counts n more steps as done.
func (p *Progress) Add(n int64) {
	p.ui.mu.Lock()
	defer p.ui.mu.Unlock()
	p.done += n
}

// Finish ends the progress and leaves one line behind: the title, the outcome
// ("done", "cached", "3 of 12 cases") and the time it took. An empty outcome
// leaves nothing. It may be called twice; the first counts.
func (p *Progress) Finish(outcome string) {
	p.ui.mu.Lock()
	if p.finished {
		p.ui.mu.Unlock()
		return
	}
	p.finished = true
	if p.ui.live == p {
		p.erase()
		p.ui.live = nil
		close(p.stop)
	}
	if outcome != "" && !p.ui.quiet {
		fmt.Fprintf(p.ui.err.w, "assay: %s: %s (%s)\n", p.title, outcome, elapsed(time.Since(p.start)))
	}
	p.ui.mu.Unlock()
	<-p.gone
}

// endProgress removes the live progress, so that an error starts on a line of
// its own.
func (u *UI) endProgress() {
	u.mu.Lock()
	p := u.live
	u.mu.Unlock()
	if p != nil {
		p.Finish("")
	}
}

// erase clears the progress line. Caller holds ui.mu.
func (p *Progress) erase() { fmt.Fprint(p.ui.err.w, "\r\x1b[2K") }

// draw writes the progress line. Caller holds ui.mu.
func (p *Progress) draw() {
	s := p.ui.err
	text := p.text(time.Now())
	if s.width > 0 && lipgloss.Width(text) >= s.width {
		text = lipgloss.NewStyle().MaxWidth(s.width - 1).Render(text)
	}
	fmt.Fprint(s.w, "\r\x1b[2K"+text)
}

// barCells is the width of the bar in columns.
const barCells = 24

// text gives the progress line at a moment. Caller holds ui.mu.
func (p *Progress) text(now time.Time) string {
	var b strings.Builder
	b.WriteString(p.title)
	if p.stage != "" {
		b.WriteString(": " + p.stage)
	}
	if p.detail != "" {
		b.WriteString(" " + p.detail)
	}
	if p.total > 0 {
		done := min(max(p.done, 0), p.total)
		full := int(done * barCells / p.total)
		fmt.Fprintf(&b, " [%s%s] %d/%d", strings.Repeat("#", full), strings.Repeat(".", barCells-full), done, p.total)
	}
	b.WriteString(" " + p.ui.err.paint(styleFaint, elapsed(now.Sub(p.start))))
	return b.String()
}

// elapsed writes a duration as people say it: "0.4s", "12s", "3m05s".
func elapsed(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0fs", d.Seconds())
	}
	d = d.Round(time.Second)
	return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
}
