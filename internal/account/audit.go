package account

import (
	"context"
	"time"
)

// Entry is one thing that somebody did, or tried to. It holds no secret and
// nothing that anybody wrote in a file or a form but names.
type Entry struct {
	ID string
	At time.Time
	// Who is the ID of the user; "" is nobody or the system. Name is the login
	// at that time. Token is the ID of the token that was used.
	Who, Name, Token string
	// Action is what was asked for: "POST /api/v1/users".
	Action string
	// Thing and Target name what it was done to, as far as known.
	Thing  Kind
	Target string
	Detail string
	// Outcome is the HTTP status of the answer; 0 is what the system did.
	Outcome int
	// From is an address, Request the ID of the request, as in the log.
	From, Request string
}

// AuditQuery chooses entries. The zero value of a field chooses all.
type AuditQuery struct {
	Who, Thing, Target, Token string
	// Action chooses those that begin with it.
	Action string
	// Since and Until bound the time; Until is not included.
	Since, Until time.Time
	// Before continues after a page: the ID of its last entry.
	Before string
	// Limit is 1 to 200.
	Limit int
}

// maxDetail is in characters.
const maxDetail = 500

// auditLimit is how long one write of entries may take.
const auditLimit = 10 * time.Second

// Audit keeps entries, before it returns and also when ctx has ended. It sets
// their IDs, which grow with time, and the time if it is zero. Many calls at
// once cost little more than one.
func (s *Service) Audit(ctx context.Context, entries ...Entry) error {
	for i := range entries {
		e := &entries[i]
		if e.At.IsZero() {
			e.At = now()
		}
		e.ID = auditID(e.At)
		e.Detail, e.Action = cutText(e.Detail, maxDetail), cutText(e.Action, maxName)
		e.Target, e.Name = cutText(e.Target, maxName), cutText(e.Name, maxName)
	}
	return s.entries.add(ctx, entries)
}

// AuditLog gives entries that fit, the latest first. It is for admins.
func (s *Service) AuditLog(ctx context.Context, q AuditQuery) ([]Entry, error) {
	if err := May(ActorOf(ctx), List, Thing{Kind: AuditThing}); err != nil {
		return nil, err
	}
	q.Limit = min(max(q.Limit, 1), maxPage)
	for _, text := range []*string{&q.Who, &q.Thing, &q.Target, &q.Token, &q.Action, &q.Before} {
		*text = cutText(*text, maxName)
	}
	return s.store.Audit(ctx, q)
}

// Note is what a request says of itself while it runs, for the entry that the
// door writes when it has ended. A nil Note takes everything and keeps nothing,
// so services need not ask whether somebody listens. It belongs to one request
// and one goroutine at a time.
type Note struct {
	actor  Actor
	thing  Kind
	target string
	detail string
	set    bool
}

// On says what the request is about; the last call counts.
func (n *Note) On(thing Kind, target, detail string) {
	if n != nil {
		n.thing, n.target, n.detail, n.set = thing, target, detail, true
	}
}

// By says who it turned out to be, where that was not known at the beginning.
func (n *Note) By(a Actor) {
	if n != nil {
		n.actor = a
	}
}

// Set reports whether something was said: such a request is written down
// whatever its method.
func (n *Note) Set() bool { return n != nil && n.set }

// Entry makes the entry of a request by an actor.
func (n *Note) Entry(a Actor) Entry {
	if n == nil {
		n = &Note{}
	}
	if n.actor.User != "" {
		a = n.actor
	}
	return Entry{Who: a.User, Name: a.Name, Token: a.Token, Thing: n.thing, Target: n.target, Detail: n.detail}
}

type noteKey struct{}

// WithNote gives a context that carries a new Note.
func WithNote(ctx context.Context) (context.Context, *Note) {
	n := &Note{}
	return context.WithValue(ctx, noteKey{}, n), n
}

// NoteOf is the Note of a context, or nil.
func NoteOf(ctx context.Context) *Note {
	n, _ := ctx.Value(noteKey{}).(*Note)
	return n
}
