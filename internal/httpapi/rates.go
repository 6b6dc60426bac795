package httpapi

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"assay/internal/account"
)

const (
	// ratesKept bounds how many callers are told apart; beyond it the table
	// forgets all that are not at their limit.
	ratesKept = 10_000
	// rateBurst is how many seconds' worth of requests may come at once.
	rateBurst = 10
)

// rates holds each caller to so many requests in a second. It is safe for use
// from many goroutines.
type rates struct {
	each rate.Limit

	mu   sync.Mutex
	held map[string]*rate.Limiter
}

func newRates(perSecond float64) *rates {
	return &rates{each: rate.Limit(perSecond), held: map[string]*rate.Limiter{}}
}

// allow takes one request of a caller: a token, a user, or nobody at an address.
func (r *rates) allow(a account.Actor, from string) bool {
	if r.each <= 0 {
		return true
	}
	key := "from " + from
	switch {
	case a.Token != "":
		key = "token " + a.Token
	case a.User != "":
		key = "user " + a.User
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.held[key]
	if l == nil {
		if len(r.held) >= ratesKept {
			r.forget()
		}
		l = rate.NewLimiter(r.each, max(1, int(r.each)*rateBurst))
		r.held[key] = l
	}
	return l.Allow()
}

// forget drops those who have not asked for a while. The caller holds mu.
func (r *rates) forget() {
	now := time.Now()
	for key, l := range r.held {
		if l.TokensAt(now) >= float64(l.Burst()) {
			delete(r.held, key)
		}
	}
	if len(r.held) >= ratesKept {
		clear(r.held)
	}
}
