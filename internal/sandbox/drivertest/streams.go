package drivertest

import (
	"bytes"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/guest"
)

var streamTests = []test{
	{"binary_both_ways", testBinary},
	{"stdin", testStdin},
	{"stdout_and_stderr_are_apart", testApart},
	{"output_kept_at_both_ends", testKeepOutput},
	{"slow_reader_blocks_nobody", testSlowReader},
	{"environment", testEnvironment},
	{"arguments_are_not_interpreted", testArguments},
	{"64_at_once_write_and_execute", testTextFileBusy},
	{"output_files", testOutputFiles},
}

func testBinary(t *testing.T, b *box) {
	var want []byte
	for v := range 256 {
		want = append(want, byte(v))
	}
	var got bytes.Buffer
	b.exec(guest.ExecSpec{Argv: verb("bytes", "2000")}, guest.IO{Stdout: &got})
	if !bytes.Equal(got.Bytes(), bytes.Repeat(want, 2000)) {
		t.Errorf("%d bytes out of the machine are not the ones written", got.Len())
	}
	in := bytes.Repeat(want, 5000)
	got.Reset()
	b.exec(guest.ExecSpec{Argv: verb("cat")}, guest.IO{Stdin: bytes.NewReader(in), Stdout: &got})
	if !bytes.Equal(got.Bytes(), in) {
		t.Errorf("%d bytes there and back are not the %d given", got.Len(), len(in))
	}
}

func testStdin(t *testing.T, b *box) {
	count := func(r io.Reader) string {
		t.Helper()
		out, res := b.exec(guest.ExecSpec{Argv: verb("count")}, guest.IO{Stdin: r})
		if res.Exit.Cause != guest.Exited {
			t.Errorf("exit %+v", res.Exit)
		}
		return strings.TrimSpace(out)
	}
	if got := count(nil); got != "0" {
		t.Errorf("no input: %s bytes", got)
	}
	if got := count(strings.NewReader("")); got != "0" {
		t.Errorf("empty input: %s bytes", got)
	}
	if got := count(bytes.NewReader(make([]byte, 5_000_000))); got != "5000000" {
		t.Errorf("5000000 bytes of input: %s bytes", got)
	}
	// A program that does not read its input is no error, however much there is.
	_, res := b.exec(guest.ExecSpec{Argv: verb("exit", "3")}, guest.IO{Stdin: bytes.NewReader(make([]byte, 8<<20))})
	if res.Exit.Cause != guest.Exited || res.Exit.Code != 3 {
		t.Errorf("input that is not read: %+v", res.Exit)
	}
	// Input arrives while the program runs, and closing it is seen.
	r, w := io.Pipe()
	out := newOutput()
	bg := b.start(guest.ExecSpec{Argv: verb("cat")}, guest.IO{Stdin: r, Stdout: out})
	if _, err := io.WriteString(w, "first"); err != nil {
		t.Fatal(err)
	}
	out.started(t)
	if _, err := io.WriteString(w, "second"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if res, err := bg.wait(t, patience); err != nil || res.Exit.Code != 0 {
		t.Errorf("after the input was closed: %+v, %v", res.Exit, err)
	}
	if got := out.String(); got != "firstsecond" {
		t.Errorf("interactive input came back as %q", got)
	}
}

func testApart(t *testing.T, b *box) {
	var out, errs bytes.Buffer
	b.exec(guest.ExecSpec{Argv: verb("both")}, guest.IO{Stdout: &out, Stderr: &errs})
	if out.String() != "out\n" || errs.String() != "error\n" {
		t.Errorf("stdout %q, stderr %q", out.String(), errs.String())
	}
}

// testKeepOutput: the beginning and the end arrive, the middle is dropped and
// counted.
func testKeepOutput(t *testing.T, b *box) {
	var out bytes.Buffer
	_, res := b.exec(guest.ExecSpec{
		Argv: verb("tick", "20000", "0s"), KeepOutput: true, Limits: guest.Limits{Output: 10_000},
	}, guest.IO{Stdout: &out})
	if res.Exit.Cause != guest.Exited || !res.Exit.OutputTruncated || out.Len() != 10_000 {
		t.Errorf("exit %+v with %d bytes", res.Exit, out.Len())
	}
	got := out.String()
	if !strings.HasPrefix(got, "0\n1\n2\n") || !strings.HasSuffix(got, "19998\n19999\n") {
		t.Errorf("begins with %q and ends with %q", head(out.Bytes()), got[len(got)-20:])
	}
}

// gatedWriter takes a few bytes a moment, until it is opened.
type gatedWriter struct {
	n    int64
	open <-chan struct{}
}

func (w *gatedWriter) Write(p []byte) (int, error) {
	w.n += int64(len(p))
	select {
	case <-w.open:
	case <-time.After(50 * time.Millisecond):
	}
	return len(p), nil
}

// testSlowReader: a program that writes as fast as it can, to a reader that is
// slow, slows only itself down.
func testSlowReader(t *testing.T, b *box) {
	const size = 30 << 20 // more than all buffers on the way
	quick := func() time.Duration {
		begin := time.Now()
		b.probe("echo", "x")
		return time.Since(begin)
	}
	var alone []time.Duration
	for range 5 {
		alone = append(alone, quick())
	}
	open := make(chan struct{})
	slow := &gatedWriter{open: open}
	bg := b.start(guest.ExecSpec{Argv: verb("flood", "out", strconv.Itoa(size)), Limits: guest.Limits{Wall: time.Minute}}, guest.IO{Stdout: slow})
	var beside []time.Duration
	for range 15 {
		beside = append(beside, quick())
	}
	var other countingWriter
	begin := time.Now()
	b.exec(guest.ExecSpec{Argv: verb("flood", "out", "20000000")}, guest.IO{Stdout: &other})
	if d := time.Since(begin); other.n != 20_000_000 || d > loose(2*time.Second) {
		t.Errorf("20 MB of another command beside it: %d bytes in %v", other.n, d)
	}
	select {
	case <-bg.done:
		t.Fatal("the slow reader was not slow: nothing is proved")
	default:
	}
	close(open)
	if res, err := bg.wait(t, patience); err != nil || slow.n != size {
		t.Errorf("the slow reader got %d bytes of %d: %+v, %v", slow.n, size, res.Exit, err)
	}
	a, c := median(alone), median(beside)
	if c > 4*a+loose(50*time.Millisecond) {
		t.Errorf("a command takes %v beside a slow reader, %v alone", c, a)
	}
}

func median(d []time.Duration) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[len(d)/2]
}

func testEnvironment(t *testing.T, b *box) {
	want := []string{"A=1", "EMPTY=", "PATH=/bin", "Z=two words\nand a line"}
	got := b.probeAs(guest.ExecSpec{Env: want}, "env")
	if diff := cmp.Diff(strings.Join(want, "\n")+"\n", got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if got := b.probeAs(guest.ExecSpec{Env: []string{}}, "env"); got != "" {
		t.Errorf("an empty environment holds %q", got)
	}
	known := []string{"PATH", "HOME", "USER", "LANG", "TERM"}
	for _, kv := range lines(b.probe("env")) {
		if k, _, _ := strings.Cut(kv, "="); !slices.Contains(known, k) {
			t.Errorf("the default environment holds %s", kv)
		}
	}
}

func testArguments(t *testing.T, b *box) {
	want := []string{"a b", "$HOME", "*", "'", "", "\\n", "ü", "-x"}
	got := b.probe(append([]string{"args"}, want...)...)
	if got != strings.Join(want, "\n")+"\n" {
		t.Errorf("arguments arrive as %q", got)
	}
}

// testTextFileBusy: programs written into the machine and executed at once, 64
// in parallel, must never meet "text file busy".
func testTextFileBusy(t *testing.T, b *box) {
	if b.s.Native {
		t.Skip("the driver has no program files")
	}
	var self bytes.Buffer
	b.exec(guest.ExecSpec{Argv: verb("read", probePath)}, guest.IO{Stdout: &self})
	var wg sync.WaitGroup
	fails := make(chan string, 64)
	for i := range 64 {
		wg.Go(func() {
			name := "/tmp/program-" + strconv.Itoa(i)
			ctx := within(t, time.Minute)
			if _, err := b.WriteFile(ctx, name, bytes.NewReader(self.Bytes()), guest.WriteOptions{Mode: 0o755}); err != nil {
				fails <- "write: " + err.Error()
				return
			}
			var out lockedBuffer
			res, err := b.Run(ctx, guest.ExecSpec{Argv: []string{name, "echo", "ran"}, Limits: guest.Limits{Wall: 50 * time.Second}}, guest.IO{Stdout: &out, Stderr: &out})
			if err != nil || out.String() != "ran\n" {
				fails <- "execute: " + out.String() + errText(err, res)
			}
		})
	}
	wg.Wait()
	close(fails)
	for f := range fails {
		t.Error(f)
	}
}

func errText(err error, res guest.Result) string {
	if err != nil {
		return err.Error()
	}
	return string(res.Exit.Cause) + " " + strconv.Itoa(res.Exit.Code)
}

// testOutputFiles: declared files come out, whether the command was isolated or
// not.
func testOutputFiles(t *testing.T, b *box) {
	for _, isolated := range []bool{false, true} {
		_, res := b.exec(guest.ExecSpec{
			Argv: verb("append", "/tmp/out", "a line"), Isolated: isolated,
			Outputs: []string{"/tmp/out", "/tmp/absent", "/tmp"},
		}, guest.IO{})
		if len(res.Files) != 3 || string(res.Files[0].Data) != "a line\n" || res.Files[0].SHA256 == "" {
			t.Errorf("isolated %v: files %+v", isolated, res.Files)
			continue
		}
		for _, f := range res.Files[1:] {
			if f.Refused == "" || f.Data != nil {
				t.Errorf("isolated %v: %s came out: %+v", isolated, f.Path, f)
			}
		}
	}
}
