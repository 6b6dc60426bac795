package pytest

import (
	"bytes"
	"context"
	"io"

	"assay/internal/judge"
	"assay/internal/sandbox"
)

// process is one of the two Python processes, at work in its machine.
type process struct {
	in *feed
	// lines are its frames; nil is one that was too long. All are read before
	// ended says anything.
	lines chan []byte
	// texts is what it writes on standard error.
	texts chan []byte
	ended chan exit
	stop  context.CancelFunc
}

// exit is how a process ended; err is ours.
type exit struct {
	res sandbox.Result
	err error
}

// awake is the first line of both processes (border.py): they have started up.
// They wait for an empty line before they look at any file.
const awake = `{"k":"awake"}` + "\n"

// start runs a command whose input and output are frames. Its files are there.
func start(ctx context.Context, m judge.Machine, spec sandbox.ExecSpec) *process {
	ctx, stop := context.WithCancel(ctx)
	p := &process{in: newFeed(), lines: make(chan []byte), texts: make(chan []byte), ended: make(chan exit, 1), stop: stop}
	p.in.line(nil)
	go func() {
		defer stop()
		res, err := m.Exec(ctx, spec, p.in, &afterAwake{w: &splitter{ctx: ctx, lines: p.lines}}, textWriter{ctx, p.texts})
		p.in.end()
		p.ended <- exit{res, err}
		close(p.ended)
	}()
	return p
}

// kill ends the process, if it has not ended, and waits for that; frames still
// on their way are dropped.
func (p *process) kill() exit {
	p.stop()
	p.in.end()
	return <-p.ended
}

// afterAwake passes on what comes after the first line, if that is as it must be.
type afterAwake struct {
	w    io.Writer
	seen int
}

func (a *afterAwake) Write(p []byte) (int, error) {
	n := len(p)
	if a.seen < len(awake) {
		most := min(len(p), len(awake)-a.seen)
		if string(p[:most]) != awake[a.seen:a.seen+most] {
			a.seen = len(awake) // It is looked at like any other frame, and refused.
		} else {
			a.seen += most
			p = p[most:]
		}
	}
	if len(p) > 0 {
		if _, err := a.w.Write(p); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// textWriter hands over what is written.
type textWriter struct {
	ctx   context.Context
	texts chan<- []byte
}

func (t textWriter) Write(p []byte) (int, error) {
	select {
	case t.texts <- bytes.Clone(p):
	case <-t.ctx.Done():
	}
	return len(p), nil
}
