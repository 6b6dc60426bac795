package judge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

// interact runs the program and the interactor against each other and lets the
// checkers, if there are any, judge what the interactor wrote.
//
// What counts: an interactor that failed is JE. One that rejected and ended
// first is WA, whatever the program did then. Else the program's own end comes
// first (TLE, MLE, RE) and then the interactor's word. Two that wait for each
// other are ended by the program's wall limit: TLE.
func (x *session) interact(ctx context.Context, i int, input *spool, spec sandbox.ExecSpec, record *transcript) (attempt, error) {
	c, err := x.jury.ready(ctx, *x.problem.Interactor)
	if err != nil {
		return attempt{}, err
	}
	if err := x.jury.bring(ctx, c.machine, i, input); err != nil {
		return attempt{}, err
	}
	talk := conversation{x: x, program: spec, interactor: c, spec: c.interactorSpec(x.problem.Cases[i].CheckerArgs)}
	// The interactor may wait as long as the program may take.
	talk.spec.Limits.Wall += spec.Limits.Wall
	if err := talk.run(ctx, record); err != nil {
		return talk.attempt, err
	}
	a := talk.attempt
	if a.check, err = c.word(talk.result, talk.said); err != nil {
		return a, err
	}
	if talk.interactorFirst && (a.check.Outcome == CheckRejected || a.check.Outcome == CheckPresentation) {
		a.check.Outcome = CheckRejectedFirst
	}
	if a.next, err = x.jury.nextPass(ctx, c, a.check); err != nil {
		return a, err
	}
	if c.program.Protocol != Testlib || len(x.problem.Checkers) == 0 || a.check.Outcome != CheckAccepted || !x.undecided(a) {
		return a, nil
	}
	return x.judgeTout(ctx, i, c, a)
}

// judgeTout has the checkers judge what a testlib interactor wrote.
func (x *session) judgeTout(ctx context.Context, i int, c callable, a attempt) (attempt, error) {
	tout := &spool{}
	defer tout.close()
	r, err := c.machine.ReadFile(ctx, juryTout)
	switch {
	case err == nil:
		_, err = io.Copy(tout, io.LimitReader(r, fileSizeCap))
		if closeErr := r.Close(); err == nil {
			err = closeErr
		}
	case fault.Is(err, fault.NotFound):
		err = nil
	}
	if err != nil {
		return a, fmt.Errorf("read the interactor's output: %w", err)
	}
	a.check, a.next, err = x.jury.check(ctx, i, tout, nil)
	return a, err
}

// interactorSpec is how an interactor is run.
func (c callable) interactorSpec(args []string) sandbox.ExecSpec {
	if c.program.Protocol == Testlib {
		return c.spec(append([]string{juryInput, juryTout, juryAnswer}, args...))
	}
	return c.spec(append([]string{juryInput, juryAnswer, feedbackDir + "/"}, args...))
}

// conversation is the two of them at work.
type conversation struct {
	x          *session
	program    sandbox.ExecSpec
	interactor callable
	spec       sandbox.ExecSpec

	attempt attempt
	result  sandbox.Result
	said    *head
	// interactorFirst says that the interactor ended while the program was
	// still running. It is certain: neither sees the other's end before we have.
	interactorFirst bool
}

// ended is one of the two that came to its end.
type ended struct {
	interactor bool
	res        sandbox.Result
	err        error
}

// run starts both, waits for both, and tells each of the other's end only after
// it has seen it itself. A program that was rejected is stopped if it does not
// end soon: nothing that it does counts any more.
func (t *conversation) run(ctx context.Context, record *transcript) error {
	line, err := t.connect(ctx, record)
	if err != nil {
		return err
	}
	defer line.Close()
	interactorCtx, stopInteractor := context.WithCancel(ctx)
	defer stopInteractor()
	programCtx, stopProgram := context.WithCancel(ctx)
	defer stopProgram()
	ends := make(chan ended, 2)
	stderr := &head{max: stderrKept}
	t.said = &head{max: maxMessage}
	t.program.StdinFile = ""
	began := time.Now()
	go func() {
		res, err := t.exec(programCtx, t.x.machine, t.program, line, true, stderr)
		ends <- ended{false, res, err}
	}()
	go func() {
		res, err := t.exec(interactorCtx, t.interactor.machine, t.spec, line, false, t.said)
		ends <- ended{true, res, err}
	}()
	var failed error
	rejected := false
	for n := range 2 {
		e := <-ends
		switch {
		case e.interactor:
			t.result, t.interactorFirst = e.res, n == 0
			rejected = n == 0 && e.err == nil && t.interactor.rejects(e.res.Exit)
			line.DrainB()
		case rejected && programCtx.Err() != nil && ctx.Err() == nil:
			t.attempt = t.x.observed(sandbox.Result{Exit: sandbox.Exit{Code: -1, Cause: guest.Killed}, Usage: sandbox.Usage{Wall: time.Since(began)}}, stderr)
			e.err = nil
			line.DrainA()
		default:
			t.attempt = t.x.observed(e.res, stderr)
			line.DrainA()
		}
		if e.err != nil && failed == nil {
			// Whoever fails takes the other along, and both are waited for.
			failed = e.err
			stopInteractor()
			stopProgram()
		}
		if rejected && n == 0 {
			defer time.AfterFunc(rejectedGrace, stopProgram).Stop()
		}
	}
	return failed
}

// rejectedGrace is how long a program may go on after it was rejected.
const rejectedGrace = 300 * time.Millisecond

// rejects reports whether an exit is a rejection by the program's protocol.
func (c callable) rejects(e sandbox.Exit) bool {
	if e.Cause != guest.Exited {
		return false
	}
	if c.program.Protocol == Testlib {
		switch e.Code {
		case testlibWrong, testlibForm, testlibDirt, testlibTooLong:
			return true
		}
		return false
	}
	return e.Code == kattisReject
}

func (t *conversation) exec(ctx context.Context, m Machine, spec sandbox.ExecSpec, line line, program bool, stderr io.Writer) (sandbox.Result, error) {
	who := "the interactor"
	if program {
		who = "the program"
	}
	var res sandbox.Result
	var err error
	if r, ok := line.(*relay); ok {
		in, out := r.ends(program)
		res, err = Exec(ctx, m, spec, in, out, stderr)
	} else {
		spec.Wire = line.Name()
		res, err = execIn(ctx, m, spec, io.Discard, stderr)
	}
	if err != nil {
		return res, fmt.Errorf("run %s: %w", who, err)
	}
	return res, nil
}

// line is what joins the two: a Wire, or a relay.
type line interface {
	Name() string
	DrainA()
	DrainB()
	Close()
}

// connect joins the two directly. With a recorder, or where machines cannot be
// joined, the host stands between them, which is slower for both.
func (t *conversation) connect(ctx context.Context, record *transcript) (line, error) {
	if record != nil {
		return newRelay(record), nil
	}
	w, err := t.x.judge.machines.Connect(ctx, t.x.machine, t.interactor.machine.Machine)
	if fault.Is(err, fault.Unsupported) {
		return newRelay(nil), nil
	}
	if err != nil {
		return nil, fmt.Errorf("connect program and interactor: %w", err)
	}
	return w, nil
}

// relay passes on what the two say through the host. It never makes a writer
// wait: each holds at most what the other's output limit allows.
type relay struct {
	toInteractor, toProgram      *queue
	programSays, interactorWrote io.Writer
}

func newRelay(record *transcript) *relay {
	r := &relay{toInteractor: newQueue(), toProgram: newQueue()}
	r.programSays, r.interactorWrote = r.toInteractor, r.toProgram
	if record != nil {
		r.programSays = io.MultiWriter(record.of('>'), r.toInteractor)
		r.interactorWrote = io.MultiWriter(record.of('<'), r.toProgram)
	}
	return r
}

func (r *relay) ends(program bool) (in io.Reader, out io.Writer) {
	if program {
		return r.toProgram, r.programSays
	}
	return r.toInteractor, r.interactorWrote
}

func (r *relay) Name() string { return "" }

// DrainA ends what the program says, DrainB what the interactor says.
func (r *relay) DrainA() { r.toInteractor.end() }
func (r *relay) DrainB() { r.toProgram.end() }

func (r *relay) Close() {
	r.DrainA()
	r.DrainB()
}

// queue is a pipe without a bound: reading waits, writing does not.
type queue struct {
	mu    sync.Mutex
	more  *sync.Cond
	bytes bytes.Buffer
	ended bool
}

func newQueue() *queue {
	q := &queue{}
	q.more = sync.NewCond(&q.mu)
	return q
}

func (q *queue) Write(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.bytes.Write(b)
		q.more.Broadcast()
	}
	return len(b), nil
}

func (q *queue) Read(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.bytes.Len() == 0 && !q.ended {
		q.more.Wait()
	}
	if q.bytes.Len() == 0 {
		return 0, io.EOF
	}
	return q.bytes.Read(b)
}

// end lets the reader read what is there, and then the end.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.more.Broadcast()
}

// transcript is what two programs said to each other, a line for each line of
// theirs, marked with who said it.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
	last byte
	// open says that the last line has no end yet.
	open bool
	cut  bool
}

func (t *transcript) of(who byte) io.Writer { return speaker{t, who} }

type speaker struct {
	t   *transcript
	who byte
}

func (s speaker) Write(b []byte) (int, error) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	for part := range bytes.Lines(b) {
		s.t.add(s.who, part)
	}
	return len(b), nil
}

// add takes a line, or a part of one.
func (t *transcript) add(who byte, part []byte) {
	if t.text.Len()+len(part)+3 > MaxTranscript {
		t.cut = true
		return
	}
	if t.open && t.last != who {
		t.text.WriteByte('\n')
		t.open = false
	}
	if !t.open {
		t.text.WriteByte(who)
	}
	t.text.Write(part)
	t.last, t.open = who, !bytes.HasSuffix(part, []byte("\n"))
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.ToValidUTF8(t.text.String(), "\uFFFD")
	if t.cut {
		text = strings.TrimSuffix(text, "\n") + "\n…\n"
	}
	return text
}

// transcribe runs the first pass of an interactive case once more with a
// recorder between the two. It changes nothing of the verdict.
func (x *session) transcribe(ctx context.Context, i int, res *CaseResult) error {
	if err := x.ensureProgram(ctx); err != nil {
		return err
	}
	record := &transcript{}
	again, err := x.runPass(ctx, i, nil, record)
	if again.next != nil {
		again.next.close()
	}
	if err != nil {
		return err
	}
	if res.Staff == nil {
		res.Staff = &StaffInfo{}
	}
	res.Staff.Transcript = record.String()
	if again.verdict != res.Verdict {
		res.Staff.TranscriptVerdict = again.verdict
	}
	return nil
}
