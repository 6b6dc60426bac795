package httpapi

import (
	"bytes"
	"context"
	"errors"
	"html/template"
	"net/http"
	"strconv"
	"strings"

	"assay/internal/fault"
	"assay/internal/sandboxes"
)

// refusal is what a visitor is told instead of a page of the sandbox. It has
// nothing of the sandbox or its owner in it.
type refusal struct {
	status      int
	title, hint string
	// again is after how many seconds the page looks by itself; 0 is never.
	again int
}

// deafAgain is how often a page looks whether somebody listens, in seconds.
const deafAgain = 2

// refusals is the one table from what went wrong to what a visitor is told.
var refusals = []struct {
	err error
	is  refusal
}{
	{errNoPlace, refusal{404, "There is no preview at this address", "Look at the link again, or ask for a new one.", 0}},
	{errOddMethod, refusal{405, "This cannot be asked of a preview", "Open the link in a browser.", 0}},
	{errOtherSite, refusal{403, "Another site asked for this", "Only pages of the same sandbox may. Open the link itself.", 0}},
	{errDeaf, refusal{502, "Nobody listens on this port yet", "This page looks again by itself. Is the program in the sandbox running, and on this port?", deafAgain}},
	{errGarbage, refusal{502, "The program in the sandbox gave no answer", "What it said is no answer that a browser understands.", 0}},
	{errSlow, refusal{504, "The program in the sandbox did not answer in time", "Try again when it is less busy.", 0}},
	{sandboxes.ErrNoLink, refusal{401, "A link is needed to see this", "Open the whole link that you were given. It opens the page in this browser only.", 0}},
	{sandboxes.ErrBadLink, refusal{403, "This link does not work here", "It is not a link to this port of this sandbox, it was cut short, or it was taken back. Ask for a new one.", 0}},
	{sandboxes.ErrLinkExpired, refusal{410, "This link has expired", "Ask for a new one.", 0}},
	{sandboxes.ErrGone, refusal{410, "The sandbox has ended", "There is nothing to see any more.", 0}},
	{sandboxes.ErrPaused, refusal{409, "The sandbox is paused", "This page looks again by itself.", 10}},
	{sandboxes.ErrManyVisits, refusal{503, "Too many visits at once", "This page looks again by itself.", 3}},
}

func refusalOf(err error) refusal {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return refusal{413, "This is too large to send", "Up to " + strconv.FormatInt(tooLarge.Limit, 10) + " bytes may be sent at once.", 0}
	}
	for _, known := range refusals {
		if errors.Is(err, known.err) {
			return known.is
		}
	}
	switch fault.KindOf(err) {
	case fault.NotFound:
		return refusal{404, "There is no such sandbox", "Look at the link again, or ask for a new one.", 0}
	case fault.Conflict:
		return refusal{410, "The sandbox has ended", "There is nothing to see any more.", 0}
	case fault.Limited:
		return refusal{429, "Too many requests", "Wait a moment.", 3}
	case fault.Unavailable, fault.Exhausted:
		return refusal{503, "The sandbox cannot be reached now", "This page looks again by itself.", 5}
	}
	return refusal{500, "Something went wrong on the server", "Try again.", 0}
}

var refusalPage = template.Must(template.New("refusal").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Title}}</title>
<style>
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 36rem; margin: 12vh auto; padding: 0 1rem }
h1 { font-size: 1.4rem }
</style></head><body><main><h1>{{.Title}}</h1><p>{{.Hint}}</p></main></body></html>
`))

// refuseVisit answers a visitor with what is wrong: a page for who looks at one,
// else a line of text.
func (s *server) refuseVisit(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		w.WriteHeader(499) // nobody is there; the status is for the log
		return
	}
	is := refusalOf(err)
	if is.status == http.StatusInternalServerError {
		s.Log.ErrorContext(r.Context(), "a preview failed", "error", err, "method", r.Method, "path", r.URL.Path)
	}
	h := w.Header()
	for _, name := range []string{"Set-Cookie", "Content-Length", "Content-Encoding", "Etag", "Last-Modified"} {
		h.Del(name)
	}
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'")
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if is.again > 0 && (is.status == http.StatusServiceUnavailable || is.status == http.StatusTooManyRequests || is.status == http.StatusBadGateway) {
		h.Set("Retry-After", strconv.Itoa(is.again))
	}
	if !reads || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(is.status)
		_, _ = w.Write([]byte(is.title + ". " + is.hint + "\n")) // a visitor who went away is no failure
		return
	}
	if is.again > 0 {
		h.Set("Refresh", strconv.Itoa(is.again))
	}
	var page bytes.Buffer
	if err := refusalPage.Execute(&page, struct{ Title, Hint string }{is.title, is.hint}); err != nil {
		s.Log.ErrorContext(r.Context(), "write a page", "error", err)
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(is.status)
	_, _ = w.Write(page.Bytes())
}
