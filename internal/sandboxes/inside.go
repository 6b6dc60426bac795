package sandboxes

import (
	"context"
	"sync"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
)

// session is a call that goes to a sandbox's guest: files, a terminal, a
// watch, a port.
type session struct {
	*live
	ctx    context.Context
	cancel context.CancelCauseFunc
	wait   sync.WaitGroup
}

// inside begins a call that goes to the guest without the engine. Its context
// ends with the sandbox too. The caller calls done.
func (s *Service) inside(ctx context.Context, do account.Action, what, id string) (*session, error) {
	l, err := s.alive(ctx, do, id)
	if err != nil {
		return nil, err
	}
	return l.enter(ctx, what)
}

// enter begins such a call where it was decided that it may be made.
func (l *live) enter(ctx context.Context, what string) (*session, error) {
	if l.sb.Info().Paused {
		return nil, fault.Errorf(fault.Conflict, "%s: sandbox %s is paused", what, l.rec.ID).WithHint("resume it first")
	}
	l.sb.Touch()
	in := &session{live: l}
	in.ctx, in.cancel = context.WithCancelCause(ctx)
	in.wait.Go(func() {
		select {
		case <-l.sb.Ended():
			in.cancel(l.endFault())
		case <-in.ctx.Done():
		}
	})
	return in, nil
}

// done ends the call.
func (in *session) done() {
	in.cancel(nil)
	in.wait.Wait()
	in.sb.Touch()
}

func (l *live) endFault() error {
	return fault.Errorf(fault.Conflict, "sandbox %s has ended: %s", l.rec.ID, l.end(time.Now()).Why).WithHint("make another one; its events are kept")
}

// settle prefers the sandbox's end to the broken link that it caused.
func (in *session) settle(err error) error {
	if err == nil {
		return nil
	}
	if fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Conflict) {
		ask, cancel := context.WithTimeout(context.WithoutCancel(in.ctx), settleWait)
		defer cancel()
		if _, herr := in.sb.Guest().Hello(ask); herr != nil {
			select {
			case <-in.sb.Ended():
				return in.endFault()
			case <-time.After(settleWait): // the end is seen a little after the link's
			}
		}
	}
	if cause := context.Cause(in.ctx); cause != nil && fault.Is(cause, fault.Conflict) {
		return cause
	}
	return err
}

// settleWait is how long the end of a machine may lag behind that of its link.
const settleWait = time.Second
