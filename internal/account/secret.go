package account

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// newID names a thing for ever; it is no secret.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()[:20]) }

// secretLength is in characters of 5 bits each.
const secretLength = 32

// newSecret cannot be guessed: 160 random bits behind a prefix.
func newSecret(prefix string) string {
	return prefix + strings.ToLower(rand.Text() + rand.Text())[:secretLength]
}

// hashSecret is what is kept of a secret. A fast hash does, because nobody can
// try 2^160 secrets.
func hashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// auditID sorts as time does.
func auditID(at time.Time) string {
	return fmt.Sprintf("aud_%016x%s", at.UnixMicro(), strings.ToLower(rand.Text()[:8]))
}
