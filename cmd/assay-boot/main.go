// Command assay-boot is the process that a gVisor machine runs in: gVisor's
// boot command and nothing else, so that it starts fast and holds little. The
// driver (internal/sandbox/gvisor) starts it; people never do.
//
// Before anything else it reads what the driver wrote beside the machine's
// configuration and joins the machine's cgroups: everything the machine will
// ever be is counted and limited from its first instruction on.
package main

import (
	"fmt"
	"os"
	"strings"

	"assay/internal/sandbox/gvisor/bootfile"

	"gvisor.dev/gvisor/runsc/cli"
	"gvisor.dev/gvisor/runsc/cmd/sentry/sentrycmd"
	"gvisor.dev/gvisor/runsc/cmd/util"
)

func main() {
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "assay-boot:", err)
		os.Exit(1)
	}
	cli.Run(nil, map[util.SubCommand]string{
		new(sentrycmd.Boot):   "",
		new(sentrycmd.Umount): "",
	}, nil)
}

// prepare applies the boot file of the bundle named in the arguments. gVisor
// starts other commands of this binary too; those have no bundle.
func prepare() error {
	for _, arg := range os.Args {
		dir, ok := strings.CutPrefix(arg, "--bundle=")
		if !ok {
			continue
		}
		file, err := bootfile.Read(dir)
		if err != nil {
			return err
		}
		if err := file.Join(os.Getpid()); err != nil {
			return err
		}
		// The machine's size, which gVisor would else take from the host. Later
		// flags win, and the last argument is the machine's ID.
		rest := append(file.Flags(), os.Args[len(os.Args)-1])
		os.Args = append(os.Args[:len(os.Args)-1:len(os.Args)-1], rest...)
		return nil
	}
	return nil
}
