package drivertest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"assay/internal/guest"
)

// The bounds that the engine states for what it measures: the larger of the
// two counts.
const (
	cpuBound     = 20 * time.Millisecond
	cpuShare     = 0.05
	memoryBound  = 2 << 20
	memoryShare  = 0.05
	wallBound    = 150 * time.Millisecond // a start and an end of a process are in it
	wallBoundOff = 20 * time.Millisecond  // clocks of two sides
)

var usageTests = []test{
	{"usage_of_cpu", testCPU},
	{"usage_of_memory", testMemory},
	{"usage_of_processes", testProcesses},
	{"usage_of_output", testOutputBytes},
	{"usage_of_disk", testDisk},
	{"usage_of_wall_time", testWall},
	{"usage_by_the_host", testHostUsage},
}

// idle runs a verb a few times and gives the middle of what is measured: the
// cost of the probe itself.
func (b *box) idle(spec guest.ExecSpec, measure func(guest.Usage) int64) int64 {
	b.t.Helper()
	var all []int64
	for range 3 {
		_, res := b.exec(spec, guest.IO{})
		all = append(all, measure(res.Usage))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// measured is a command, the same without what is measured, and the bounds.
type measured struct {
	name       string
	argv, idle []string
	want, off  int64
	of         func(guest.Usage) int64
}

// tries of a measurement, and the rest between two. A host that is busy with
// other things disturbs one; a wrong count fails them all.
const (
	measureTries = 8
	measureRest  = 250 * time.Millisecond
)

// measure compares what a command uses with what it should.
func (b *box) measure(m measured) {
	b.t.Helper()
	for _, isolated := range []bool{false, true} {
		var tries []string
		for range measureTries {
			idle := b.idle(guest.ExecSpec{Argv: m.idle, Isolated: isolated}, m.of)
			_, res := b.exec(guest.ExecSpec{Argv: m.argv, Isolated: isolated}, guest.IO{})
			got := m.of(res.Usage) - idle
			if off := max(got-m.want, m.want-got); off <= m.off {
				tries = nil
				break
			}
			tries = append(tries, fmt.Sprintf("%d above the %d of the idle program", got, idle))
			time.Sleep(measureRest)
		}
		if tries != nil {
			b.t.Errorf("%s, isolated %v: %s; want %d ± %d", m.name, isolated, strings.Join(tries, ", "), m.want, m.off)
		}
	}
}

func testCPU(t *testing.T, b *box) {
	for _, m := range []measured{
		{name: "one_process", argv: verb("spin", "400ms"), idle: verb("spin", "0s"), want: 400},
		{name: "children_that_ended", argv: verb("children", "2", "spin", "300ms"), idle: verb("children", "2", "spin", "0s"), want: 600},
		{name: "two_at_once", argv: verb("spin", "400ms", "2"), idle: verb("spin", "0s"), want: 800},
	} {
		m.of = func(u guest.Usage) int64 { return u.CPU().Milliseconds() }
		m.off = int64(max(float64(cpuBound.Milliseconds()), cpuShare*float64(m.want)) * b.s.Loose)
		b.measure(m)
	}
}

func testMemory(t *testing.T, b *box) {
	const size = 64 << 20
	for _, m := range []measured{
		{name: "one_process", argv: verb("alloc", strconv.Itoa(size), "100ms"), idle: verb("alloc", "0", "100ms"), want: size},
		{name: "small", argv: verb("alloc", "8388608", "100ms"), idle: verb("alloc", "0", "100ms"), want: 8 << 20},
		{name: "children_together", argv: verb("alloc", strconv.Itoa(size/4), "300ms", "4"), idle: verb("alloc", "0", "300ms", "4"), want: size},
		{name: "children_that_ended", argv: verb("children", "2", "alloc", strconv.Itoa(size), "50ms"), idle: verb("children", "2", "alloc", "0", "50ms"), want: size},
	} {
		m.of = func(u guest.Usage) int64 { return u.MemoryPeak }
		m.off = max(memoryBound, int64(memoryShare*float64(m.want)))
		b.measure(m)
	}
}

func testProcesses(t *testing.T, b *box) {
	peak := func(u guest.Usage) int64 { return int64(u.ProcessesPeak) }
	idle := b.idle(guest.ExecSpec{Argv: verb("fork", "0", "20ms")}, peak)
	_, res := b.exec(guest.ExecSpec{Argv: verb("fork", "20", "50ms")}, guest.IO{})
	// A runtime's own threads come and go.
	if got := int64(res.Usage.ProcessesPeak) - idle; got < 18 || got > 24 {
		t.Errorf("20 processes raise the peak by %d", got)
	}
}

func testOutputBytes(t *testing.T, b *box) {
	const size = 3_000_001
	for _, stream := range []string{"out", "err"} {
		var got countingWriter
		streams := guest.IO{Stdout: &got}
		if stream == "err" {
			streams = guest.IO{Stderr: &got}
		}
		bytesOf := func(u guest.Usage) int64 { return u.StdoutBytes }
		droppedOf := func(e guest.Exit) int64 { return e.StdoutDropped }
		if stream == "err" {
			bytesOf = func(u guest.Usage) int64 { return u.StderrBytes }
			droppedOf = func(e guest.Exit) int64 { return e.StderrDropped }
		}
		argv := verb("flood", stream, strconv.Itoa(size))
		for _, tt := range []struct {
			name    string
			spec    guest.ExecSpec
			arrived int64
		}{
			{"no_cap", guest.ExecSpec{Argv: argv}, size},
			{"at_the_cap", guest.ExecSpec{Argv: argv, Limits: guest.Limits{Output: size}}, size},
			{"kept", guest.ExecSpec{Argv: argv, KeepOutput: true, Limits: guest.Limits{Output: 100_000}}, 100_000},
			{"cut", guest.ExecSpec{Argv: argv, Limits: guest.Limits{Output: 100_000}}, 100_000},
		} {
			got.n = 0
			_, res := b.exec(tt.spec, streams)
			if got.n != tt.arrived {
				t.Errorf("%s, %s: %d bytes arrived, want %d", stream, tt.name, got.n, tt.arrived)
			}
			written, dropped := bytesOf(res.Usage), droppedOf(res.Exit)
			if written-dropped != tt.arrived || res.Exit.OutputTruncated != (dropped > 0) {
				t.Errorf("%s, %s: %d bytes written, %d dropped, truncated %v; %d arrived", stream, tt.name, written, dropped, res.Exit.OutputTruncated, got.n)
			}
			if tt.name != "cut" && written != size {
				t.Errorf("%s, %s: %d bytes written, want %d", stream, tt.name, written, size)
			}
			want := guest.Exited
			if tt.name == "cut" {
				want = guest.OutputLimit
			}
			if res.Exit.Cause != want {
				t.Errorf("%s, %s: exit %+v, want %s", stream, tt.name, res.Exit, want)
			}
		}
	}
}

func testDisk(t *testing.T, b *box) {
	const size = 4 << 20
	for _, isolated := range []bool{false, true} {
		for _, limits := range []guest.Limits{{}, {Disk: 64 << 20}} {
			_, res := b.exec(guest.ExecSpec{Argv: verb("write", "/tmp/disk-"+strconv.FormatInt(limits.Disk, 10), strconv.Itoa(size)), Isolated: isolated, Limits: limits}, guest.IO{})
			if got := res.Usage.DiskBytes; got < size || got > size+256<<10 {
				t.Errorf("isolated %v, limit %d: %d bytes on disk, want %d", isolated, limits.Disk, got, size)
			}
		}
	}
}

func testWall(t *testing.T, b *box) {
	const want = 300 * time.Millisecond
	var tries []time.Duration // as for measure: a busy host starts and ends a process late
	for range measureTries {
		begin := time.Now()
		_, res := b.exec(guest.ExecSpec{Argv: verb("sleep", want.String())}, guest.IO{})
		outside := time.Since(begin)
		got := res.Usage.Wall
		if got < want || got > outside+wallBoundOff {
			t.Errorf("%v of wall time for a sleep of %v; from outside %v", got, want, outside)
		}
		if got <= want+loose(wallBound) {
			return
		}
		tries = append(tries, got)
		time.Sleep(measureRest)
	}
	t.Errorf("%v of wall time for sleeps of %v", tries, want)
}

// testHostUsage: the host's own count is no smaller than the guest's, grows,
// and includes the memory the guest holds.
func testHostUsage(t *testing.T, b *box) {
	var tries []time.Duration // as for measure: a busy host gives the guest less
	for range 3 {
		before, err := b.m.Usage()
		if err != nil {
			t.Fatal(err)
		}
		b.exec(guest.ExecSpec{Argv: verb("spin", "300ms")}, guest.IO{})
		after, err := b.m.Usage()
		if err != nil {
			t.Fatal(err)
		}
		tries = append(tries, after.CPU-before.CPU)
	}
	if got := slices.Max(tries); got < 280*time.Millisecond {
		t.Errorf("the host counted %v for 300 ms of the guest's", tries)
	}
	bg := b.start(guest.ExecSpec{Key: "holder", Argv: verb("alloc", "67108864", "30s")}, guest.IO{})
	until(t, "the host sees the memory", func() bool {
		u, err := b.m.Usage()
		if err != nil {
			t.Fatal(err)
		}
		return u.Memory >= 64<<20 && (u.MemoryPeak == 0 || u.MemoryPeak >= u.Memory)
	})
	if err := b.Kill(within(t, patience), "holder"); err != nil {
		t.Fatal(err)
	}
	if res, err := bg.wait(t, patience); err != nil || res.Exit.Cause != guest.Killed {
		t.Errorf("killed: %+v, %v", res.Exit, err)
	}
}

// countingWriter counts what is written.
type countingWriter struct{ n int64 }

func (w *countingWriter) Write(p []byte) (int, error) {
	w.n += int64(len(p))
	return len(p), nil
}
