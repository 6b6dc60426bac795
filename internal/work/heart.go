package work

import (
	"context"
	"log/slog"
	"time"

	"assay/internal/fault"
)

// Replaced is what Beat says to a process that is not the node any more.
func Replaced(node string) error {
	return fault.Errorf(fault.Conflict, "another process was started as node %s", node).WithHint("give each process a name of its own with --node")
}

// Heart shows that a node lives, and sees when others do not: their jobs go back
// into the queue before their leases run out. Fill it in, and call Run once.
type Heart struct {
	Store Store
	Wakes Wakes
	// Node says who this is; Started and Seen are set by Run.
	Node Node
	// Load says what the node holds, at each beat; nil is nothing.
	Load func() Load
	// Every is how often it beats. 0 is five seconds.
	Every time.Duration
	// Begun is called once, when the jobs that this node had before are back in the
	// queue: a job claimed earlier than that would go back with them. Nil is nobody.
	Begun func()
	Log   *slog.Logger
}

// beatsMissed is after how many beats a node counts as dead.
const beatsMissed = 4

// Dead says whether a node has not been seen for too long; every is how often it
// should be.
func (n Node) Dead(now time.Time, every time.Duration) bool {
	return now.Sub(n.Seen) > beatsMissed*every
}

// Run first puts back the jobs that this node had before it was started, and then
// beats until the context ends; after that the node is forgotten. Start the node's
// Worker when it has Begun, and end it first. While the store is gone it goes on
// trying. It returns fault.Conflict, and the node must do no more, when another
// process was started as the same node.
func (h *Heart) Run(ctx context.Context) error {
	b := *h
	if b.Every == 0 {
		b.Every = 5 * time.Second
	}
	if b.Log == nil {
		b.Log = slog.New(slog.DiscardHandler)
	}
	b.Node.Started = time.Now()
	dropped := false
	// After the store was gone everybody looks dead for a while: others are judged
	// only by who could beat all that time himself.
	well := time.Time{}
	tick := time.NewTicker(b.Every)
	defer tick.Stop()
	for {
		err := b.beat(ctx, &dropped, &well)
		if fault.Is(err, fault.Conflict) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			if !well.IsZero() {
				b.Log.Error("the node cannot show that it lives; it is tried again", "err", err)
			}
			well = time.Time{}
		}
		select {
		case <-ctx.Done():
			end, stop := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
			defer stop()
			if err := b.Store.Forget(end, b.Node.ID); err != nil {
				b.Log.Warn("the node could not say goodbye", "err", err)
			}
			return nil
		case <-tick.C:
		}
	}
}

func (h *Heart) beat(ctx context.Context, dropped *bool, well *time.Time) error {
	ctx, stop := context.WithTimeout(ctx, h.Every)
	defer stop()
	if !*dropped {
		kinds, err := h.Store.Drop(ctx, h.Node.ID)
		if err != nil {
			return err
		}
		*dropped = true
		wakeEach(h.Wakes, kinds)
		if h.Begun != nil {
			h.Begun()
		}
	}
	now := time.Now()
	h.Node.Seen = now
	if h.Load != nil {
		h.Node.Load = h.Load()
	}
	if err := h.Store.Beat(ctx, h.Node); err != nil {
		return err
	}
	if well.IsZero() {
		*well = now
	}
	if now.Sub(*well) <= beatsMissed*h.Every {
		return nil
	}
	kinds, err := h.Store.Bury(ctx, now.Add(-beatsMissed*h.Every))
	if err != nil {
		return err
	}
	if len(kinds) > 0 {
		h.Log.Warn("a node is dead: its jobs go to others", "jobs", len(kinds))
	}
	wakeEach(h.Wakes, kinds)
	return nil
}
