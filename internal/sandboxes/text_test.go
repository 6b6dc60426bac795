package sandboxes_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"assay/internal/sandboxes"
)

func TestWaitAnswerKeepsTheCallerListening(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		takes time.Duration
		err   error
		want  string
		begun bool
	}{
		"at_once":  {0, nil, "", false},
		"short":    {9 * time.Second, nil, "", false},
		"long":     {35 * time.Second, nil, "   ", true},
		"fails":    {5 * time.Second, errors.New("x"), "", false},
		"too_late": {15 * time.Second, errors.New("x"), " ", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var b strings.Builder
				flushed := 0
				got, begun, err := sandboxes.WaitAnswer(t.Context(), &b, func() { flushed++ }, func(context.Context) (int, error) {
					time.Sleep(tt.takes)
					return 7, tt.err
				})
				if got != 7 || begun != tt.begun || !errors.Is(err, tt.err) || b.String() != tt.want || flushed != len(tt.want) {
					t.Errorf("%d, %v, %v, %q, %d flushes", got, begun, err, b.String(), flushed)
				}
			})
		})
	}
}

// gone is a caller that does not listen.
type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWaitAnswerEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		_, _, err := sandboxes.WaitAnswer(t.Context(), gone{}, func() {}, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, context.Cause(ctx)
		})
		if !errors.Is(err, context.Canceled) || time.Since(begin) > time.Minute {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}
