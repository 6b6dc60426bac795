package judge

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
)

func TestTranscript(t *testing.T) {
	t.Parallel()
	rec := &transcript{}
	program, interactor := rec.of('>'), rec.of('<')
	for _, say := range []struct {
		who  io.Writer
		text string
	}{
		{program, "? 5\n? 6\n"}, {interactor, "low"}, {interactor, "er\n"}, {program, "half"}, {interactor, "other\n"}, {program, "\xff\n"},
	} {
		if _, err := io.WriteString(say.who, say.text); err != nil {
			t.Fatal(err)
		}
	}
	want := ">? 5\n>? 6\n<lower\n>half\n<other\n>\uFFFD\n"
	if got := rec.String(); got != want {
		t.Errorf("transcript is\n%s\nwant\n%s", got, want)
	}
	for range MaxTranscript {
		if _, err := io.WriteString(program, "more\n"); err != nil {
			t.Fatal(err)
		}
	}
	if got := rec.String(); len(got) > MaxTranscript+8 || !strings.HasSuffix(got, "\n…\n") {
		t.Errorf("a long transcript has %d bytes and ends with %q", len(got), got[len(got)-10:])
	}
}

// A relay never makes a writer wait, gives its reader all that was written, and
// then the end.
func TestRelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRelay(nil)
		fromInteractor, toInteractor := r.ends(true)
		fromProgram, toProgram := r.ends(false)
		text := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		for range 2 {
			for _, w := range []io.Writer{toInteractor, toProgram} {
				if n, err := w.Write(text); n != len(text) || err != nil {
					t.Fatalf("Write = %d, %v", n, err)
				}
			}
		}
		got := make(chan []byte)
		go func() {
			data, err := io.ReadAll(fromProgram)
			if err != nil {
				t.Error(err)
			}
			got <- data
		}()
		synctest.Wait() // it reads what is there, and waits
		r.DrainA()
		if data := <-got; !bytes.Equal(data, append(bytes.Clone(text), text...)) {
			t.Errorf("read %d bytes, want %d", len(data), 2*len(text))
		}
		// Nobody is blamed for talking to one that has gone.
		if n, err := toInteractor.Write(text); n != len(text) || err != nil {
			t.Errorf("Write to one that ended = %d, %v", n, err)
		}
		r.Close()
		if data, err := io.ReadAll(fromInteractor); len(data) != 2*len(text) || err != nil {
			t.Errorf("read %d bytes, %v", len(data), err)
		}
	})
}

func TestSpool(t *testing.T) {
	before := spooled(t)
	for name, size := range map[string]int{"empty": 0, "small": 100, "all_of_memory": spoolMemory, "long": spoolMemory + 5} {
		t.Run(name, func(t *testing.T) {
			s := &spool{}
			want := bytes.Repeat([]byte("x"), size)
			for part := range splitBytes(want, 70_000) {
				if _, err := s.Write(part); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				got, err := io.ReadAll(s.reader())
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("read %d bytes, %v, want %d", len(got), err, size)
				}
			}
			if s.blank() != (size == 0) {
				t.Errorf("blank = %v", s.blank())
			}
			s.close()
		})
	}
	if after := spooled(t); after != before {
		t.Errorf("%d files are left", after-before)
	}
}

func splitBytes(b []byte, n int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			k := min(n, len(b))
			if !yield(b[:k]) {
				return
			}
			b = b[k:]
		}
	}
}

func spooled(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "assay-output-") {
			n++
		}
	}
	return n
}

func TestKeyedLocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var k keyedLocks
		unlock := k.lock("a")
		k.lock("b")() // another name does not wait
		entered := false
		go func() {
			defer k.lock("a")()
			entered = true
		}()
		synctest.Wait()
		if entered {
			t.Error("two hold the same lock")
		}
		unlock()
		synctest.Wait()
		if !entered || len(k.locks) != 0 {
			t.Errorf("entered %v, %d locks are left", entered, len(k.locks))
		}
	})
}

func TestTestlibScore(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"points 12.5 good": "12.5", "note\npoints 3\n": "3", "  points 0": "0",
		"": "", "points": "", "points x": "", "score 3": "",
	} {
		got, err := testlibScore(text)
		if (err != nil) != (want == "") || err == nil && got.String() != want {
			t.Errorf("testlibScore(%q) = %s, %v, want %q", text, got, err, want)
		}
	}
}
