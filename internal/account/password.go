package account

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
	"golang.org/x/text/unicode/norm"

	"assay/internal/fault"
)

// HashCost is the cost of one argon2id hash.
type HashCost struct {
	// Memory is in KiB.
	Memory  uint32
	Passes  uint32
	Threads uint8
}

// DefaultHash takes 19 MiB and some 30 ms.
var DefaultHash = HashCost{Memory: 19 << 10, Passes: 2, Threads: 1}

// Bounds of passwords, in characters.
const (
	MinPassword = 10
	MaxPassword = 256
)

const (
	hashesAtOnce = 2
	// hashesWaiting bounds who waits for a turn; at some 30 ms each this is two
	// seconds.
	hashesWaiting = 128
	saltBytes     = 16
	keyBytes      = 32
)

// checkPassword says whether somebody may choose a password.
func checkPassword(login, password string) error {
	n := utf8.RuneCountInString(password)
	switch {
	case !utf8.ValidString(password):
		return fault.Errorf(fault.Invalid, "the password is no text").WithHint("use characters that can be typed")
	case n < MinPassword:
		return fault.Errorf(fault.Invalid, "the password is shorter than %d characters", MinPassword).WithHint("a few words that do not belong together are easy to keep in mind")
	case n > MaxPassword:
		return fault.Errorf(fault.Invalid, "the password is longer than %d characters", MaxPassword).WithHint("shorten it")
	case strings.EqualFold(password, login), strings.Count(password, password[:1]) == len(password):
		return fault.Errorf(fault.Invalid, "the password is too easy to guess").WithHint("choose one that is not the login and not one letter")
	}
	return nil
}

// hasher makes and checks password hashes, few at once: each takes much memory
// and a processor.
type hasher struct {
	cost    HashCost
	turns   chan struct{}
	waiting atomic.Int32
	// work counts what was hashed, in KiB times passes.
	work atomic.Int64
	// dummy is checked where there is no password, so that the answer takes as
	// long.
	dummy string
}

func newHasher(cost HashCost) (*hasher, error) {
	if cost.Memory < 8 || cost.Passes < 1 || cost.Threads < 1 {
		return nil, fault.Errorf(fault.Invalid, "the cost of passwords %+v is too low to work", cost)
	}
	h := &hasher{cost: cost, turns: make(chan struct{}, hashesAtOnce)}
	var err error
	h.dummy, err = h.hash(context.Background(), newSecret(""))
	return h, err
}

// turn waits for a turn to hash; call done after it.
func (h *hasher) turn(ctx context.Context) (done func(), err error) {
	if h.waiting.Add(1) > hashesWaiting {
		h.waiting.Add(-1)
		return nil, tooMany(2*time.Second, "too many people sign in at once")
	}
	defer h.waiting.Add(-1)
	select {
	case h.turns <- struct{}{}:
		return func() { <-h.turns }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait to check a password: %w", context.Cause(ctx))
	}
}

func (h *hasher) key(password string, salt []byte, c HashCost, n uint32) []byte {
	h.work.Add(int64(c.Memory) * int64(c.Passes))
	// The same text may be typed as different bytes on two keyboards.
	return argon2.IDKey([]byte(norm.NFC.String(password)), salt, c.Passes, c.Memory, c.Threads, n)
}

// hash gives the PHC string of a password.
func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	done, err := h.turn(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	salt := make([]byte, saltBytes)
	rand.Read(salt)
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.cost.Memory, h.cost.Passes, h.cost.Threads,
		b64.EncodeToString(salt), b64.EncodeToString(h.key(password, salt, h.cost, keyBytes))), nil
}

// check says whether the password is that of a PHC string, and whether it
// should be hashed anew because the cost has changed. "" is no password: it
// takes as long and is never right.
func (h *hasher) check(ctx context.Context, phc, password string) (right, stale bool, err error) {
	none := phc == "" || utf8.RuneCountInString(password) > MaxPassword
	if none {
		phc, password = h.dummy, ""
	}
	cost, salt, key, err := parsePHC(phc)
	if err != nil {
		return false, false, err
	}
	done, err := h.turn(ctx)
	if err != nil {
		return false, false, err
	}
	defer done()
	same := subtle.ConstantTimeCompare(h.key(password, salt, cost, uint32(len(key))), key) == 1
	return same && !none, cost != h.cost, nil
}

// Bounds of what a stored hash may cost, so that a damaged row does no harm.
const (
	maxHashMemory = 1 << 20
	maxHashPasses = 64
)

// parsePHC reads "$argon2id$v=19$m=19456,t=2,p=1$salt$key".
func parsePHC(phc string) (c HashCost, salt, key []byte, err error) {
	bad := func(why string) (HashCost, []byte, []byte, error) {
		return HashCost{}, nil, nil, fault.Errorf(fault.Internal, "a password's hash cannot be read: %s", why)
	}
	parts := strings.Split(phc, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" {
		return bad("it is no argon2id")
	}
	if parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return bad("its version is unknown")
	}
	if n, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &c.Memory, &c.Passes, &c.Threads); err != nil || n != 3 ||
		parts[3] != fmt.Sprintf("m=%d,t=%d,p=%d", c.Memory, c.Passes, c.Threads) {
		return bad("its cost is malformed")
	}
	if c.Memory < 8 || c.Memory > maxHashMemory || c.Passes < 1 || c.Passes > maxHashPasses || c.Threads < 1 {
		return bad("its cost is out of bounds")
	}
	if salt, err = base64.RawStdEncoding.Strict().DecodeString(parts[4]); err != nil || len(salt) < 8 || len(salt) > 64 {
		return bad("its salt is malformed")
	}
	if key, err = base64.RawStdEncoding.Strict().DecodeString(parts[5]); err != nil || len(key) < 16 || len(key) > 64 {
		return bad("its key is malformed")
	}
	return c, salt, key, nil
}
