package classes

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"testing"

	"assay/internal/course"
	"assay/internal/course/grading"
	"assay/internal/fault"
)

// onePackage gives the same package for every digest.
type onePackage []byte

func (onePackage) Put(context.Context, io.Reader, int64) (string, int64, error) {
	return "", 0, fault.Errorf(fault.Unsupported, "nothing is kept here")
}

func (p onePackage) Open(context.Context, string) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(p)), nil
}

// preparing counts what it prepares by name; first, if not nil, runs at the first time.
type preparing struct {
	mu    sync.Mutex
	times map[string]int
	first func(ctx context.Context) error
}

func (p *preparing) Prepare(ctx context.Context, a *course.Assignment) error {
	p.mu.Lock()
	p.times[a.Name]++
	first := p.first
	p.first = nil
	p.mu.Unlock()
	if first != nil {
		return first(ctx)
	}
	return nil
}

func (*preparing) Grade(context.Context, *course.Assignment, course.Submission, func(string)) (course.Grade, error) {
	return course.Grade{}, fault.Errorf(fault.Unsupported, "nothing is graded here")
}

func (*preparing) Verify(context.Context, *course.Assignment, grading.VerifyOptions) ([]grading.Check, error) {
	return nil, fault.Errorf(fault.Unsupported, "nothing is checked here")
}

func newTestFolders(t *testing.T) *folders {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, text := range map[string]string{
		"assignment.yaml": "title: T\nmode: io\nlanguage: python3\nfiles: [a.py]\ntests:\n  - {name: one, points: 1, stdin: \"1\", stdout: \"1\"}\n",
		"solution/a.py":   "print(input())",
	} {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return newFolders(onePackage(b.Bytes()), t.TempDir())
}

func TestAssignmentsUsedLatelyStayPrepared(t *testing.T) {
	t.Parallel()
	f, g := newTestFolders(t), &preparing{times: map[string]int{}}
	use := func(i int) string {
		name := fmt.Sprint("lab", i)
		if _, err := f.prepared(t.Context(), g, name, "digest"); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for i := range maxHeld {
		use(i)
	}
	use(0) // so that 1 is the one that was used longest ago
	use(maxHeld)
	for _, tt := range []struct{ lab, times int }{{maxHeld, 1}, {0, 1}, {1, 2}} {
		if name := use(tt.lab); g.times[name] != tt.times {
			t.Errorf("%s was prepared %d times, want %d", name, g.times[name], tt.times)
		}
	}
	if len(f.held) != maxHeld {
		t.Errorf("%d are held, want %d", len(f.held), maxHeld)
	}
}

func TestWhoGoesAwayLeavesThePreparingToOthers(t *testing.T) {
	t.Parallel()
	f := newTestFolders(t)
	entered := make(chan struct{})
	g := &preparing{times: map[string]int{}, first: func(ctx context.Context) error {
		close(entered)
		<-ctx.Done()
		return context.Cause(ctx)
	}}
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := f.prepared(ctx, g, "lab", "digest"); err == nil {
			t.Error("who went away has an assignment")
		}
	})
	<-entered
	for range 3 {
		all.Go(func() {
			if a, err := f.prepared(t.Context(), g, "lab", "digest"); err != nil || a == nil {
				t.Errorf("another one got %v, %v", a, err)
			}
		})
	}
	leave()
	all.Wait()
	if n := g.times["lab"]; n != 2 {
		t.Errorf("prepared %d times, want once for who went away and once for all others", n)
	}
}
