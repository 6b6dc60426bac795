package bench

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"

	"assay/internal/fault"
)

// nativeRuns runs the programs whose times are compared without a machine: how
// much the host's own times differ is the least that a judge's can.
type nativeRuns struct {
	dir string
	// argv starts the program of a language; there is none for a language that
	// the host lacks.
	argv  map[string][]string
	times map[string][]float64
}

// newNativeRuns builds what the host can run, for the given speeds. close
// removes it.
func newNativeRuns(ctx context.Context, speeds map[string]speed) (*nativeRuns, error) {
	dir, err := os.MkdirTemp("", "assay-stability-")
	if err != nil {
		return nil, err
	}
	n := &nativeRuns{dir: dir, argv: map[string][]string{}, times: map[string][]float64{}}
	for _, language := range StabilityLanguages {
		if err := n.build(ctx, language, speeds[language]); err != nil {
			return nil, errors.Join(err, n.close())
		}
	}
	return n, nil
}

func (n *nativeRuns) close() error { return os.RemoveAll(n.dir) }

func (n *nativeRuns) build(ctx context.Context, language string, s speed) error {
	file := submissionOf(0, language, kinds[spreadKind], s.rounds(kinds[spreadKind].share)).Files[0]
	source := filepath.Join(n.dir, file.Name)
	if err := os.WriteFile(source, file.Data, 0o600); err != nil {
		return err
	}
	if language != "c" {
		if tool, err := exec.LookPath(language); err == nil {
			n.argv[language] = []string{tool, source}
		}
		return nil
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return nil // a host without a compiler has nothing to compare with
	}
	program := filepath.Join(n.dir, "program")
	if out, err := exec.CommandContext(ctx, gcc, "-O2", "-o", program, source).CombinedOutput(); err != nil {
		return fault.Errorf(fault.Unsupported, "compile the program to compare with: %w: %s", err, out).WithHint("apt-get install gcc libc6-dev")
	}
	n.argv[language] = []string{program}
	return nil
}

// run runs each language's program count times, atOnce at the same time.
func (n *nativeRuns) run(ctx context.Context, count, atOnce int) error {
	for _, language := range StabilityLanguages {
		argv := n.argv[language]
		if argv == nil {
			continue
		}
		for done := 0; done < count; {
			together := min(atOnce, count-done)
			got, errs := make([]float64, together), make([]error, together)
			var wg sync.WaitGroup
			for i := range together {
				wg.Go(func() { got[i], errs[i] = nativeTime(ctx, argv) })
			}
			wg.Wait()
			if err := errors.Join(errs...); err != nil {
				return err
			}
			n.times[language] = append(n.times[language], got...)
			done += together
		}
	}
	return nil
}

// nativeTime is the processor time of one run, in microseconds.
func nativeTime(ctx context.Context, argv []string) (float64, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin = bytes.NewReader([]byte("21\n"))
	if err := cmd.Run(); err != nil {
		return 0, fault.Errorf(fault.Internal, "run %s natively: %w", argv[0], err)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return float64(used.Nanoseconds()) / 1e3, nil
}

// spread is p99 / p50 of the times of a language; 0 where there are none.
func (n *nativeRuns) spread(language string) (runs int, p99 float64) {
	sorted := slices.Sorted(slices.Values(n.times[language]))
	if len(sorted) == 0 {
		return 0, 0
	}
	return len(sorted), ratio(percentile(sorted, 0.99), percentile(sorted, 0.50))
}
