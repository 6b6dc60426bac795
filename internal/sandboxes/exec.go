package sandboxes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

// Bounds of what an exec may print, each stream, in bytes. Beyond its cap the
// middle of a stream is dropped, unless ExecRequest says otherwise.
const (
	DefaultOutput = 1 << 20
	MaxOutput     = 4 << 20  // that is kept in memory
	MaxStreamed   = 64 << 20 // that is passed on
)

// maxStdin bounds the input that comes with a request, in bytes.
const maxStdin = 16 << 20

// ExecRequest is one command to run.
type ExecRequest struct {
	// Shell is a line for "sh -c"; Argv a program with its arguments. One is set.
	Shell string
	Argv  []string
	Dir   string
	// Env is added to the guest's small fixed environment ("NAME=value").
	Env   []string
	User  string
	Stdin []byte
	// Limits.Wall is the deadline of the command; zero is the sandbox's.
	Limits   sandbox.Limits
	Isolated bool
	// Leave lets processes that the command started go on after it.
	Leave bool
	// StopAtOutput ends the command at Limits.Output; otherwise it goes on and
	// the middle of its output is dropped.
	StopAtOutput bool
	// Key makes a repeated request give the first one's result; "" is none.
	Key string `json:"-"`
}

// ExecResult is how a command ended, with what it printed.
type ExecResult struct {
	Stdout, Stderr []byte
	Result         sandbox.Result
}

// Code is the exit code as a shell would give it: the program's own; 124 at
// the wall limit, as timeout(1) does; 128 and the signal's number for one that
// a signal ended; 137 at all other limits and when the machine was lost.
func Code(e sandbox.Exit) int {
	switch {
	case e.Cause == guest.WallLimit:
		return 124
	case e.Code >= 0:
		return e.Code
	case e.Cause == guest.Signaled && e.Signal > 0:
		return 128 + e.Signal
	}
	return 137
}

func (r ExecRequest) spec(most int64) (sandbox.ExecSpec, error) {
	spec := sandbox.ExecSpec{
		Argv: r.Argv, Dir: r.Dir, User: r.User, Limits: r.Limits, Isolated: r.Isolated, Leave: r.Leave, KeepOutput: !r.StopAtOutput,
	}
	if (r.Shell == "") == (len(r.Argv) == 0) {
		return spec, fault.Errorf(fault.Invalid, "a command is either one line for the shell or a program with its arguments")
	}
	if r.Shell != "" {
		spec.Argv = []string{"/bin/sh", "-c", r.Shell}
	}
	if len(r.Stdin) > maxStdin {
		return spec, fault.Errorf(fault.Exhausted, "the input has %d bytes, at most %d are taken", len(r.Stdin), maxStdin).WithHint("write it to a file first")
	}
	if r.Env != nil {
		spec.Env = append(append([]string{}, guest.DefaultEnv...), r.Env...)
	}
	if spec.Limits.Output == 0 {
		spec.Limits.Output = min(most, DefaultOutput)
	}
	if spec.Limits.Output > most {
		return spec, fault.Errorf(fault.Invalid, "an exec gives at most %d bytes of each stream", most).WithHint("stream the output, or write it to a file and read that")
	}
	spec.Key = "k" // the engine or the caller gives another
	err := spec.Check()
	spec.Key = ""
	return spec, err
}

// Exec runs one command and waits for its end. A command that failed or met a
// limit is a result. Without a key the command is killed when ctx ends; with
// one it goes on, for whoever asks again.
func (s *Service) Exec(ctx context.Context, id string, req ExecRequest) (ExecResult, error) {
	if _, err := s.find(ctx, account.Use, id); err != nil {
		return ExecResult{}, err
	}
	spec, err := req.spec(MaxOutput)
	if err != nil {
		return ExecResult{}, err
	}
	if req.Key != "" {
		// guestd too never runs it twice.
		sum := sha256.Sum256([]byte(account.ActorOf(ctx).User + "\x00" + req.Key))
		spec.Key = hex.EncodeToString(sum[:])
	}
	// Whether the sandbox lives is asked by the first request only: the answer
	// that one got is there for the others after the sandbox's end.
	return once(ctx, s, "exec:"+id, req.Key, req, func(ctx context.Context) (ExecResult, error) {
		l, err := s.aliveForExec(ctx, id)
		if err != nil {
			return ExecResult{}, err
		}
		var out, errs bytes.Buffer
		res, err := l.sb.Exec(ctx, spec, guest.IO{Stdin: bytes.NewReader(req.Stdin), Stdout: &out, Stderr: &errs})
		if err != nil {
			return ExecResult{}, err
		}
		return ExecResult{Stdout: out.Bytes(), Stderr: errs.Bytes(), Result: res}, nil
	})
}

// Stream runs one command and passes on what it prints while it runs. Writers
// are called by one goroutine; a slow one slows the command down. The command
// is killed when ctx ends, or a writer fails. ExecRequest.Key is not used.
func (s *Service) Stream(ctx context.Context, id string, req ExecRequest, stdout, stderr io.Writer) (sandbox.Result, error) {
	l, err := s.aliveForExec(ctx, id)
	if err != nil {
		return sandbox.Result{}, err
	}
	spec, err := req.spec(MaxStreamed)
	if err != nil {
		return sandbox.Result{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return l.sb.Exec(ctx, spec, guest.IO{Stdin: bytes.NewReader(req.Stdin), Stdout: stopping{stdout, cancel}, Stderr: stopping{stderr, cancel}})
}

// stopping ends a command whose output nobody takes.
type stopping struct {
	io.Writer
	cancel context.CancelCauseFunc
}

func (w stopping) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		w.cancel(err)
	}
	return n, err
}

// aliveForExec finds a sandbox whose owner has processor time left today.
func (s *Service) aliveForExec(ctx context.Context, id string) (*live, error) {
	l, err := s.alive(ctx, account.Use, id)
	if err != nil {
		return nil, err
	}
	for _, sh := range s.shares(l.by) {
		if sh.CPUPerDay == 0 {
			continue // nothing to ask the store for
		}
		have, err := s.o.Store.Held(ctx, sh.owner, sh.token, dayOf(time.Now()))
		if err == nil {
			err = sh.allows(have, Held{}, Held{})
		}
		if err != nil {
			return nil, err
		}
	}
	return l, nil
}
