package pytest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/course"
	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/judge"
	"assay/internal/sandbox"
)

// script is a process for tests: it talks in frames and ends as it says.
type script func(ctx context.Context, in *bufio.Scanner, out, stderr io.Writer) sandbox.Exit

// scripted is a machine that runs a script for each exec; the last one again and
// again.
type scripted struct {
	judge.Machine
	scripts []script
	execs   int
}

func (m *scripted) Exec(ctx context.Context, spec sandbox.ExecSpec, stdin io.Reader, stdout, stderr io.Writer) (sandbox.Result, error) {
	s := m.scripts[min(m.execs, len(m.scripts)-1)]
	m.execs++
	in := bufio.NewScanner(stdin)
	in.Buffer(nil, 2*maxFrame)
	if _, err := io.WriteString(stdout, awake); err != nil || !in.Scan() || in.Text() != "" {
		return sandbox.Result{}, fault.Errorf(fault.Internal, "the process was not let go")
	}
	e := s(ctx, in, stdout, stderr)
	if ctx.Err() != nil {
		return sandbox.Result{}, ctx.Err()
	}
	return sandbox.Result{Exit: e}, nil
}

func (m *scripted) MakeDir(context.Context, string, fs.FileMode) error { return nil }

func (m *scripted) WriteTree(_ context.Context, _ string, tree io.Reader) error {
	_, err := io.Copy(io.Discard, tree)
	return err
}

func (m *scripted) ReadTree(context.Context, string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("")), nil
}
func (m *scripted) Remove(context.Context, string) error { return nil }
func (m *scripted) Describe() judge.MachineInfo          { return judge.MachineInfo{} }
func (m *scripted) Ended() (sandbox.Cause, bool)         { return "", false }
func (m *scripted) Destroy(context.Context) error        { return nil }

// scriptedMachines gives the student's machine first, then the grader's.
type scriptedMachines struct {
	judge.Machines
	made []*scripted
}

func (m *scriptedMachines) Create(context.Context, judge.MachineRequest) (judge.Machine, error) {
	next := m.made[0]
	m.made = m.made[1:]
	return next, nil
}

const (
	testA = "test_x.py::a"
	testB = "test_x.py::b"
)

var exited = sandbox.Exit{Cause: guest.Exited}

// teacher runs two tests of one question each. A test passes when the answer is
// "right"; whatever the student's process does, the second test is run.
func teacher(_ context.Context, in *bufio.Scanner, out, _ io.Writer) sandbox.Exit {
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	say(`{"k":"report","t":"collected","ids":[%q,%q]}`, testA, testB)
	epoch := 0
	for _, test := range []string{testA, testB} {
		say(`{"k":"report","t":"start","id":%q}`, test)
		say(`{"k":"report","t":"phase","id":%q,"when":"setup","outcome":"passed"}`, test)
		say(`{"k":"ask","op":"call","epoch":%d}`, epoch)
		outcome := "failed"
		for in.Scan() {
			line := in.Text()
			if strings.Contains(line, `"k":"ask"`) {
				say(`{"k":"answer","v":null}`)
				continue
			}
			if strings.Contains(line, `"k":"out"`) {
				continue
			}
			if strings.Contains(line, `"right"`) {
				outcome = "passed"
			}
			if strings.Contains(line, `"dead"`) {
				epoch++
			}
			break
		}
		say(`{"k":"report","t":"phase","id":%q,"when":"call","outcome":%q}`, test, outcome)
		say(`{"k":"report","t":"phase","id":%q,"when":"teardown","outcome":"passed"}`, test)
		say(`{"k":"report","t":"finish","id":%q}`, test)
	}
	say(`{"k":"report","t":"done"}`)
	return exited
}

// honest answers every question rightly.
func honest(_ context.Context, in *bufio.Scanner, out, _ io.Writer) sandbox.Exit {
	fmt.Fprintln(out, `{"k":"ready"}`)
	for in.Scan() {
		fmt.Fprintln(out, `{"k":"answer","v":"right"}`)
	}
	return exited
}

// answering says lines to the first question.
func answering(lines ...string) script {
	return func(ctx context.Context, in *bufio.Scanner, out, _ io.Writer) sandbox.Exit {
		fmt.Fprintln(out, `{"k":"ready"}`)
		in.Scan()
		for _, l := range lines {
			fmt.Fprintln(out, l)
		}
		for in.Scan() {
			fmt.Fprintln(out, `{"k":"answer","v":"right"}`)
		}
		<-ctx.Done()
		return exited
	}
}

// ending ends in the middle of the first question.
func ending(e sandbox.Exit) script {
	return func(_ context.Context, in *bufio.Scanner, out, _ io.Writer) sandbox.Exit {
		fmt.Fprintln(out, `{"k":"ready"}`)
		in.Scan()
		return e
	}
}

func TestCarrier(t *testing.T) {
	t.Parallel()
	dead := func(c course.Cause) []string { return []string{"error " + string(c), "passed "} }
	printing := func(n int) string { return `{"k":"out","out":[["o","` + strings.Repeat("x", n) + `"]]}` }
	for _, c := range []struct {
		name    string
		student script
		want    []string
		forged  bool
	}{
		{name: "honest", student: honest, want: []string{"passed ", "passed "}},
		{name: "wrong", student: answering(`{"k":"answer","v":"wrong"}`), want: []string{"failed ", "passed "}},
		{name: "asks_back", student: answering(`{"k":"ask","op":"call","o":1}`), want: []string{"passed ", "passed "}},
		{name: "exits", student: ending(exited), want: dead(course.EndedTest)},
		{name: "crashes", student: ending(sandbox.Exit{Code: -1, Signal: 11, Cause: guest.Signaled}), want: dead(course.Crashed)},
		{name: "own_timer", student: ending(sandbox.Exit{Code: -1, Signal: int(syscall.SIGPROF), Cause: guest.Signaled}), want: dead(course.TimeLimit)},
		{name: "memory", student: ending(sandbox.Exit{Code: -1, Cause: guest.MemoryLimit}), want: dead(course.MemoryLimit)},
		{name: "processes", student: ending(sandbox.Exit{Code: -1, Cause: guest.ProcessLimit}), want: dead(course.ProcessLimit)},
		{name: "disk", student: ending(sandbox.Exit{Code: -1, Cause: guest.DiskLimit}), want: dead(course.DiskLimit)},
		{name: "hangs", student: func(ctx context.Context, in *bufio.Scanner, out, _ io.Writer) sandbox.Exit {
			fmt.Fprintln(out, `{"k":"ready"}`)
			in.Scan()
			<-ctx.Done()
			return exited
		}, want: dead(course.TimeLimit)},
		{name: "prints_much", student: answering(printing(600), printing(600), `{"k":"answer","v":"right"}`), want: dead(course.OutputLimit)},
		{name: "prints_enough", student: answering(printing(600), printing(300), `{"k":"answer","v":"right"}`), want: []string{"passed ", "passed "}},
		{name: "writes_much", student: func(ctx context.Context, in *bufio.Scanner, out, stderr io.Writer) sandbox.Exit {
			fmt.Fprintln(out, `{"k":"ready"}`)
			in.Scan()
			fmt.Fprint(stderr, strings.Repeat("x", 2000))
			<-ctx.Done()
			return exited
		}, want: dead(course.OutputLimit)},
		{name: "long_frame", student: answering(`{"k":"answer","v":"` + strings.Repeat("x", maxFrame) + `"}`), want: dead(course.OutputLimit)},
		{name: "no_frame", student: answering(`Traceback`), want: dead(course.InvalidResult), forged: true},
		{name: "empty_line", student: answering(``), want: dead(course.InvalidResult), forged: true},
		{name: "report", student: answering(`{"k":"report","t":"phase","id":"` + testA + `","when":"call","outcome":"passed"}`), want: dead(course.InvalidResult), forged: true},
		{name: "dead", student: answering(`{"k":"dead","text":"x"}`), want: dead(course.InvalidResult), forged: true},
		{name: "ready_again", student: answering(`{"k":"ready"}`), want: dead(course.InvalidResult), forged: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				machines := &scriptedMachines{made: []*scripted{{scripts: []script{c.student, honest}}, {scripts: []script{teacher}}}}
				a := &course.Assignment{Mode: course.Pytest, Limits: course.Limits{Output: 1000}}
				r, err := New(machines).Grade(t.Context(), a, course.Submission{ID: "s"}, nil)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, f := range r.Findings {
					got = append(got, string(f.Status)+" "+string(f.Cause))
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
				if (len(r.Suspicions) > 0) != c.forged {
					t.Errorf("suspicions: %v", r.Suspicions)
				}
			})
		})
	}
}

// TestOurFailures wants an error, not a finding, for what is not the student's.
func TestOurFailures(t *testing.T) {
	t.Parallel()
	silent := func(ctx context.Context, _ *bufio.Scanner, _, _ io.Writer) sandbox.Exit {
		<-ctx.Done()
		return exited
	}
	for _, c := range []struct {
		name             string
		student, teacher script
		want             string
	}{
		{"tests_end", honest, func(context.Context, *bufio.Scanner, io.Writer, io.Writer) sandbox.Exit {
			return sandbox.Exit{Code: 3, Cause: guest.Exited}
		}, "before the tests did"},
		{"tests_send_nonsense", honest, func(ctx context.Context, _ *bufio.Scanner, out, _ io.Writer) sandbox.Exit {
			fmt.Fprintln(out, "nonsense")
			<-ctx.Done()
			return exited
		}, "no frame"},
		{"agent_does_not_begin", silent, teacher, "did not begin"},
		{"agent_ends_at_once", func(context.Context, *bufio.Scanner, io.Writer, io.Writer) sandbox.Exit {
			return sandbox.Exit{Code: 1, Cause: guest.Exited}
		}, silent, "before any of the student's code ran"},
		{"machine_lost", ending(sandbox.Exit{Code: -1, Cause: guest.MachineLost}), teacher, "machine was lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				machines := &scriptedMachines{made: []*scripted{{scripts: []script{c.student}}, {scripts: []script{c.teacher}}}}
				_, err := New(machines).Grade(t.Context(), &course.Assignment{}, course.Submission{ID: "s"}, nil)
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want one with %q", err, c.want)
				}
			})
		})
	}
}

// TestStuckTests wants that tests which never end cost the student nothing but
// those tests, and end.
func TestStuckTests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stuck := func(ctx context.Context, _ *bufio.Scanner, out, _ io.Writer) sandbox.Exit {
			fmt.Fprintf(out, `{"k":"report","t":"collected","ids":[%q,%q]}`+"\n", testA, testB)
			fmt.Fprintf(out, `{"k":"report","t":"start","id":%q}`+"\n", testA)
			<-ctx.Done()
			return exited
		}
		machines := &scriptedMachines{made: []*scripted{{scripts: []script{honest}}, {scripts: []script{stuck}}}}
		began := time.Now()
		r, err := New(machines).Grade(t.Context(), &course.Assignment{}, course.Submission{ID: "s"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 5*time.Minute {
			t.Errorf("took %v", took)
		}
		for _, f := range r.Findings {
			if f.Status != course.Errored || f.Cause == course.NoCause {
				t.Errorf("%s is %s %q", f.Test, f.Status, f.Cause)
			}
		}
	})
}

func TestGradeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := func(ctx context.Context, _ *bufio.Scanner, _, _ io.Writer) sandbox.Exit {
			<-ctx.Done()
			return exited
		}
		machines := &scriptedMachines{made: []*scripted{{scripts: []script{silent}}, {scripts: []script{silent}}}}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := New(machines).Grade(ctx, &course.Assignment{}, course.Submission{ID: "s"}, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}
