package sandboxes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"
	"unicode"

	"assay/internal/account"
	"assay/internal/fault"
)

// rememberFor is how long an answer is kept for requests with the same key.
const rememberFor = 24 * time.Hour

// Answers of more than largeAnswer bytes are kept for largeFor only, so that
// nobody fills the store with them. What repeats the request later hears that it
// was done; it is not done again.
const (
	largeAnswer = 64 << 10
	largeFor    = 10 * time.Minute
)

var tooLarge = []byte(`{"error":{"kind":"conflict","text":"the request was carried out, but its answer was too large to be kept for so long","hint":"have the command write to a file, and read that"}}`)

// maxKey is the longest key of a request, in bytes.
const maxKey = 255

// ErrKeyReused is in the chain of the error that says: this key came with
// another request before.
var ErrKeyReused = errors.New("the key was used before")

// working is a request with a key under way. Those that repeat it wait.
type working struct {
	digest string
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when answer and err are set
	answer []byte
	err    error
}

// remembered is how an answer is kept: what came of it, or what went wrong when
// it is not certain that nothing was done.
type remembered struct {
	Answer json.RawMessage `json:"answer,omitempty"`
	Error  *keptFault      `json:"error,omitempty"`
}

type keptFault struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
}

func (r remembered) unpack(into any) error {
	if e := r.Error; e != nil {
		return fault.Errorf(fault.ParseKind(e.Kind), "%s", e.Text).WithHint("%s", e.Hint)
	}
	return json.Unmarshal(r.Answer, into)
}

// once does f, and for requests with a key at most once: one that repeats
// another gets the other's answer, also while that is still being worked at or
// its caller has gone. What refused a request before anything was done is not
// kept. f's answer must survive JSON.
func once[T any](ctx context.Context, s *Service, what, key string, request any, f func(context.Context) (T, error)) (answer T, err error) {
	if key == "" {
		return f(ctx)
	}
	if len(key) > maxKey {
		return answer, fault.Errorf(fault.Invalid, "a key has at most %d bytes", maxKey)
	}
	for _, r := range key {
		if !unicode.IsPrint(r) {
			return answer, fault.Errorf(fault.Invalid, "a key is printable text")
		}
	}
	text, err := json.Marshal(request)
	if err != nil {
		return answer, fault.Errorf(fault.Internal, "digest a request: %w", err)
	}
	sum := sha256.Sum256(text)
	owner := account.ActorOf(ctx).User
	w, first, err := s.begin(ctx, owner, what+":"+key, hex.EncodeToString(sum[:]))
	if err != nil {
		return answer, err
	}
	if first != nil {
		go func() { // its caller may go, those who repeat it come later; Close waits
			defer s.calls.Done()
			v, err := f(first)
			s.finish(first, owner, what+":"+key, w, v, err)
		}()
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		return answer, context.Cause(ctx)
	}
	if w.err != nil {
		return answer, w.err
	}
	var r remembered
	if err := json.Unmarshal(w.answer, &r); err != nil {
		return answer, fault.Errorf(fault.Internal, "read the answer to an earlier request: %w", err)
	}
	return answer, r.unpack(&answer)
}

// begin finds the request that this one repeats, or makes it the first: then
// the context to work in is given too, and the work is a call that Close waits
// for, until the caller says that it is done.
func (s *Service) begin(ctx context.Context, owner, key, digest string) (w *working, first context.Context, err error) {
	name := owner + "\x00" + key
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, nil, errClosed
	}
	if w = s.working[name]; w != nil {
		s.mu.Unlock()
		if w.digest != digest {
			return nil, nil, keyReused()
		}
		return w, nil, nil
	}
	first, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	w = &working{digest: digest, cancel: cancel, done: make(chan struct{})}
	s.working[name] = w
	s.calls.Add(1)
	s.mu.Unlock()
	before, err := s.o.Store.Remember(ctx, Request{Owner: owner, Key: key, Digest: digest, Node: s.o.Node, Made: time.Now()})
	switch {
	case err != nil:
	case before == nil:
		return w, first, nil
	case before.Digest != digest:
		err = keyReused()
	case before.Answer == nil:
		err = fault.Errorf(fault.Conflict, "a request with this key is under way on node %s", before.Node).WithHint("ask again in a moment")
	default:
		w.answer = before.Answer
	}
	// Others may wait already.
	w.err = err
	s.leave(name, w)
	s.calls.Done()
	return w, nil, err
}

func keyReused() error {
	return fault.Errorf(fault.Conflict, "another request came with the same key: %w", ErrKeyReused).WithHint("choose a new Idempotency-Key for each request")
}

// finish keeps the answer and gives it to all who wait.
func (s *Service) finish(ctx context.Context, owner, key string, w *working, v any, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWait)
	defer cancel()
	var r remembered
	forget := false
	switch fault.KindOf(err) {
	case fault.Invalid, fault.NotFound, fault.Conflict, fault.Exhausted, fault.Denied, fault.Unsupported, fault.Limited, fault.Unauthenticated:
		forget = err != nil // refused before anything was done
	case fault.Internal, fault.Unavailable:
	}
	if err != nil {
		r.Error = &keptFault{Kind: fault.KindOf(err).String(), Text: err.Error(), Hint: fault.HintOf(err)}
	} else if r.Answer, err = json.Marshal(v); err != nil {
		r.Error = &keptFault{Kind: fault.Internal.String(), Text: err.Error()}
	}
	w.answer, _ = json.Marshal(r) // strings and valid JSON
	var serr error
	if forget {
		w.err = err
		serr = s.o.Store.Forget(ctx, owner, key)
	} else {
		serr = s.o.Store.Answered(ctx, owner, key, w.answer)
	}
	if serr != nil {
		// The request stays under way in the store: it is not done again.
		s.o.Log.Error("remember an answer", "err", serr)
	}
	s.leave(owner+"\x00"+key, w)
}

func (s *Service) leave(name string, w *working) {
	w.cancel(nil)
	s.mu.Lock()
	delete(s.working, name)
	s.mu.Unlock()
	close(w.done)
}
