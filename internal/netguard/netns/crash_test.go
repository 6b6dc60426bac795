package netns

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/netguard"
	"assay/internal/require"
)

// crashChild makes this test binary the process that is killed among its
// namespaces.
const crashChild = "ASSAY_NETNS_CRASH_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(crashChild) {
	case "":
	case "open":
		_, err := Open(Options{})
		fmt.Printf("%v: %v\n", fault.KindOf(err), err)
		os.Exit(0)
	default:
		fmt.Fprintln(os.Stderr, "child:", crowd())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const (
	// madeNamespaces are made by both tests together: half of them by a process
	// that is killed.
	madeNamespaces = 1000
	crashAt        = madeNamespaces / 2
)

// crowd makes namespaces, with doors that are open, until it is killed. It says
// where its yard is and how many there are.
func crowd() error {
	n := NewNetworks(Options{}, netguard.NewProxy(netguard.Options{}), netguard.Caps{})
	for i := 1; ; i++ {
		w, err := n.Make(context.Background())
		if err == nil {
			err = w.Open(netguard.Policy{Allow: []string{"web.example.org"}}, nil)
		}
		if err != nil {
			return err
		}
		if i == 1 {
			fmt.Println("yard", n.yard.fd)
		}
		if i%100 == 0 {
			fmt.Println("made", i)
		}
	}
}

// TestCrashLeavesNothing kills a process in the middle of making namespaces. Its
// yard is kept open from here, and shows that each interface goes when the
// sandbox's namespace at its other end does.
func TestCrashLeavesNothing(t *testing.T) {
	require.Root(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashChild+"=1")
	cmd.Stderr = os.Stderr
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	yard, made := -1, 0
	for lines := bufio.NewScanner(said); made < crashAt && lines.Scan(); {
		var n int
		switch _, err := fmt.Sscanf(lines.Text(), "yard %d", &n); {
		case err == nil:
			if yard, err = unix.Open(fmt.Sprintf("/proc/%d/fd/%d", cmd.Process.Pid, n), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
				t.Fatal(err)
			}
		case strings.HasPrefix(lines.Text(), "made "):
			_, _ = fmt.Sscanf(lines.Text(), "made %d", &made)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if yard < 0 || made < crashAt {
		t.Fatalf("the child made %d namespaces, yard %d", made, yard)
	}
	defer unix.Close(yard)
	left := waitInterfaces(t, yard)
	if left != 0 {
		t.Errorf("%d namespaces are left after the crash", left)
	}
	// The sockets in it were the process's too: nobody listens in what is left.
	if b, err := os.ReadFile("/proc/net/dev"); err != nil || strings.Contains(string(b), " as1:") {
		t.Errorf("the host has an interface of a sandbox: %v\n%s", err, b)
	}
}

// TestOpenSaysWhyNot has a process without the host's capabilities try.
func TestOpenSaysWhyNot(t *testing.T) {
	t.Parallel()
	require.Root(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), crashChild+"=open")
	cmd.SysProcAttr = &unix.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	said, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(said), "unsupported: this host cannot give sandboxes a network: ") {
		t.Errorf("%v: %s", err, said)
	}
}

// waitInterfaces waits until a yard has no interface but loopback, which the
// kernel brings about in its own time, and gives how many it still has at last.
func waitInterfaces(t *testing.T, yard int) (left int) {
	t.Helper()
	if err := in(yard, func() error {
		nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer nl.Close()
		again := time.NewTicker(50 * time.Millisecond)
		defer again.Stop()
		for late := time.Now().Add(2 * time.Minute); ; <-again.C {
			links, err := nl.LinkList()
			left = len(links) - 1
			switch {
			case errors.Is(err, netlink.ErrDumpInterrupted): // some went meanwhile
			case err != nil || left == 0:
				return err
			}
			if time.Now().After(late) {
				return nil
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	return left
}

// TestNamespacesAreGivenBack makes the other half in this process.
func TestNamespacesAreGivenBack(t *testing.T) {
	y := openYard(t, Options{})
	made := make([]*Namespace, 0, madeNamespaces-crashAt)
	seen := map[string]bool{}
	began := time.Now()
	for range cap(made) {
		n, err := y.Make(t.Context())
		if err == nil {
			err = n.Open()
		}
		if err != nil {
			t.Fatal(err)
		}
		if seen[n.Guest().String()] {
			t.Errorf("address %s was given twice", n.Guest())
		}
		seen[n.Guest().String()] = true
		made = append(made, n)
	}
	t.Logf("%d namespaces made in %v", len(made), time.Since(began).Round(time.Millisecond))
	for _, n := range made {
		n.Close()
		n.Close()
	}
	if left := waitInterfaces(t, y.fd); left != 0 {
		t.Errorf("%d namespaces are left", left)
	}
}

func TestPoolIsArithmetic(t *testing.T) {
	t.Parallel()
	y := openYard(t, Options{})
	if n := y.capacity(); n != 16383 {
		t.Errorf("capacity %d", n)
	}
	for index, want := range map[int]string{1: "10.192.0.5 10.192.0.6", 63: "10.192.0.253 10.192.0.254", 64: "10.192.1.1 10.192.1.2", 16383: "10.192.255.253 10.192.255.254"} {
		gateway, guest := y.network(index)
		if got := gateway.String() + " " + guest.String(); got != want {
			t.Errorf("network %d: %s, want %s", index, got, want)
		}
	}
}

// BenchmarkMakeReady is what the pool spares.
func BenchmarkMakeReady(b *testing.B) {
	y := openYard(b, Options{Ready: 64})
	for b.Loop() {
		n, err := y.Make(b.Context())
		if err == nil {
			err = n.Open()
		}
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		n.Close()
		b.StartTimer()
	}
}

func BenchmarkMake(b *testing.B) {
	y := openYard(b, Options{})
	for b.Loop() {
		n, err := y.Make(b.Context())
		if err == nil {
			err = n.Open()
		}
		if err != nil {
			b.Fatal(err)
		}
		n.Close()
	}
}
