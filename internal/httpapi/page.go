package httpapi

import (
	"encoding/base64"

	"assay/internal/fault"
)

// defaultLimit is how long a page is when nobody says.
const defaultLimit = 50

// pageOf reads where a page begins and how long it is.
func pageOf(cursor string, limit int) (after string, n int, err error) {
	if limit == 0 {
		limit = defaultLimit
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", 0, fault.Errorf(fault.Invalid, "cursor: not one that this server gave").WithHint("pass \"next\" of the page before, or nothing")
	}
	return string(b), limit, nil
}

// cursorOf is what pageOf reads; "" where there is no further page.
func cursorOf(after string) string { return base64.RawURLEncoding.EncodeToString([]byte(after)) }
