package account

import (
	"context"
	"strings"
	"sync"
	"testing"

	"assay/internal/fault"
)

func newTestHasher(t testing.TB, c HashCost) *hasher {
	t.Helper()
	h, err := newHasher(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	h := newTestHasher(t, HashCost{Memory: 64, Passes: 1, Threads: 1})
	phc, err := h.hash(t.Context(), "käse und brot")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(phc, "$argon2id$v=19$m=64,t=1,p=1$") {
		t.Errorf("the hash is %q", phc)
	}
	dearer := newTestHasher(t, HashCost{Memory: 128, Passes: 1, Threads: 1})
	for _, tt := range []struct {
		name, phc, password string
		h                   *hasher
		right, stale        bool
	}{
		{"right", phc, "käse und brot", h, true, false},
		{"typed_otherwise", phc, "ka\u0308se und brot", h, true, false},
		{"wrong", phc, "kase und brot", h, false, false},
		{"empty", phc, "", h, false, false},
		{"none", "", "", h, false, false},
		{"dummy", "", h.dummy, h, false, false},
		{"old_cost", phc, "käse und brot", dearer, true, true},
	} {
		right, stale, err := tt.h.check(t.Context(), tt.phc, tt.password)
		if err != nil || right != tt.right || stale != tt.stale {
			t.Errorf("%s: %v, %v, %v; want %v, %v", tt.name, right, stale, err, tt.right, tt.stale)
		}
	}
	other, err := h.hash(t.Context(), "käse und brot")
	if err != nil || other == phc {
		t.Errorf("the same password twice: %q, %v; want another salt", other, err)
	}
}

func TestPasswordRules(t *testing.T) {
	t.Parallel()
	for password, good := range map[string]bool{
		"correct horse": true, "ten lettrs": true, strings.Repeat("xy", 128): true,
		"": false, "nine char": false, strings.Repeat("xy", 129): false, "aaaaaaaaaaaa": false, "jane@example": false, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff": false,
	} {
		if err := checkPassword("Jane@Example", password); (err == nil) != good {
			t.Errorf("%q: %v", password, err)
		} else if err != nil && strings.Contains(err.Error(), password) && password != "" {
			t.Errorf("the error tells the password: %v", err)
		}
	}
}

func TestFewHashesAtOnce(t *testing.T) {
	t.Parallel()
	h := newTestHasher(t, HashCost{Memory: 64, Passes: 1, Threads: 1})
	ctx, cancel := context.WithCancel(t.Context())
	var held []func()
	for range hashesAtOnce {
		done, err := h.turn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, done)
	}
	var wg sync.WaitGroup
	got := make(chan error, hashesWaiting+1)
	for range hashesWaiting + 1 {
		wg.Go(func() {
			_, _, err := h.check(ctx, "", "x")
			got <- err
		})
	}
	if err := <-got; !fault.Is(err, fault.Limited) {
		t.Errorf("one more than may wait got %v", err)
	}
	cancel()
	wg.Wait()
	for _, done := range held {
		done()
	}
	if _, _, err := h.check(t.Context(), "", "x"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func FuzzParsePHC(f *testing.F) {
	h := newTestHasher(f, HashCost{Memory: 8, Passes: 1, Threads: 1})
	f.Add(h.dummy)
	f.Add("$argon2id$v=19$m=4294967295,t=4294967295,p=255$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$argon2id$v=19$m=8,t=1,p=0$$")
	f.Add("$$$$$")
	f.Fuzz(func(t *testing.T, phc string) {
		c, salt, key, err := parsePHC(phc)
		if err != nil {
			if !fault.Is(err, fault.Internal) || strings.Contains(err.Error(), phc) && len(phc) > 8 {
				t.Errorf("the error is %v", err)
			}
			return
		}
		if c.Memory > maxHashMemory || c.Passes > maxHashPasses || c.Threads == 0 || len(salt) == 0 || len(key) < 16 {
			t.Errorf("%q gives %+v", phc, c)
		}
	})
}

func FuzzCleanUserCode(f *testing.F) {
	f.Add("bcdf-ghjk")
	f.Add("\x00ſK\u212a")
	f.Fuzz(func(t *testing.T, typed string) {
		got := cleanUserCode(typed)
		if strings.Trim(got, userCodeLetters) != "" || len(got) > 64 || cleanUserCode(got) != got {
			t.Errorf("%q gives %q", typed, got)
		}
	})
}

func FuzzCutText(f *testing.F) {
	f.Add("a\r\nb\u202e\xff", 3)
	f.Fuzz(func(t *testing.T, text string, most int) {
		if most < 0 || most > 1000 {
			return
		}
		got := cutText(text, most)
		if n := len([]rune(got)); n > most || cutText(got, most) != got || strings.ContainsAny(got, "\r\n\x00") {
			t.Errorf("%q cut to %d is %q", text, most, got)
		}
	})
}
