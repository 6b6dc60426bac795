package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	_ "unsafe" // for go:linkname

	"gvisor.dev/gvisor/pkg/seccomp"
	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	"gvisor.dev/gvisor/pkg/sentry/platform"
	"gvisor.dev/gvisor/runsc/boot/filter"
	"gvisor.dev/gvisor/runsc/boot/filter/config"
)

// gVisor's boot process builds the filter for its own system calls at each
// start, which takes a third of a restore. gVisor can use a program compiled
// before, but the published module has none and no way in. So the driver has
// this binary compile the one it needs, once for a host, and each boot process
// registers it here. A program of other options is not found under its key, and
// gVisor then builds its own: the filter is the same either way.

//go:linkname precompiledPrograms gvisor.dev/gvisor/runsc/boot/filter.precompiledPrograms
var precompiledPrograms map[string]precompiledseccomp.Program

//go:linkname rules gvisor.dev/gvisor/runsc/boot/filter/config.rules
func rules(opt config.Options, vars precompiledseccomp.Values) (allow, deny seccomp.SyscallRules)

// compileFilter writes the program for a platform.
func compileFilter(platformName string, w io.Writer) error {
	constructor, err := platform.Lookup(platformName)
	if err != nil {
		return err
	}
	infos := constructor.PrecompiledSeccompInfo()
	if len(infos) != 1 {
		return fmt.Errorf("platform %s has %d filters, not one", platformName, len(infos))
	}
	opt := config.Options{Platform: infos[0], HostFilesystem: true}
	var names []string
	for name := range opt.Vars() {
		names = append(names, name)
	}
	program, err := precompiledseccomp.Precompile(opt.ConfigKey(), names, func(vars precompiledseccomp.Values) *seccomp.Program {
		allow, deny := rules(opt, vars)
		return &seccomp.Program{
			RuleSets: []seccomp.RuleSet{{Rules: deny.Copy()}, {Rules: allow.Copy(), Action: seccomp.Allow}},
			Options:  config.SeccompOptions(opt),
		}
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(program)
}

// registerFilter makes the program in a file known to gVisor.
func registerFilter(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var program precompiledseccomp.Program
	if err := json.Unmarshal(b, &program); err != nil {
		return fmt.Errorf("read filter %s: %w", path, err)
	}
	filter.ListPrecompiled() // registers what the module has: nothing, and only once
	precompiledPrograms[program.Name] = program
	return nil
}
