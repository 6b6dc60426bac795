package netguard

import (
	"sync"
)

// Attempt is one try of a sandbox to reach something.
type Attempt struct {
	// How is "http" or "connect" for a request to the proxy, else "direct" for a
	// packet to anything else, which the filter dropped.
	How string `json:"how"`
	// Method and Target are what was asked for. They come from the sandbox and
	// are cut; a target is name:port.
	Method string `json:"method,omitempty"`
	Target string `json:"target"`
	// Address is what the name resolved to, as far as it came to that.
	Address string `json:"address,omitempty"`
	Allowed bool   `json:"allowed"`
	// Why says why not, in one word.
	Why Why `json:"why,omitempty"`
	// Count is how often the same was tried so far, this one included.
	Count int `json:"count"`
}

// Why is the reason for which an attempt failed.
type Why string

// The reasons.
const (
	NotListed    Why = "not_in_policy"
	NoName       Why = "address"         // asked for by an address and not by name
	Special      Why = "special_address" // the name resolves to what is not public
	OwnAddress   Why = "own_address"     // the name resolves to this host
	Mismatch     Why = "name_mismatch"   // TLS asks for another name than CONNECT
	NotTLS       Why = "not_tls"
	TooFast      Why = "rate"
	TooMany      Why = "connections"
	TooLarge     Why = "bytes"
	NotResolved  Why = "resolve"
	NotConnected Why = "dial"
	NotProxied   Why = "not_a_proxy_request"
	NotProxy     Why = "dropped" // a packet to anything but the proxy
)

// maxDistinct bounds how many different attempts of one sandbox are told apart.
const maxDistinct = 512

// attempts tells a log of attempts without letting a sandbox fill it: the same
// attempt is told the 1st, 10th, 100th … time, with the count.
type attempts struct {
	tell func(Attempt)

	mu    sync.Mutex
	seen  map[Attempt]int
	total int
}

// other stands for all attempts beyond maxDistinct.
const other = "…"

func (l *attempts) add(a Attempt) {
	a.Target, a.Method = clip(a.Target), clip(a.Method)
	l.mu.Lock()
	l.total++
	key := a
	if _, known := l.seen[key]; !known && len(l.seen) >= maxDistinct {
		key = Attempt{How: a.How, Target: other, Allowed: a.Allowed}
	}
	if l.seen == nil {
		l.seen = map[Attempt]int{}
	}
	l.seen[key]++
	n := l.seen[key]
	l.mu.Unlock()
	if l.tell == nil || !powerOfTen(n) {
		return
	}
	key.Count = n
	l.tell(key)
}

func powerOfTen(n int) bool {
	for n >= 10 && n%10 == 0 {
		n /= 10
	}
	return n == 1
}
