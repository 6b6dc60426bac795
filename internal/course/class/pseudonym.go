package class

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
)

// pseudonymAlphabet leaves out letters and digits that are taken for others.
var pseudonymAlphabet = base32.NewEncoding("23456789ABCDEFGHJKLMNPQRSTUVWXYZ").WithPadding(base32.NoPadding)

// Pseudonym is what a person is called in one assignment while names are
// hidden: always the same there, another in each assignment, and not to be
// found out without the course's key.
func (c Course) Pseudonym(assignment, person string) string {
	mac := hmac.New(sha256.New, c.Key)
	// Names of assignments have no line end.
	mac.Write([]byte(assignment + "\n" + person))
	text := pseudonymAlphabet.EncodeToString(mac.Sum(nil))
	return text[:4] + "-" + text[4:8]
}
