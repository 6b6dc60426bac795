package cli

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/google/go-cmp/cmp"
)

func TestTableAlignsNumbersRight(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	ui := &UI{out: screen{w: &out}}
	ui.Table([]Column{Left("CASE"), Right("CPU ms"), Left("VERDICT")}, [][]string{
		{"sample/1", "7", ui.Good("AC")},
		{"secret/02-größe", "1204", ui.Bad("TLE")},
	})
	want := `CASE             CPU ms  VERDICT
sample/1              7  AC
secret/02-größe    1204  TLE
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestTableWrapsToTheTerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	ui := &UI{out: screen{w: &out, terminal: true, color: true, width: 40}}
	ui.Table([]Column{Left("CHECK"), Left("REMEDY")}, [][]string{{"disk", strings.Repeat("free some space ", 8)}})
	for line := range strings.Lines(out.String()) {
		if w := lipgloss.Width(strings.TrimRight(line, "\n")); w > 40 {
			t.Errorf("line of %d columns on a terminal of 40: %q", w, line)
		}
	}
	if !strings.Contains(out.String(), "\x1b[") {
		t.Error("no colour on a terminal")
	}
}

func TestProgressWithoutTerminalPrintsStages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var errs bytes.Buffer
		ui := &UI{err: screen{w: &errs}}
		p := ui.Progress("build base", 0)
		p.Stage("install packages")
		p.Set(3, 10)
		time.Sleep(75 * time.Second) // the bubble's clock
		p.Stage("install packages")
		p.Stage("make image")
		p.Finish("done")
		p.Finish("twice")
		p.Stage("late")
		want := `assay: build base: install packages
assay: build base: make image
assay: build base: done (1m15s)
`
		if diff := cmp.Diff(want, errs.String()); diff != "" {
			t.Errorf("stderr (-want +got):\n%s", diff)
		}
	})
}

func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var errs bytes.Buffer
		ui := &UI{err: screen{w: &errs, terminal: true, width: 80}}
		p := ui.Progress("judge", 4)
		p.Stage("slow.py")
		p.Add(1)
		time.Sleep(2*time.Second + redrawEvery/2)
		ui.Notef("one case is flaky")
		p.Finish("4 cases")
		synctest.Wait()

		const clear = "\r\x1b[2K"
		out := errs.String()
		for _, want := range []string{
			clear + "judge: slow.py [######..................] 1/4 2.0s",
			clear + "assay: one case is flaky\n",
			clear + "assay: judge: 4 cases (2.0s)\n",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("terminal output lacks %q", want)
			}
		}
		if !strings.HasSuffix(out, "4 cases (2.0s)\n") {
			t.Errorf("progress goes on after its end: %q", out)
		}
	})
}

func TestQuietShowsErrorsOnly(t *testing.T) {
	t.Parallel()
	var errs bytes.Buffer
	ui := &UI{err: screen{w: &errs, terminal: true}, quiet: true}
	p := ui.Progress("build", 0)
	p.Stage("one")
	ui.Notef("by the way")
	ui.Hintf("look there")
	p.Finish("done")
	ui.Warnf("clock is slow")
	if want := "assay: warning: clock is slow\n"; errs.String() != want {
		t.Errorf("stderr %q, want %q", errs.String(), want)
	}
}

func TestElapsed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		d    time.Duration
		want string
	}{
		{0, "0.0s"},
		{1234 * time.Millisecond, "1.2s"},
		{42 * time.Second, "42s"},
		{3*time.Minute + 5*time.Second, "3m05s"},
		{59*time.Minute + 59900*time.Millisecond, "60m00s"},
	}
	for _, tt := range tests {
		if got := elapsed(tt.d); got != tt.want {
			t.Errorf("elapsed(%v) = %q, want %q", tt.d, got, tt.want)
		}
	}
}
