package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/supervisor"
)

type sandboxShellCmd struct {
	limitFlags
	oneSandbox
	Attach  string   `name:"attach" placeholder:"TERMINAL" help:"Go on in this terminal instead of opening one."`
	Name    string   `name:"name" placeholder:"TERMINAL" help:"Name of the new terminal (default: made up)."`
	User    string   `name:"user" enum:"user,root" default:"user" help:"Be user or root of the sandbox."`
	Dir     string   `name:"dir" short:"w" placeholder:"DIR" help:"Working directory (default: the user's home)."`
	Command []string `arg:"" optional:"" passthrough:"" help:"Program instead of a login shell, after --."`
}

func (sandboxShellCmd) Help() string {
	return `Ctrl-] d leaves the terminal running and gives its name for --attach; Ctrl-] twice types Ctrl-]. The exit code is the shell's own, as with exec.`
}

func (c sandboxShellCmd) Run(ctx context.Context, env *Env) error {
	command := c.Command
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	if c.Attach != "" && (len(command) > 0 || c.Name != "") {
		return fault.Errorf(fault.Invalid, "--attach goes on in a terminal that has its command and name").WithHint("leave them out")
	}
	if env.JSON {
		return fault.Errorf(fault.Invalid, "a terminal has no JSON").WithHint("use: assay sandbox exec --json")
	}
	client, err := connect(ctx, env)
	if err != nil {
		return err
	}
	defer client.Close()
	screen := terminalOf(env)
	spec := guest.TerminalSpec{ID: c.Name, Argv: command, Dir: c.Dir, User: c.User, Size: screen.size(), Limits: c.limits()}
	if spec.ID == "" {
		spec.ID = strings.ToLower(rand.Text()[:6])
	}
	if c.Attach != "" {
		spec = guest.TerminalSpec{ID: c.Attach, Size: spec.Size}
	}
	t, err := client.Terminal(ctx, c.ID, supervisor.TerminalRequest{Spec: spec, Attach: c.Attach != ""})
	if err != nil {
		return err
	}
	defer t.Detach()
	detached, err := screen.join(ctx, t, env)
	if detached || ctx.Err() != nil {
		env.UI.Notef("terminal %s goes on; attach again: assay sandbox shell %s --attach %s", t.ID(), c.ID, t.ID())
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	res, err := t.Wait()
	if err != nil {
		return err
	}
	if res.Exit.Cause != guest.Exited {
		env.UI.Notef("ended by %s", res.Exit.Cause)
	}
	if code := shellCode(res.Exit); code != 0 {
		return status(code)
	}
	return nil
}

// localTerminal is the terminal this program runs in; in is nil when there is
// none.
type localTerminal struct{ in *os.File }

func terminalOf(env *Env) localTerminal {
	if f, ok := env.Stdin.(*os.File); ok && f != nil && term.IsTerminal(int(f.Fd())) {
		return localTerminal{f}
	}
	return localTerminal{}
}

// size gives zero, which is the guest's default, where there is no terminal.
func (l localTerminal) size() guest.TerminalSize {
	if l.in == nil {
		return guest.TerminalSize{}
	}
	cols, rows, err := term.GetSize(int(l.in.Fd()))
	if err != nil || cols <= 0 || rows <= 0 {
		return guest.TerminalSize{}
	}
	return guest.TerminalSize{Rows: rows, Cols: cols}
}

// join connects the local terminal with t until t ends, the person detaches or
// ctx ends. The local terminal is as before afterwards.
func (l localTerminal) join(ctx context.Context, t *supervisor.Terminal, env *Env) (detached bool, err error) {
	if l.in != nil {
		old, err := term.MakeRaw(int(l.in.Fd()))
		if err != nil {
			return false, fault.Errorf(fault.Unsupported, "put the terminal into raw mode: %w", err)
		}
		defer func() { _ = term.Restore(int(l.in.Fd()), old) }() // there is nothing else to try
		defer l.followSize(t)()
	}
	leave := make(chan struct{})
	go func() { // a Read of stdin cannot be ended: it is left behind
		if typeInto(t, stdinOf(env), l.in != nil) {
			close(leave)
		}
	}()
	shown := make(chan error, 1)
	go func() {
		_, err := io.Copy(env.Stdout, struct{ io.Reader }{t})
		shown <- err
	}()
	select {
	case err := <-shown:
		return false, err
	case <-leave:
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// followSize tells t about the window's size until stopped.
func (l localTerminal) followSize(t *supervisor.Terminal) (stop func()) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-changes:
				if size := l.size(); size.Rows > 0 {
					_ = t.Resize(size) // a terminal that has ended has no size
				}
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(changes)
		close(done)
	}
}

// The keys of typeInto.
const (
	escapeKey = 0x1d // Ctrl-]
	detachKey = 'd'
	endKey    = 0x04 // Ctrl-D
)

// typeInto types all of in, and the end key where in ends. With keys it looks
// for the escape key, and reports whether the person wants to leave.
func typeInto(w io.Writer, in io.Reader, keys bool) (leave bool) {
	if in == nil {
		return false
	}
	buf := make([]byte, 4096)
	escaped := false
	for {
		n, err := in.Read(buf)
		out := buf[:0:0]
		for _, b := range buf[:n] {
			switch {
			case !keys:
				out = append(out, b)
			case escaped && b == detachKey:
				return true
			case escaped && b != escapeKey:
				out, escaped = append(out, escapeKey, b), false
			case escaped:
				out, escaped = append(out, b), false
			case b == escapeKey:
				escaped = true
			default:
				out = append(out, b)
			}
		}
		if len(out) > 0 {
			if _, err := w.Write(out); err != nil {
				return false
			}
		}
		if errors.Is(err, io.EOF) && !keys {
			_, _ = w.Write([]byte{endKey})
		}
		if err != nil {
			return false
		}
	}
}
