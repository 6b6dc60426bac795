// Command assay is the one program of Assay: it judges, runs and manages
// sandboxes from the command line. It parses, runs and gives an exit code; see
// package cli for all else.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"assay/internal/cli"
)

// interrupted is the exit code when a second signal cuts cleaning up short.
const interrupted = 130

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		// The first signal asks the command to stop and clean up, the second
		// does not wait for it: the journal lets the next start reclaim.
		<-signals
		cancel()
		<-signals
		os.Exit(interrupted)
	}()
	os.Exit(cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
