// Package blobtest is the one suite that every store of blobs must pass. Start
// with Run; S3 gives a server to open one on.
//
// It must not know how a store keeps its bytes.
package blobtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"assay/internal/blob"
	"assay/internal/fault"
)

// Opened is an empty store, and a way to spoil what it keeps.
type Opened struct {
	blob.Store
	// Spoil gives a blob other bytes behind the store's back.
	Spoil func(digest string, other []byte)
}

// Run runs the suite. open gives a new empty store each time; it is closed by
// the test's cleanup.
func Run(t *testing.T, open func(t *testing.T) Opened) {
	tests := []struct {
		name string
		run  func(t *testing.T, s Opened)
	}{
		{"WhatIsPutComesBack", whatIsPutComesBack},
		{"PutTwiceIsOnce", putTwiceIsOnce},
		{"TooLargeIsRefused", tooLargeIsRefused},
		{"BrokenReaderLeavesNothing", brokenReaderLeavesNothing},
		{"CancelledPutLeavesNothing", cancelledPutLeavesNothing},
		{"SpoiledIsNoticed", spoiledIsNoticed},
		{"SpoiledIsMended", spoiledIsMended},
		{"NothingThere", nothingThere},
		{"BadDigests", badDigests},
		{"ListIsPaged", listIsPaged},
		{"ManyPutAtOnce", manyPutAtOnce},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(t, open(t))
		})
	}
}

const limit = 64 << 20

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func put(t *testing.T, s blob.Store, b []byte) string {
	t.Helper()
	digest, size, err := s.Put(t.Context(), bytes.NewReader(b), limit)
	if err != nil {
		t.Fatal(err)
	}
	if want := digestOf(b); digest != want || size != int64(len(b)) {
		t.Fatalf("put %s of %d bytes, want %s of %d", digest, size, want, len(b))
	}
	return digest
}

func get(t *testing.T, s blob.Store, digest string) ([]byte, error) {
	t.Helper()
	r, err := s.Open(t.Context(), digest)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func wantKind(t *testing.T, what string, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("%s: %v (%s), want %s", what, err, fault.KindOf(err), kind)
	}
}

func wantNone(t *testing.T, s blob.Store) {
	t.Helper()
	if list, err := s.List(t.Context(), "", 10); err != nil || len(list) != 0 {
		t.Errorf("the store has %v, %v; want nothing", list, err)
	}
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(n)})
	// It never fails.
	_, _ = r.Read(b)
	return b
}

func whatIsPutComesBack(t *testing.T, s Opened) {
	for _, size := range []int{0, 1, 4096, 1 << 20, 20 << 20} {
		want := randomBytes(size)
		digest := put(t, s, want)
		got, err := get(t, s, digest)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: got %d, %v", size, len(got), err)
		}
		info, err := s.Stat(t.Context(), digest)
		if err != nil || info.Digest != digest || info.Size != int64(size) || time.Since(info.Modified).Abs() > time.Hour {
			t.Errorf("%d bytes: info %+v, %v", size, info, err)
		}
		if err := s.Delete(t.Context(), digest); err != nil {
			t.Error(err)
		}
		_, err = s.Stat(t.Context(), digest)
		wantKind(t, "stat after delete", err, fault.NotFound)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func putTwiceIsOnce(t *testing.T, s Opened) {
	if a, b := put(t, s, []byte("x")), put(t, s, []byte("x")); a != b {
		t.Errorf("%s and %s", a, b)
	}
	if list, err := s.List(t.Context(), "", 10); err != nil || len(list) != 1 {
		t.Errorf("the store has %v, %v; want one", list, err)
	}
}

func tooLargeIsRefused(t *testing.T, s Opened) {
	_, _, err := s.Put(t.Context(), strings.NewReader("12345"), 4)
	wantKind(t, "five bytes of four", err, fault.Exhausted)
	wantNone(t, s)
	if _, size, err := s.Put(t.Context(), strings.NewReader("1234"), 4); err != nil || size != 4 {
		t.Errorf("four bytes of four: %d, %v", size, err)
	}
}

func brokenReaderLeavesNothing(t *testing.T, s Opened) {
	broken := errors.New("broken")
	_, _, err := s.Put(t.Context(), io.MultiReader(strings.NewReader("begin"), iotest.ErrReader(broken)), limit)
	if err != broken { //nolint:errorlint // it is promised as it is
		t.Errorf("got %v, want the reader's own error", err)
	}
	wantNone(t, s)
}

func cancelledPutLeavesNothing(t *testing.T, s Opened) {
	ctx, cancel := context.WithCancel(t.Context())
	// It would never end.
	r := readFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	_, _, err := s.Put(ctx, r, limit)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it to be cancelled", err)
	}
	wantNone(t, s)
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func spoiledIsNoticed(t *testing.T, s Opened) {
	want := randomBytes(100_000)
	for name, other := range map[string][]byte{
		"a byte":  append([]byte{want[0] ^ 1}, want[1:]...),
		"shorter": want[:50_000],
		"longer":  append(slices.Clone(want), 0),
		"empty":   {},
	} {
		digest := put(t, s, want)
		s.Spoil(digest, other)
		_, err := get(t, s, digest)
		wantKind(t, name, err, fault.Conflict)
		if err := s.Delete(t.Context(), digest); err != nil {
			t.Error(err)
		}
	}
}

func spoiledIsMended(t *testing.T, s Opened) {
	digest := put(t, s, []byte("whole"))
	s.Spoil(digest, []byte("hal"))
	put(t, s, []byte("whole"))
	if got, err := get(t, s, digest); err != nil || string(got) != "whole" {
		t.Errorf("got %q, %v", got, err)
	}
}

func nothingThere(t *testing.T, s Opened) {
	digest := digestOf([]byte("nothing"))
	_, err := s.Open(t.Context(), digest)
	wantKind(t, "open", err, fault.NotFound)
	_, err = s.Stat(t.Context(), digest)
	wantKind(t, "stat", err, fault.NotFound)
	if err := s.Delete(t.Context(), digest); err != nil {
		t.Errorf("delete: %v", err)
	}
}

func badDigests(t *testing.T, s Opened) {
	hexa := strings.TrimPrefix(digestOf(nil), "sha256:")
	for _, digest := range []string{"", "sha256:", hexa, "md5:" + hexa, "sha256:" + hexa + "0", "sha256:" + strings.ToUpper(hexa), "sha256:../../" + hexa[6:], "sha256:" + hexa[1:] + "/"} {
		_, err := s.Open(t.Context(), digest)
		wantKind(t, "open "+digest, err, fault.Invalid)
		_, err = s.Stat(t.Context(), digest)
		wantKind(t, "stat "+digest, err, fault.Invalid)
		wantKind(t, "delete "+digest, s.Delete(t.Context(), digest), fault.Invalid)
		if digest != "" {
			_, err = s.List(t.Context(), digest, 1)
			wantKind(t, "list "+digest, err, fault.Invalid)
		}
	}
	_, err := s.List(t.Context(), "", 0)
	wantKind(t, "list nothing", err, fault.Invalid)
}

func listIsPaged(t *testing.T, s Opened) {
	var want []string
	for i := range 25 {
		want = append(want, put(t, s, []byte{byte(i)}))
	}
	slices.Sort(want)
	for _, page := range []int{1, 7, 25, 100} {
		var got []string
		for after := ""; ; {
			list, err := s.List(t.Context(), after, page)
			if err != nil {
				t.Fatal(err)
			}
			for _, info := range list {
				if info.Size != 1 {
					t.Errorf("%+v is not of one byte", info)
				}
				got = append(got, info.Digest)
			}
			if len(list) < page {
				break
			}
			after = list[len(list)-1].Digest
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: got %d digests %v, want %d", page, len(got), got, len(want))
		}
	}
}

func manyPutAtOnce(t *testing.T, s Opened) {
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 5 {
				want := randomBytes(1000 + (worker+i)%5)
				digest, _, err := s.Put(t.Context(), bytes.NewReader(want), limit)
				if err != nil {
					t.Error(err)
					continue
				}
				got, err := get(t, s, digest)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("got %d bytes, %v", len(got), err)
				}
			}
		})
	}
	wg.Wait()
	if list, err := s.List(t.Context(), "", 100); err != nil || len(list) != 5 {
		t.Errorf("the store has %d, %v; want 5", len(list), err)
	}
}
