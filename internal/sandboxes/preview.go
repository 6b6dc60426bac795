package sandboxes

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net"
	"strconv"
	"strings"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
)

// Bounds of previews.
const (
	// DefaultPreview is how long a link works for which nobody chose.
	DefaultPreview = time.Hour
	minPreview     = time.Second
	// maxVisits is how many visits one sandbox has at once: a page's requests and
	// its sockets.
	maxVisits = 64
)

// Why a visit is refused. Who visits is told no more than this.
var (
	ErrNoLink      = fault.Errorf(fault.Unauthenticated, "no link came with the visit")
	ErrBadLink     = fault.Errorf(fault.Denied, "the link is not one of this port, or was taken back")
	ErrLinkExpired = fault.Errorf(fault.Denied, "the link has expired")
	ErrGone        = fault.Errorf(fault.Conflict, "the sandbox has ended")
	ErrPaused      = fault.Errorf(fault.Conflict, "the sandbox is paused")
	ErrManyVisits  = fault.Errorf(fault.Limited, "the sandbox has %d visits already", maxVisits).TryAfter(time.Second)
)

// Preview is the right to visit a port of a sandbox.
type Preview struct {
	Port int
	// Proof is what a visitor must bring; it is a secret.
	Proof   string
	Expires time.Time
}

// previewKey signs the previews of one sandbox. It is never stored: it ends with
// the machine, which no process outlives either.
type previewKey struct{ secret []byte }

// proof is an instant and its signature, which holds for one port only.
func (k *previewKey) proof(port int, expires time.Time) string {
	at := strconv.FormatInt(expires.Unix(), 36)
	mac := hmac.New(sha256.New, k.secret)
	mac.Write([]byte("preview " + strconv.Itoa(port) + " " + at))
	return at + "-" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// check gives until when a proof holds.
func (k *previewKey) check(port int, proof string) (time.Time, error) {
	at, _, _ := strings.Cut(proof, "-")
	n, err := strconv.ParseInt(at, 36, 64)
	expires := time.Unix(n, 0)
	switch {
	case err != nil || !hmac.Equal([]byte(k.proof(port, expires)), []byte(proof)):
		return time.Time{}, ErrBadLink
	case !time.Now().Before(expires):
		return time.Time{}, ErrLinkExpired
	}
	return expires, nil
}

// MakePreview gives the right to visit a port until life has passed (zero is
// DefaultPreview), the sandbox ends or its previews are taken back. Whoever has
// the proof may visit.
func (s *Service) MakePreview(ctx context.Context, id string, port int, life time.Duration) (Preview, error) {
	if life == 0 {
		life = min(DefaultPreview, s.o.MaxPreview)
	}
	switch {
	case port < 1 || port > 65535:
		return Preview{}, fault.Errorf(fault.Invalid, "port %d is not between 1 and 65535", port)
	case life < minPreview || life > s.o.MaxPreview:
		return Preview{}, fault.Errorf(fault.Invalid, "a link works for %v to %v", minPreview, s.o.MaxPreview).WithHint("make another one later")
	}
	l, err := s.alive(ctx, account.Use, id)
	if err != nil {
		return Preview{}, err
	}
	l.mu.Lock()
	if l.previews == nil {
		l.previews = &previewKey{secret: make([]byte, sha256.Size)}
		_, _ = rand.Read(l.previews.secret) // it never fails
	}
	k := l.previews
	l.mu.Unlock()
	// Proofs have seconds: what the caller is told must be what holds.
	expires := time.Now().Add(life).Truncate(time.Second).Add(time.Second)
	l.sb.Note("preview", map[string]any{"port": port, "expires": expires})
	account.NoteOf(ctx).On(account.SandboxThing, id, "preview of port "+strconv.Itoa(port))
	return Preview{Port: port, Proof: k.proof(port, expires), Expires: expires}, nil
}

// RevokePreviews takes back all previews of a sandbox, and ends the visits that
// they gave.
func (s *Service) RevokePreviews(ctx context.Context, id string) error {
	l, err := s.alive(ctx, account.Change, id)
	if err != nil {
		return err
	}
	l.mu.Lock()
	had := l.previews != nil
	l.previews = nil
	for in := range l.visits {
		in.cancel(ErrBadLink)
	}
	l.mu.Unlock()
	if had {
		l.sb.Note("previews_revoked", nil)
	}
	return nil
}

// CheckPreview says until when a proof holds. Its errors are those of Visit.
func (s *Service) CheckPreview(ctx context.Context, id string, port int, proof string) (time.Time, error) {
	_, _, expires, err := s.linked(ctx, id, port, []string{proof})
	return expires, err
}

// Visit is the use of a port by who has a proof. Close it.
type Visit struct {
	in   *session
	port int
	// end takes back what the visit holds.
	end func()
}

// Visit begins a visit to a port; one of the proofs must hold. It asks nobody who
// they are. Errors: those above, fault.NotFound for a sandbox that nobody knows
// and fault.Unavailable for one that lives elsewhere.
func (s *Service) Visit(ctx context.Context, id string, port int, proofs []string) (*Visit, error) {
	l, k, expires, err := s.linked(ctx, id, port, proofs)
	if err != nil {
		return nil, err
	}
	if l.sb.Info().Paused {
		return nil, ErrPaused
	}
	ctx, cancel := context.WithDeadlineCause(ctx, expires, ErrLinkExpired)
	in, err := l.enter(ctx, "preview")
	if err == nil {
		if err = l.register(in, k); err != nil {
			in.done()
		}
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return &Visit{in: in, port: port, end: func() {
		in.done()
		cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.visits, in)
	}}, nil
}

// register counts a visit that was let in by a key, unless it was taken back
// meanwhile.
func (l *live) register(in *session, k *previewKey) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.previews != k:
		return ErrBadLink
	case len(l.visits) >= maxVisits:
		return ErrManyVisits
	case l.visits == nil:
		l.visits = map[*session]struct{}{}
	}
	l.visits[in] = struct{}{}
	return nil
}

// linked gives the sandbox of a preview, and until when it may be visited.
func (s *Service) linked(ctx context.Context, id string, port int, proofs []string) (*live, *previewKey, time.Time, error) {
	l := s.get(id)
	if l == nil || l.ended() {
		r, err := s.o.Store.Sandbox(ctx, id)
		switch {
		case err != nil:
			return nil, nil, time.Time{}, err
		case r.Live() && r.Node != s.o.Node:
			return nil, nil, time.Time{}, fault.Errorf(fault.Unavailable, "sandbox %s lives on node %s", id, r.Node)
		}
		return nil, nil, time.Time{}, ErrGone
	}
	if len(proofs) == 0 {
		return nil, nil, time.Time{}, ErrNoLink
	}
	l.mu.Lock()
	k := l.previews
	l.mu.Unlock()
	if k == nil {
		return nil, nil, time.Time{}, ErrBadLink
	}
	// A page of another sandbox can set a cookie of the same name beside the right
	// one, so one that holds is enough.
	var why error = ErrBadLink
	for _, proof := range proofs {
		expires, err := k.check(port, proof)
		if err == nil {
			return l, k, expires, nil
		}
		if err == ErrLinkExpired { //nolint:errorlint // check gives it as it is
			why = err
		}
	}
	return nil, nil, time.Time{}, why
}

// Context ends with the visit: with the caller's, when the link expires or is
// taken back, or when the sandbox ends. Its cause says which.
func (v *Visit) Context() context.Context { return v.in.ctx }

// Dial opens a byte stream to the port, which is closed with the visit. Nobody
// listening is fault.Unavailable.
func (v *Visit) Dial(context.Context) (net.Conn, error) {
	c, err := v.in.dial(v.port)
	if err != nil {
		return nil, err // not a nil connection inside an interface
	}
	return c, nil
}

// Close ends the visit.
func (v *Visit) Close() { v.end() }
