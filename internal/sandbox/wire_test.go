package sandbox_test

import (
	"testing"

	"assay/internal/fault"
)

// TestConnectUnsupported: the fake driver hands over no files, and says so.
func TestConnectUnsupported(t *testing.T) {
	e := newEnv(t, nil)
	a, b := e.create(nil), e.create(nil)
	if w, err := e.Connect(t.Context(), a, b); !fault.Is(err, fault.Unsupported) || fault.HintOf(err) == "" {
		t.Errorf("%v, %v", w, err)
	}
	if w, err := e.Connect(t.Context(), a, a); !fault.Is(err, fault.Invalid) {
		t.Errorf("with itself: %v, %v", w, err)
	}
	if err := b.Destroy(); err != nil {
		t.Fatal(err)
	}
	if w, err := e.Connect(t.Context(), a, b); !fault.Is(err, fault.Conflict) {
		t.Errorf("with one that has ended: %v, %v", w, err)
	}
}
