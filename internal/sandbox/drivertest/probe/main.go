// Command probe is the program that the driver suite runs inside machines: each
// verb does one thing that a limit, a count or a wall must notice. Start with
// verbs. It is static and imports nothing of Assay, so that it runs in any
// machine; package fake does the same verbs without a machine.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// verbs do one thing each and give the exit code.
var verbs = map[string]func(args []string) int{
	"exit":     func(a []string) int { return number(a, 0) },
	"signal":   signal,
	"echo":     func(a []string) int { return say(strings.Join(a, " ")) },
	"args":     func(a []string) int { return say(strings.Join(a, "\n")) },
	"sleep":    func(a []string) int { time.Sleep(duration(a, 0)); return 0 },
	"spin":     spin,
	"children": children,
	"alloc":    alloc,
	"write":    write,
	"append":   appendLine,
	"read":     read,
	"list":     list,
	"flood":    flood,
	"tick":     tick,
	"both":     both,
	"fork":     fork,
	"daemon":   daemon,
	"cat":      cat,
	"count":    countInput,
	"bytes":    allBytes,
	"counter":  counter,
	"ask":      ask,
	"random":   random,
	"clock":    func([]string) int { return say(strconv.FormatInt(time.Now().UnixNano(), 10)) },
	"env":      environment,
	"identity": identity,
	"traces":   traces,
	"look":     look,
	"pids":     pids,
	"ping":     ping,
	"pong":     pong,
	"hear":     hear,
}

func main() {
	if len(os.Args) < 2 {
		os.Exit(2)
	}
	verb, ok := verbs[os.Args[1]]
	if !ok {
		fmt.Fprintln(os.Stderr, "probe: no verb", os.Args[1])
		os.Exit(2)
	}
	os.Exit(verb(os.Args[2:]))
}

func say(s string) int {
	if _, err := fmt.Fprintln(os.Stdout, s); err != nil {
		return 1
	}
	return 0
}

func fail(what string, err error) int {
	fmt.Fprintf(os.Stderr, "probe: %s: %v\n", what, err)
	return 1
}

func number(args []string, i int) int {
	if i >= len(args) {
		return 0
	}
	n, err := strconv.Atoi(args[i])
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(2)
	}
	return n
}

func duration(args []string, i int) time.Duration {
	if i >= len(args) {
		return 0
	}
	d, err := time.ParseDuration(args[i])
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(2)
	}
	return d
}

// signal ends this process by a signal.
func signal(args []string) int {
	_ = syscall.Kill(os.Getpid(), syscall.Signal(number(args, 0)))
	time.Sleep(10 * time.Second)
	return 1
}

// children runs this program again and again, with the rest of the arguments:
// "children 3 spin 1s". All have ended before it ends.
func children(args []string) int {
	return run(number(args, 0), args[1:], true)
}

// flood writes so many bytes to a stream: "flood out 1000", without a number
// for ever.
func flood(args []string) int {
	w := os.Stdout
	if args[0] == "err" {
		w = os.Stderr
	}
	chunk := []byte(strings.Repeat("0123456789abcde\n", 4<<10))
	left := -1
	if len(args) > 1 {
		left = number(args, 1)
	}
	for left != 0 {
		n := len(chunk)
		if left > 0 {
			n = min(n, left)
			left -= n
		}
		if _, err := w.Write(chunk[:n]); err != nil {
			return 1
		}
	}
	return 0
}

// tick writes numbered lines with a pause before each: "tick 10 20ms".
func tick(args []string) int {
	for i := range number(args, 0) {
		time.Sleep(duration(args, 1))
		if _, err := fmt.Fprintln(os.Stdout, i); err != nil {
			return 1
		}
	}
	return 0
}

// both writes different lengths to both streams.
func both([]string) int {
	fmt.Fprint(os.Stdout, "out\n")
	fmt.Fprint(os.Stderr, "error\n")
	return 0
}

func cat([]string) int {
	if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
		return fail("copy", err)
	}
	return 0
}

// countInput says how many bytes came on stdin until it was closed.
func countInput([]string) int {
	n, err := io.Copy(io.Discard, os.Stdin)
	if err != nil {
		return fail("read", err)
	}
	return say(strconv.FormatInt(n, 10))
}

// allBytes writes every byte value, so many times: "bytes 3".
func allBytes(args []string) int {
	w := bufio.NewWriter(os.Stdout)
	for range number(args, 0) {
		for b := range 256 {
			_ = w.WriteByte(byte(b)) // Flush gives the error
		}
	}
	if err := w.Flush(); err != nil {
		return 1
	}
	return 0
}

// environment writes the whole environment, sorted.
func environment([]string) int {
	all := os.Environ()
	sort.Strings(all)
	for _, kv := range all {
		fmt.Fprintln(os.Stdout, kv)
	}
	return 0
}
