package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the build with -ldflags -X.
var version = "dev"

// driverModules are the modules whose version decides what a driver does.
var driverModules = []string{"gvisor.dev/gvisor"}

type versionCmd struct{}

type versionInfo struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	// Drivers maps a driver's module to its version in this executable.
	Drivers map[string]string `json:"drivers"`
}

func (versionCmd) Run(_ context.Context, env *Env) error {
	info := versionInfo{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Drivers: driverVersions()}
	if env.JSON {
		return env.PrintJSON(info)
	}
	fmt.Fprintf(env.Stdout, "assay %s (%s, %s/%s)\n", info.Version, info.Go, info.OS, info.Arch)
	for _, m := range driverModules {
		if v, ok := info.Drivers[m]; ok {
			fmt.Fprintf(env.Stdout, "%s %s\n", m, v)
		}
	}
	return nil
}

// driverVersions looks the driver modules up in this executable's build
// information; one that is not linked in is left out.
func driverVersions() map[string]string {
	found := map[string]string{}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return found
	}
	for _, dep := range build.Deps {
		for _, m := range driverModules {
			if dep.Path != m {
				continue
			}
			if dep.Replace != nil {
				dep = dep.Replace
			}
			found[m] = dep.Version
		}
	}
	return found
}
