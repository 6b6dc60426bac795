package app

import "assay/internal/sandbox"

// withMemory gives a template whose machines have at least so much memory, as
// far as this host can have two of them, for a submission and its checker.
// Sizes go in doublings, since each is a snapshot of its own; they share the
// image.
func withMemory(t sandbox.Template, want, host int64) sandbox.Template {
	if t.Shape.Memory <= 0 {
		return t
	}
	for t.Shape.Memory < want && t.Shape.Memory*2 <= host/2 {
		t.Shape.Memory *= 2
	}
	return t
}
