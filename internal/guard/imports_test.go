package guard

import (
	"strings"
	"testing"
)

// Groups of packages that rules speak of.
var (
	drivers  = []string{"internal/sandbox/gvisor/...", "internal/sandbox/qemu/...", "internal/sandbox/firecracker/...", "internal/sandbox/fake/..."}
	adapters = []string{"internal/sqlstore/...", "internal/blob/...", "internal/bus/..."}
	doors    = []string{"internal/cli/...", "internal/httpapi/...", "internal/live/...", "internal/compat/..."}
	engine   = []string{"internal/fault", "internal/guest/...", "internal/sandbox"}
	// Services offer parts of the product to actors.
	services = []string{"internal/judging", "internal/sandboxes", "internal/classes", "internal/account", "internal/work", "internal/usage"}
	// What only tests may import.
	testPackages = []string{"internal/require", "internal/sandbox/drivertest/...", "internal/course/class/storetest", "internal/account/storetest", "internal/sandboxes/storetest", "internal/judging/storetest", "internal/classes/storetest", "internal/sqlstore/sqltest", "internal/blob/blobtest", "internal/bus/bustest", "internal/work/worktest", "internal/testgate"}
)

func join(groups ...[]string) []string {
	var all []string
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}

// importRule is one rule about the imports of production files. Exactly one of
// only and never is set; both speak of packages of this repository, never also
// of other modules' packages.
type importRule struct {
	name string
	// from says whose imports are looked at, except which of them are not.
	from, except []string
	// only lists the packages of this repository that may be imported.
	only []string
	// never lists packages that may not be imported.
	never []string
	// reason is printed with a failure.
	reason string
}

var importRules = []importRule{
	{
		name: "fault_is_the_bottom", from: []string{"internal/fault"}, only: []string{},
		reason: "everything imports fault, so it can know nothing",
	},
	{
		name: "bytesize_is_a_leaf", from: []string{"internal/bytesize"}, only: []string{},
		reason: "files and flags of every kind read sizes with it",
	},
	{
		name: "kvm_is_a_leaf", from: []string{"internal/kvm"}, only: []string{},
		reason: "a driver and the doctor ask the same question and may not know each other",
	},
	{
		name: "guest_knows_fault_only", from: []string{"internal/guest/..."},
		only:   []string{"internal/fault", "internal/guest/..."},
		reason: "guestd is built from it: what it imports is inside every sandbox",
	},
	{
		name: "guestd_is_small", from: []string{"cmd/guestd/..."},
		only:   []string{"internal/fault", "internal/guest/...", "cmd/guestd/..."},
		reason: "guestd runs beside hostile programs: what it does not contain cannot be misused",
	},
	{
		name: "engine_knows_no_driver", from: []string{"internal/sandbox"},
		only:   []string{"internal/fault", "internal/guest/...", "internal/netguard"},
		reason: "package app hands the driver in; the engine must work with any",
	},
	{
		name: "drivers_know_the_engine_only", from: drivers,
		only:   join(engine, drivers, []string{"internal/sandbox/cgroup", "internal/kvm"}),
		reason: "a driver gives a byte stream and lifecycle verbs; it must not know what runs inside or why",
	},
	{
		name: "netguard_knows_fault_only", from: []string{"internal/netguard/..."},
		only:   []string{"internal/fault", "internal/netguard/..."},
		reason: "it decides what may be reached, whoever asks from whatever machine",
	},
	{
		name: "netlink_stays_in_netns", from: []string{"internal/...", "cmd/..."}, except: []string{"internal/netguard/netns"},
		never:  []string{"github.com/vishvananda/netlink/...", "github.com/google/nftables/...", "github.com/mdlayher/netlink/..."},
		reason: "one package makes interfaces and rules; all others see a path and an address",
	},
	{
		name: "cgroup_knows_fault_only", from: []string{"internal/sandbox/cgroup"}, only: []string{"internal/fault"},
		reason: "it keeps the host's cgroups for any driver; what is in them is not its business",
	},
	{
		name: "boot_is_lean", from: []string{"cmd/assay-boot"},
		only:   []string{"internal/sandbox/gvisor/..."},
		reason: "it is started for every machine: each package it holds costs every start",
	},
	{
		name: "box_is_lean", from: []string{"cmd/assay-box"},
		only:   []string{"internal/sandbox/qemu/box"},
		reason: "it is started for every machine, and for a moment with all rights: it must be small",
	},
	{
		name: "doctor_knows_nothing", from: []string{"internal/doctor"}, only: []string{"internal/fault", "internal/kvm"},
		reason: "the command line and a server examine a host with it before anything else works",
	},
	{
		name: "driver_suite_fits_any_driver", from: []string{"internal/sandbox/drivertest/..."},
		only:   join(engine, []string{"internal/require", "internal/sandbox/drivertest/..."}),
		reason: "one suite that every driver must pass cannot know one of them",
	},
	{
		name: "image_knows_the_engine_only", from: []string{"internal/image/..."},
		only:   join(engine, []string{"internal/bytesize", "internal/image/..."}),
		reason: "an image is made before anybody knows what it is for",
	},
	{
		name: "supervisor_knows_the_engine_only", from: []string{"internal/supervisor"}, only: engine,
		reason: "the engine and the building of templates are handed in; the terminal stays with the command line",
	},
	{
		name: "account_knows_nobody", from: []string{"internal/account/..."},
		only:   []string{"internal/fault", "internal/account/..."},
		reason: "everything asks it who may do what; a thing is a kind, an owner and a place",
	},
	{
		name: "account_is_offline", from: []string{"internal/account"},
		never:  []string{"net/http", "database/sql", "github.com/coreos/go-oidc/..."},
		reason: "how people are kept and where they come from is handed in; tests and doors use the same rules",
	},
	{
		name: "sandboxes_are_the_engine_with_owners", from: []string{"internal/sandboxes"}, only: join(engine, []string{"internal/account"}),
		reason: "doors of every wire format offer it, and app hands in templates and the store",
	},
	{
		name: "pandastack_is_one_door_over_one_service", from: []string{"internal/compat/pandastack"},
		only:   join(engine, []string{"internal/account", "internal/httpapi", "internal/sandboxes"}),
		reason: "a front translates; what two fronts need belongs to the service",
	},
	{
		name: "judge_knows_the_engine_only", from: []string{"internal/judge/..."},
		only:   join(engine, []string{"internal/judge/..."}),
		reason: "a verdict must not depend on a driver, on how the template was built or on who asks",
	},
	{
		name: "course_and_room_stand_on_judge", from: []string{"internal/course/...", "internal/room/..."},
		never:  join(drivers, adapters, doors, []string{"internal/app", "internal/image/..."}),
		reason: "the domain declares what it needs in deps.go; app joins it with adapters",
	},
	{
		name: "course_not_room", from: []string{"internal/course/..."}, never: []string{"internal/room/..."},
		reason: "siblings never import each other: what both need belongs below",
	},
	{
		name: "room_not_course", from: []string{"internal/room/..."}, never: []string{"internal/course/..."},
		reason: "siblings never import each other: what both need belongs below",
	},
	{
		name: "only_app_joins_drivers", from: []string{"internal/...", "cmd/..."},
		except: join(drivers, []string{"internal/app", "cmd/assay-boot", "cmd/assay-box"}),
		never:  drivers,
		reason: "which driver runs is decided in one place; cmd/assay-boot is a part of the gvisor driver, cmd/assay-box of qemu",
	},
	{
		name: "doors_never_see_adapters", from: doors, never: adapters,
		reason: "doors call services; how things are stored is app's choice",
	},
	{
		name: "services_know_no_adapters", from: services,
		never:  join(drivers, adapters, doors, []string{"internal/app", "internal/image/...", "internal/config"}),
		reason: "a service declares what it needs in deps.go; app joins it with adapters",
	},
	{
		name: "adapters_never_see_doors", from: adapters, never: join(doors, []string{"internal/app"}),
		reason: "an adapter carries data for the domain and does not know who asked",
	},
	{
		name: "blob_knows_fault_only", from: []string{"internal/blob/..."}, only: []string{"internal/fault", "internal/blob/..."},
		reason: "bytes are kept by their digest, whatever they mean",
	},
	{
		name: "s3_stays_in_blob", from: []string{"internal/...", "cmd/..."}, except: []string{"internal/blob/..."},
		never:  []string{"github.com/minio/minio-go/v7/...", "github.com/johannesboyne/gofakes3/..."},
		reason: "everybody else keeps bytes by their digest, in a folder as in a bucket",
	},
	{
		name: "bus_knows_fault_only", from: []string{"internal/bus/..."}, only: []string{"internal/fault", "internal/bus/..."},
		reason: "events are carried whatever they mean",
	},
	{
		name: "nats_stays_in_bus", from: []string{"internal/...", "cmd/..."}, except: []string{"internal/bus/..."},
		never:  []string{"github.com/nats-io/nats.go/...", "github.com/nats-io/nats-server/v2/..."},
		reason: "everybody else needs a wake-up and events, which may be lost; how they travel is one package's business",
	},
	{
		name: "work_knows_fault_only", from: []string{"internal/work/..."}, only: []string{"internal/fault", "internal/work/..."},
		reason: "a job is done by its handler; who keeps jobs and who wakes workers is handed in",
	},
	{
		name: "sql_stays_in_its_store", from: []string{"internal/...", "cmd/..."},
		except: []string{"internal/sqlstore/..."},
		never:  []string{"database/sql", "github.com/jackc/pgx/v5/...", "modernc.org/sqlite/...", "github.com/pressly/goose/v3/..."},
		reason: "one query set for two databases is kept in one place; the domain speaks of its own things",
	},
	{
		name: "only_mains_use_app", from: []string{"internal/..."}, except: []string{"internal/app", "internal/cli/..."},
		never:  []string{"internal/app"},
		reason: "app knows all packages, so nothing else may know app; the command line starts it",
	},
	{
		name: "only_cmd_uses_cli", from: []string{"internal/..."}, except: []string{"internal/cli/..."},
		never:  []string{"internal/cli/..."},
		reason: "what two doors need is a service, not a command",
	},
	{
		name: "gvisor_stays_in_its_driver", from: []string{"internal/...", "cmd/..."},
		except: []string{"internal/sandbox/gvisor/...", "cmd/assay-boot"},
		never:  []string{"gvisor.dev/gvisor/..."},
		reason: "gVisor has no stable interface; a new version may touch one package only",
	},
	{
		name: "terminal_stays_in_cli", from: []string{"internal/..."}, except: []string{"internal/cli/..."},
		never:  []string{"github.com/alecthomas/kong/...", "charm.land/lipgloss/v2/...", "golang.org/x/term"},
		reason: "only the command line speaks with a terminal",
	},
	{
		name: "tests_stay_out_of_products", from: []string{"internal/...", "cmd/..."},
		except: join(testPackages, []string{"internal/guard"}),
		never:  join(testPackages, []string{"testing"}),
		reason: "package testing adds flags and weight to a program",
	},
}

func TestImportRules(t *testing.T) {
	t.Parallel()
	for _, rule := range importRules {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			for _, s := range sources(t) {
				if s.test || !matchesAny(rule.from, s.dir) || matchesAny(rule.except, s.dir) {
					continue
				}
				for _, imported := range s.imports() {
					if rule.allows(imported) {
						continue
					}
					t.Errorf("%s imports %s\n\treason against it: %s", s.path, imported, rule.reason)
				}
			}
		})
	}
}

// allows says whether the rule lets a package be imported.
func (r importRule) allows(imported string) bool {
	if matchesAny(r.never, imported) {
		return false
	}
	ours := strings.HasPrefix(imported, "internal/") || strings.HasPrefix(imported, "cmd/")
	return r.only == nil || !ours || matchesAny(r.only, imported)
}

// TestDriversAreApart is a rule that no table row can say: a driver may import
// packages below itself, but no other driver.
func TestDriversAreApart(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		for _, own := range drivers {
			if !matches(own, s.dir) {
				continue
			}
			for _, imported := range s.imports() {
				if matchesAny(drivers, imported) && !matches(own, imported) {
					t.Errorf("%s imports %s\n\treason against it: a driver that leans on another one breaks with it", s.path, imported)
				}
			}
		}
	}
}

// TestTestImports holds for test files too.
func TestTestImports(t *testing.T) {
	t.Parallel()
	never := map[string]string{
		"github.com/stretchr/testify/...": "plain comparisons and cmp.Diff say what was wanted and what came",
		"github.com/golang/mock/...":      "a working fake beside the real type is checked by the same suite",
		"go.uber.org/mock/...":            "a working fake beside the real type is checked by the same suite",
		"io/ioutil":                       "its functions moved to io and os",
		"math/rand":                       "math/rand/v2 has no global seed to forget",
	}
	for _, s := range sources(t) {
		for _, imported := range s.imports() {
			for pattern, reason := range never {
				if matches(pattern, imported) {
					t.Errorf("%s imports %s\n\treason against it: %s", s.path, imported, reason)
				}
			}
		}
	}
}

func TestRulesBite(t *testing.T) {
	t.Parallel()
	tests := []struct {
		rule, imported string
		want           bool
	}{
		{"fault_is_the_bottom", "internal/guest", false},
		{"fault_is_the_bottom", "errors", true},
		{"guest_knows_fault_only", "internal/fault", true},
		{"guest_knows_fault_only", "internal/sandbox", false},
		{"guest_knows_fault_only", "golang.org/x/net/http2", true},
		{"engine_knows_no_driver", "internal/sandbox/gvisor", false},
		{"judge_knows_the_engine_only", "internal/judge/checker", true},
		{"judge_knows_the_engine_only", "internal/image", false},
		{"supervisor_knows_the_engine_only", "internal/app", false},
		{"only_app_joins_drivers", "internal/sandbox/fake", false},
		{"only_app_joins_drivers", "internal/sandbox", true},
		{"gvisor_stays_in_its_driver", "gvisor.dev/gvisor/runsc/container", false},
	}
	for _, tt := range tests {
		found := false
		for _, r := range importRules {
			if r.name != tt.rule {
				continue
			}
			found = true
			if got := r.allows(tt.imported); got != tt.want {
				t.Errorf("rule %s allows %s: %v, want %v", tt.rule, tt.imported, got, tt.want)
			}
		}
		if !found {
			t.Errorf("no rule %s", tt.rule)
		}
	}
}
