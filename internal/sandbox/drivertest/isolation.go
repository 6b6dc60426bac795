package drivertest

import (
	"strings"
	"testing"

	"assay/internal/guest"
)

var isolationTests = []test{
	{"isolated_commands_find_nothing", testIsolation},
	{"fresh_directories", testFreshDirs},
	{"guestd_is_out_of_reach", testOutOfReach},
}

var placesToLeave = []string{"/tmp/trace", "/dev/shm/trace", "/var/tmp/trace"}

// testIsolation: an isolated command finds nothing of another one, neither
// beside it nor before it.
func testIsolation(t *testing.T, b *box) {
	leave := append(verb("traces", "20s"), placesToLeave...)
	look := append([]string{"look"}, placesToLeave...)
	out := newOutput()
	bg := b.start(guest.ExecSpec{Key: "left", Argv: leave, Isolated: true}, guest.IO{Stdout: out})
	out.started(t)
	if got := b.probeAs(guest.ExecSpec{Isolated: true}, look...); got != "" {
		t.Errorf("beside it, an isolated command finds: %s", strings.ReplaceAll(got, "\n", "; "))
	}
	if err := b.Kill(within(t, patience), "left"); err != nil {
		t.Fatal(err)
	}
	if _, err := bg.wait(t, patience); err != nil {
		t.Fatal(err)
	}
	for _, isolated := range []bool{true, false} {
		if got := b.probeAs(guest.ExecSpec{Isolated: isolated}, look...); got != "" {
			t.Errorf("after it, a command (isolated %v) finds: %s", isolated, strings.ReplaceAll(got, "\n", "; "))
		}
	}
}

func testFreshDirs(t *testing.T, b *box) {
	const dir = "/home/user"
	b.probe("append", dir+"/mine", "outside")
	spec := guest.ExecSpec{Isolated: true, FreshDirs: []string{dir}, Dir: dir}
	if got := b.probeAs(spec, "list", dir); got != "" {
		t.Errorf("a fresh directory holds %q", got)
	}
	b.probeAs(spec, "append", dir+"/mine", "inside")
	if got := b.probe("read", dir+"/mine"); got != "outside\n" {
		t.Errorf("the directory below a fresh one holds %q", got)
	}
	if got := b.probeAs(spec, "list", dir); got != "" {
		t.Errorf("the next fresh directory holds %q", got)
	}
}

// testOutOfReach: a command can neither signal guestd nor change its files.
func testOutOfReach(t *testing.T, b *box) {
	if b.s.Native {
		t.Skip("the driver has no guestd of its own")
	}
	for _, user := range []string{"user", "root"} {
		for _, isolated := range []bool{false, true} {
			spec := guest.ExecSpec{Argv: []string{"/bin/sh", "-c", "kill -9 1; kill -9 -1; cat /run/assay/cgroup/cgroup.procs; : > /.assay/guestd"}, User: user, Isolated: isolated}
			b.exec(spec, guest.IO{})
			b.alive()
		}
	}
}
