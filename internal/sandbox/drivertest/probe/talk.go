package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// ping says a line and waits for the answer, so many times, and says on stderr
// how long it took: "ping 1000".
func ping(args []string) int {
	n := number(args, 0)
	buf := make([]byte, 64)
	began := time.Now()
	for i := range n {
		line := fmt.Sprintln(i)
		if _, err := os.Stdout.WriteString(line); err != nil {
			return fail("write", err)
		}
		got, err := os.Stdin.Read(buf)
		if err != nil {
			return fail("read", err)
		}
		if string(buf[:got]) != line {
			return fail("read", fmt.Errorf("%q instead of %q", strings.TrimSpace(string(buf[:got])), strings.TrimSpace(line)))
		}
	}
	fmt.Fprintln(os.Stderr, time.Since(began).Microseconds())
	return 0
}

// pong says again what it hears, until the end.
func pong([]string) int {
	buf := make([]byte, 64<<10)
	for {
		n, err := os.Stdin.Read(buf)
		if err != nil || n == 0 {
			fmt.Fprintln(os.Stderr, "end")
			return 0
		}
		if _, err := os.Stdout.Write(buf[:n]); err != nil {
			return fail("write", err)
		}
	}
}

// hear counts on stderr what it hears until the end.
func hear([]string) int {
	buf := make([]byte, 64<<10)
	var sum int64
	for {
		n, err := os.Stdin.Read(buf)
		sum += int64(n)
		if err != nil || n == 0 {
			fmt.Fprintln(os.Stderr, sum)
			return 0
		}
	}
}
