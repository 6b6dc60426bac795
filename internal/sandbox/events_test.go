package sandbox

import (
	"errors"
	"os"
	"strings"
	"testing"

	"assay/internal/guest"
)

func TestEventLogBounds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		text string
		most int // events
	}{
		{"many", "x", maxEvents},
		{"large", strings.Repeat("x", maxOneEvent/2), 2 * maxEventBytes / maxOneEvent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, err := openEventLog(t.TempDir(), "one")
			if err != nil {
				t.Fatal(err)
			}
			for range maxEvents + 100 {
				l.add(Event{Kind: "exec", Detail: map[string]any{"text": tt.text}})
			}
			l.add(Event{Kind: "ended"})
			l.close()
			l.close()
			l.add(Event{Kind: "exec"}) // nobody hears it
			all := l.all()
			n := len(all)
			if n > tt.most+2 || all[n-1].Kind != "ended" || all[n-2].Kind != "truncated" {
				t.Errorf("%d events, the last two %q and %q", n, all[n-2].Kind, all[n-1].Kind)
			}
			for i, e := range all {
				if e.Number != i+1 || e.Time.IsZero() {
					t.Fatalf("event %d is %+v", i, e)
				}
			}
			if info, err := os.Stat(l.path); err != nil || info.Size() > maxEventBytes+2*maxOneEvent {
				t.Errorf("%d bytes, %v", info.Size(), err)
			}
		})
	}
}

// TestEventLogExec: what a command or its guestd says is bounded too.
func TestEventLogExec(t *testing.T) {
	t.Parallel()
	l, err := openEventLog(t.TempDir(), "one")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("é", maxOneEvent)
	argv := make([]string, 100)
	for i := range argv {
		argv[i] = long
	}
	l.exec(ExecSpec{Argv: argv}, Result{Files: []guest.OutputFile{{Path: "out", SHA256: "abc"}, {Path: "link", Refused: "is a symbolic link"}}}, nil)
	l.exec(ExecSpec{Argv: []string{"true"}}, Result{}, errors.New(long))
	l.exec(ExecSpec{Argv: []string{"true"}}, Result{Exit: Exit{Cause: Cause(long)}, Files: []guest.OutputFile{{Path: long}}}, nil)
	l.close()
	all := l.all()
	if len(all) != 3 {
		t.Fatalf("%d events", len(all))
	}
	args, _ := all[0].Detail["argv"].([]any)
	files, _ := all[0].Detail["files"].(map[string]any)
	if len(args) != 17 || args[16] != "…" || len(args[0].(string)) > 210 {
		t.Errorf("argv of %d", len(args))
	}
	if files["out"] != "abc" || files["link"] != "is a symbolic link" {
		t.Errorf("files %v", files)
	}
	for _, e := range all[1:] {
		if e.Kind != "exec" || e.Detail["dropped_bytes"] == nil {
			t.Errorf("event %d was kept whole", e.Number)
		}
	}
	if info, err := os.Stat(l.path); err != nil || info.Size() > 2*maxOneEvent {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
}

func TestEventLogOpenFails(t *testing.T) {
	t.Parallel()
	if _, err := openEventLog(t.TempDir()+"/none", "one"); err == nil {
		t.Error("no error")
	}
	if all := (&eventLog{path: "/does/not/exist"}).all(); all != nil {
		t.Errorf("events %v", all)
	}
}
