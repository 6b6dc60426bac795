package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestGradeSurvivesKills kills a run twice in the middle. The third one ends
// with a grade for everybody, does nothing twice, and nothing is left behind.
func TestGradeSurvivesKills(t *testing.T) {
	h := newSandboxHost(t)
	lab, class, out := filepath.Join(t.TempDir(), "lab"), t.TempDir(), t.TempDir()
	run := func(args ...string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		t.Cleanup(cancel)
		return exec.CommandContext(ctx, h.assay, append([]string{"--data-dir", h.dir, "--quiet", "--json"}, args...)...)
	}
	if text, err := run("assignment", "new", lab, "--mode", "call").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	const students = 30
	codes := []string{
		"def is_leap(year):\n    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)\n",
		"def is_leap(year):\n    return False\n",
		"import os\n\nos._exit(0)\n",
	}
	want := []string{"5", "3", "0"}
	for i := range students {
		dir := filepath.Join(class, fmt.Sprintf("s%02d", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "leap.py"), []byte(codes[i%len(codes)]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	graded := func() int {
		names, err := filepath.Glob(filepath.Join(out, "grades", "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	for _, after := range []int{5, 14} {
		c := run("grade", lab, class, "--out", out)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		tick := time.NewTicker(5 * time.Millisecond)
		for running := true; running && graded() < after; {
			select {
			case err := <-ended:
				ended <- err
				running = false
			case <-tick.C:
			}
		}
		tick.Stop()
		if err := c.Process.Kill(); err != nil {
			t.Fatalf("it ended by itself: %v", err)
		}
		<-ended
		if n := graded(); n >= students {
			t.Fatalf("all %d were graded before the kill", n)
		}
	}
	before := graded()
	text, err := run("grade", lab, class, "--out", out).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	var rows []struct {
		Submission string `json:"submission"`
		Score      string `json:"score"`
		Kept       bool   `json:"kept"`
	}
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	kept := 0
	for i, r := range rows {
		if r.Submission != fmt.Sprintf("s%02d", i) || r.Score != want[i%len(want)] {
			t.Errorf("row %d: %+v, want %s points", i, r, want[i%len(want)])
		}
		if r.Kept {
			kept++
		}
	}
	if len(rows) != students || kept != before {
		t.Errorf("%d rows, %d kept; want %d and the %d that were there", len(rows), kept, students, before)
	}
	// The host is looked at when the test ends, as after every test of sandboxes.
}
