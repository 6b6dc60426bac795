package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"assay/internal/fault"
	"assay/templates"
)

func TestParseReadsEveryKey(t *testing.T) {
	t.Parallel()
	got, err := Parse("x.yaml", []byte(`
description: words
from:
  debian: bookworm
packages: [python3, "g++", gcc-12=12.2.0-14+deb12u1]
files:
  - path: /etc/motd
    content: hello
    mode: "0600"
    owner: user
run:
  - echo one
shape:
  vcpus: 2
  memory: 512MiB
  disk: 1GB
  processes: 64
languages: [c, cpp]
warm: [python3 -c pass]
user: alice
driver: qemu
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Definition{
		Description: "words", From: From{Debian: "bookworm"}, Packages: []string{"python3", "g++", "gcc-12=12.2.0-14+deb12u1"},
		Files: []File{{Path: "/etc/motd", Content: "hello", Mode: "0600", Owner: "user"}}, Run: []string{"echo one"},
		Shape:     Shape{VCPUs: 2, Memory: 512 << 20, Disk: 1e9, Processes: 64},
		Languages: []string{"c", "cpp"}, Warm: []string{"python3 -c pass"}, User: "alice", Driver: "qemu",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("definition (-want +got):\n%s", diff)
	}
}

func TestParseRefusesWithPlace(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, yaml string
		where      string // "x.yaml:line:column", or a prefix of it
		says       string
	}{
		{"unknown_key", "from:\n  debian: bookworm\npackage: [a]\n", "x.yaml:3:1:", "package"},
		{"unknown_nested_key", "from:\n  debain: bookworm\n", "x.yaml:2:3:", "debain"},
		{"wrong_type", "from:\n  debian: bookworm\npackages: 3\n", "x.yaml:3:", "packages"},
		{"vcpus_not_a_number", "from: {debian: bookworm}\nshape:\n  vcpus: many\n", "x.yaml:3:", "vcpus"},
		{"size_without_unit", "from: {debian: bookworm}\nshape:\n  memory: 512\n", "x.yaml:3:11:", "unit"},
		{"size_is_a_list", "from: {debian: bookworm}\nshape:\n  memory: [1]\n", "x.yaml:3:", "unit"},
		{"size_too_small", "from: {debian: bookworm}\nshape:\n  memory: 1MiB\n", "x.yaml:3:11:", "between 64MiB and 4TiB"},
		{"negative_processes", "from: {debian: bookworm}\nshape:\n  processes: -1\n", "x.yaml:3:14:", "between"},
		{"duplicate_key", "from: {debian: bookworm}\nuser: a\nuser: b\n", "x.yaml:3:1:", "user"},
		{"anchor_and_alias", "from: &f {debian: bookworm}\npackages: *f\n", "x.yaml:1:", "aliases"},
		{"merge_key", "from:\n  <<: {debian: bookworm}\n", "x.yaml:2:", "aliases"},
		{"two_documents", "from: {debian: bookworm}\n---\nfrom: {debian: sid}\n", "x.yaml:", "more than one"},
		{"no_from", "packages: [a]\n", "x.yaml:", "from needs one of"},
		{"two_sources", "from:\n  debian: bookworm\n  tar: x.tar\n", "x.yaml:3:8:", "do not go together"},
		{"bad_suite", "from:\n  debian: ../etc\n", "x.yaml:2:11:", "suite"},
		{"bad_reference", "from:\n  oci: \"Not A Reference\"\n", "x.yaml:2:8:", "reference"},
		{"option_as_package", "from: {debian: bookworm}\npackages: [ok, --force-yes]\n", "x.yaml:2:16:", "package name"},
		{"package_removal", "from: {debian: bookworm}\npackages: [apt-]\n", "x.yaml:2:12:", "package name"},
		{"package_with_comma", "from: {debian: bookworm}\npackages: [\"a,b\"]\n", "x.yaml:2:12:", "package name"},
		{"file_dots", "from: {debian: bookworm}\nfiles:\n  - path: /etc/../x\n    content: a\n", "x.yaml:3:11:", "not absolute"},
		{"file_over_guestd", "from: {debian: bookworm}\nfiles:\n  - path: /.assay/guestd\n    content: a\n", "x.yaml:3:11:", "belongs to the machine"},
		{"file_setuid", "from: {debian: bookworm}\nfiles:\n  - path: /x\n    content: a\n    mode: \"4755\"\n", "x.yaml:5:11:", "octal"},
		{"file_without_content", "from: {debian: bookworm}\nfiles:\n  - path: /x\n", "x.yaml:3:", "one of content, source"},
		{"run_without_debian", "from: {tar: x.tar}\nrun: [echo]\n", "x.yaml:2:", "need \"from: debian\""},
		{"empty_step", "from: {debian: bookworm}\nrun: [\"  \"]\n", "x.yaml:2:7:", "must have text"},
		{"user_root", "from: {debian: bookworm}\nuser: root\n", "x.yaml:2:7:", "ordinary"},
		{"unknown_driver", "from: {debian: bookworm}\ndriver: docker\n", "x.yaml:2:9:", "none of gvisor, qemu"},
		{"tab_indent", "from:\n\tdebian: bookworm\n", "x.yaml:", ""},
		{"brackets", strings.Repeat("[", 200_000), "x.yaml:1:33:", "deep"},
		{"braces", strings.Repeat("{a: ", 50_000), "x.yaml:1:", "deep"},
		{"dashes", strings.Repeat("- ", 100_000), "x.yaml:1:201:", "deep"},
		{"indent", "from:\n" + strings.Repeat(" ", 300) + "debian: bookworm\n", "x.yaml:2:301:", "deep"},
		{"reader_panics", "from: {debian: bookworm}\nlanguages: !00\n00: 0", "x.yaml:", ""},
		{"not_a_map", "[1, 2]\n", "x.yaml:1:", ""},
		{"empty", "", "x.yaml:", "empty"},
		{"comment_only", "# nothing\n", "x.yaml:", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("x.yaml", []byte(tt.yaml))
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("got %v, want a fault of kind invalid", err)
			}
			if !strings.HasPrefix(err.Error(), tt.where) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %q, want it to begin with %q and to say %q", err, tt.where, tt.says)
			}
		})
	}
}

func TestParseShowsExcerpt(t *testing.T) {
	t.Parallel()
	_, err := Parse("x.yaml", []byte("from:\n  debian: bookworm\nshape:\n  memory: lots\n"))
	want := `x.yaml:4:11: size "lots" is not a whole number with a unit such as 512MiB or 2GiB
   2 |   debian: bookworm
   3 | shape:
>  4 |   memory: lots
     |           ^`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

func TestParseRefusesLargeFiles(t *testing.T) {
	t.Parallel()
	_, err := Parse("x.yaml", []byte("from: {debian: bookworm}\n#"+strings.Repeat("x", MaxDefinition)))
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("got %v, want a fault of kind invalid", err)
	}
}

func TestBuiltinDefinitionsAreValid(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{Builtin: templates.FS})
	names := s.names()
	if want := []string{"base", "code-interpreter", "course", "judge"}; !cmp.Equal(names, want) {
		t.Fatalf("built-in templates are %v, want %v", names, want)
	}
	for _, name := range names {
		f, err := s.merged(name)
		if err != nil {
			t.Fatal(err)
		}
		if f.def.From.Debian == "" || f.def.Description == "" || len(f.def.Warm) == 0 {
			t.Errorf("%s: incomplete: %+v", name, f.def)
		}
	}
}

// FuzzParse: whatever comes in, it is a definition that can be written and
// read again, or a fault of kind invalid.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("../../templates/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, s := range []string{"from: &a\n- *a", "<<: *x", "from: {oci: ./x}\nshape: {memory: 64MiB}", "? [a]\n: b", "from: !!binary x", "\xff\xfe", "from: {tar: |\n x}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Parse("x.yaml", data)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("%v is of kind %v, want invalid", err, fault.KindOf(err))
			}
			return
		}
		out, err := yaml.Marshal(d)
		if err != nil {
			return // a size that is no multiple of 1 KiB cannot be written
		}
		again, err := Parse("x.yaml", out)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, out)
		}
		if diff := cmp.Diff(d, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("definition changed (-first +second):\n%s\n%s", diff, out)
		}
	})
}
