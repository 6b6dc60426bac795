package account

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/time/rate"
)

// Guess counts attempts to guess one secret.
type Guess struct {
	Count int
	// Last is when the last was made, Until when the next may be.
	Last, Until time.Time
}

// guessPolicy says how long the next attempt has to wait.
type guessPolicy struct {
	// free is how many attempts do not wait; each one more waits twice as long
	// as the one before, from a second up to most.
	free int
	most time.Duration
	// ease forgives one attempt each time it has passed; 0 is never.
	ease time.Duration
}

// The policies. Who mistypes waits little; who tries one password on many
// logins, or one login from many addresses, waits too. Who guesses must not lock
// the owner out: wide waits at most half a minute and does not hold where the
// owner is signed in, and house waits little, because a whole school may have
// one address.
var (
	nearGuesses  = guessPolicy{free: 5, most: 5 * time.Minute}
	wideGuesses  = guessPolicy{free: 20, most: 30 * time.Second}
	houseGuesses = guessPolicy{free: 100, most: 10 * time.Second, ease: time.Minute}
)

// forgetGuesses is after how long without an attempt all is forgotten.
const forgetGuesses = 24 * time.Hour

// next counts one attempt at a time, or says how long it has to wait.
func (p guessPolicy) next(g *Guess, at time.Time) (wait time.Duration) {
	if at.Before(g.Until) {
		return g.Until.Sub(at)
	}
	passed := at.Sub(g.Last)
	switch {
	case passed > forgetGuesses:
		g.Count, g.Last = 0, at
	case p.ease == 0:
		g.Last = at
	default:
		n := passed / p.ease
		g.Count = max(g.Count-int(n), 0)
		g.Last = g.Last.Add(n * p.ease)
	}
	g.Count++
	if over := g.Count - p.free; over >= 0 {
		wait := p.most
		if over < 20 {
			wait = min(wait, time.Second<<over)
		}
		g.Until = at.Add(wait)
	}
	return 0
}

// guess counts an attempt in the store, so that a restart forgives nothing. A
// key may hold what somebody typed, so only its hash is kept.
func (s *Service) guess(ctx context.Context, key string, p guessPolicy) error {
	var wait time.Duration
	if err := s.store.UpdateGuesses(ctx, hashSecret(key), func(g *Guess) error {
		wait = p.next(g, now())
		return nil
	}); err != nil {
		return err
	}
	if wait > 0 {
		return tooMany(wait, "too many attempts")
	}
	return nil
}

// forgive forgets all attempts after a right one.
func (s *Service) forgive(ctx context.Context, key string) error {
	return s.store.UpdateGuesses(ctx, hashSecret(key), func(g *Guess) error {
		*g = Guess{}
		return nil
	})
}

// takeBack uncounts one attempt that was right, and keeps those of others.
func (s *Service) takeBack(ctx context.Context, key string) error {
	return s.store.UpdateGuesses(ctx, hashSecret(key), func(g *Guess) error {
		if g.Count, g.Until = max(g.Count-1, 0), (time.Time{}); g.Count == 0 {
			*g = Guess{}
		}
		return nil
	})
}

// addressLimits bounds how often one address may knock, before anything is
// read or written for it.
type addressLimits struct {
	mu sync.Mutex
	// young and old are two generations: when young is full, old is forgotten.
	young, old map[string]*rate.Limiter
}

// Bounds of one address.
const (
	knocksPerSecond = 2
	knocksAtOnce    = 30
	// addressesKept is per generation.
	addressesKept = 10_000
)

func newAddressLimits() *addressLimits {
	return &addressLimits{young: map[string]*rate.Limiter{}}
}

// allow counts one knock, or says how long to wait.
func (a *addressLimits) allow(address string) error {
	key := addressKey(address)
	a.mu.Lock()
	l := a.young[key]
	if l == nil {
		if l = a.old[key]; l == nil {
			l = rate.NewLimiter(knocksPerSecond, knocksAtOnce)
		}
		if len(a.young) >= addressesKept {
			a.old, a.young = a.young, map[string]*rate.Limiter{}
		}
		a.young[key] = l
	}
	a.mu.Unlock()
	if !l.Allow() {
		return tooMany(time.Second/knocksPerSecond, "too many attempts from this address")
	}
	return nil
}

// addressKey puts the addresses of one IPv6 network together: whoever has one
// of them has all.
func addressKey(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return cutText(address, 64)
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is6() {
		p, err := ip.Prefix(64)
		if err == nil {
			return p.String()
		}
	}
	return ip.String()
}

// cutText makes text of others short and safe to show.
func cutText(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	for i := range text {
		if most--; most < 0 {
			return text[:i]
		}
	}
	return text
}
