package handin

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// TestHostile refuses each form by name, with a reason and a remedy.
func TestHostile(t *testing.T) {
	t.Parallel()
	named := func(names ...string) []byte {
		items := make([]item, len(names))
		for i, n := range names {
			items[i] = item{name: n, data: "x"}
		}
		return zipOf(items)
	}
	offset := uint32(0)
	deep := strings.Repeat("d/", MaxDepth) + "x"
	tests := []struct {
		name string
		data []byte
		want string
	}{
		{"zip_climbs", named("../../x"), `the name "../../x" climbs out of its folder`},
		{"zip_climbs_inside", named("a/../../x"), `"a/../../x" climbs out`},
		{"zip_absolute", named("/etc/passwd"), `"/etc/passwd" is absolute`},
		{"zip_backslash", named(`a\..\b`), `"a\\..\\b" has a backslash`},
		{"zip_drive", named("C:x.py"), `"C:x.py" begins with a drive`},
		{"zip_drive_slash", named("c:/x.py"), `"c:/x.py" begins with a drive`},
		{"zip_unc", named("//server/x"), `"//server/x" is absolute`},
		{"zip_nul", named("a.py\x00.txt"), `"a.py\x00.txt" has a NUL`},
		{"zip_escape", named("a\x1b[2J.py"), `has a control character`},
		{"zip_turned_letters", named("a\u202eyp.exe"), `has a control character`},
		{"zip_not_utf8", named("caf\xe9.py"), `"caf\xe9.py" is not UTF-8`},
		{"zip_empty_name", named(""), `the name "" is empty`},
		{"zip_empty_part", named("a//b"), `"a//b" has an empty part`},
		{"zip_dot_part", named("a/./b"), `"a/./b" has an empty part`},
		{"zip_long_name", named(strings.Repeat("n", MaxName+1)), "is longer than 1024 bytes"},
		{"zip_long_part", named(strings.Repeat("n", 256)), "has a part longer than 255 bytes"},
		{"zip_deep", named(deep), "is more than 32 folders deep"},
		{"zip_device_con", named("con.txt"), `"con.txt" is that of a device on Windows`},
		{"zip_device_aux", named("src/AUX"), `"src/AUX" is that of a device`},
		{"zip_device_com", named("com1.py"), `"com1.py" is that of a device`},
		{"zip_device_superscript", named("LPT².x"), "is that of a device"},
		{"zip_device_space", named("nul .py"), "is that of a device"},
		{"zip_twin_case", named("A.py", "a.py"), `"A.py" and "a.py" are one file on many systems`},
		{"zip_twin_folder_case", named("Src/a.py", "src/b.py"), `"Src" and "src" are one file`},
		{"zip_twin_dot", named("a.py", "a.py."), `"a.py" and "a.py." are one file`},
		{"zip_twin_kelvin", named("k.py", "\u212a.py"), "are one file"},
		{"zip_twin_form", named("caf\u00e9.py", "cafe\u0301.py"), `"café.py" is there twice`},
		{"zip_twice", named("a.py", "a.py"), `"a.py" is there twice`},
		{"zip_file_and_folder", named("a", "a/b"), `"a" is both a file and a folder`},
		{"zip_folder_and_file", named("a/b", "a"), `"a" is both a file and a folder`},
		{"zip_link", zipOf([]item{{name: "x", data: "/etc/passwd", mode: 0o120777}, {name: "x", data: "y"}}), `"x" is a symbolic link to "/etc/passwd"`},
		{"zip_device_node", zipOf([]item{{name: "tty", mode: 0o020644}}), `"tty" is a device, a pipe or a socket`},
		{"zip_encrypted", zipOf([]item{{name: "a.py", data: "xxxxxxxxxxxxx", flags: flagEncrypted}}), `"a.py" is encrypted`},
		{"zip_other_method", zipOf([]item{{name: "a.py", data: "x", method: 14}}), `"a.py" is packed with a method`},
		{"zip_folder_with_data", zipOf([]item{{name: "a/", data: "x"}}), `"a" is both a file and a folder`},
		{"zip_two_names", zipOf([]item{{name: "a.py", local: "b.py"}}), `one file is called both "a.py" and "b.py"`},
		{"zip_two_names_in_field", zipOf([]item{{name: "a.py", extra: unicodeField("a.py", "b.py")}}), `one file is called both "a.py" and "b.py"`},
		{"zip_two_sizes", zipOf([]item{{name: "a.py", data: "abc", localSize: 2}}), `"a.py" has two sizes`},
		{"zip_two_checksums", zipOf([]item{{name: "a.py", data: "abc", descriptor: true, lateCRC: 1}}), `"a.py" has two checksums`},
		{"zip_two_flags", zipOf([]item{{name: "a.py", data: "abc", localFlags: flagEncrypted}}), `"a.py" is packed in two ways at once`},
		{"zip_size_lies_small", zipOf([]item{{name: "a.py", data: strings.Repeat("a", 1000), size: 10, deflate: true}}), `"a.py" cannot be read: it has more bytes than announced`},
		{"zip_size_lies_large", zipOf([]item{{name: "a.py", data: "a", size: 1000, deflate: true}}), `"a.py" cannot be read: it has fewer bytes than announced`},
		{"zip_checksum", zipOf([]item{{name: "a.py", data: "a", badCRC: true}}), `"a.py" cannot be read: its checksum is wrong`},
		{"zip_zip64_without_size", zipOf([]item{{name: "a.py", data: "abc", size: 1<<32 - 1}}), `"a.py" has no size that can be true`},
		{"zip_zip64_lies", zipOf([]item{{name: "a.py", data: "abc", size: 1<<32 - 1, packed: 1<<32 - 1, extra: zip64Field(1<<62, 3), localExtra: zip64Field(1<<62, 3)}}), `"a.py" has more than 50 MiB (4294967296.0 GiB)`},
		{"zip_zip64_below_zero", zipOf([]item{{name: "a.py", data: "abc", size: 1<<32 - 1, packed: 1<<32 - 1, extra: zip64Field(1<<63, 3), localExtra: zip64Field(1<<63, 3)}}), `"a.py" has no size that can be true`},
		{"zip_overlap", zipOf([]item{{name: "a.py", data: "same"}, {name: "a.py", data: "", at: &offset, size: 4, packed: 4}}), "two sizes"},
		{"zip_overlap_nested", overlapping(), `the entries "a" and "b" overlap`},
		{"zip_outside", zipOf([]item{{name: "a.py", data: "abc", packed: 1 << 20}}), `"a.py" lies outside of it`},
		{"zip_unnamed_first", unnamed("a", "b"), "it has a file that its list does not name"},
		{"zip_unnamed_last", unnamed("b", "a"), "it has a file that its list does not name"},
		{"zip_cut", named("a.py")[:60], "the zip has no end"},
		{"zip_prefix", append([]byte("PK\x03\x04 a program"), named("a.py")...), "its list of files does not end where its end record begins"},
		{"zip_suffix", append(named("a.py"), "and more"...), "the zip has no end"},
		{"zip_count_lies", zipOf([]item{{name: "a"}, {name: "b"}}, setCount(1)), "announces 1 entries"},
		{"zip_count_lies_high", zipOf([]item{{name: "a"}}, setCount(9)), "announces 9 entries"},
		{"zip_directory_malformed", zipOf([]item{{name: "a", centralSign: "PKxx"}}), "its list of files is malformed"},
		{"zip_many", manyEmpty(MaxEntries + 1), "more than 10000 files and folders"},
		{"zip_file_too_large", zipOf([]item{{name: "a.bin", size: MaxFile + 1}}), `"a.bin" has more than 50 MiB (50 MiB)`},
		{"zip_bomb", zipOf([]item{{name: "a.bin", data: strings.Repeat("a", 10<<20), deflate: true}}), `grows more than 200 times when it is unpacked, reached at "a.bin"`},
		{"zip_empty", named(), "there is no file in it"},
		{"zip_junk_only", named("__MACOSX/._a"), "there is no file in it"},
		{"rar", []byte("Rar!\x1a\x07\x01\x00 and so on"), "is an archive of a kind that is not read"},

		{"tar_climbs", tarOf(t, tar.Header{Name: "../x"}), `"../x" climbs out`},
		{"tar_absolute", tarOf(t, tar.Header{Name: "/etc/passwd"}), `"/etc/passwd" is absolute`},
		{"tar_link", tarOf(t, tar.Header{Name: "x", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, tar.Header{Name: "x"}), `"x" is a symbolic link to "/etc/passwd"`},
		{"tar_hard_link", tarOf(t, tar.Header{Name: "x", Typeflag: tar.TypeLink, Linkname: "../tests/test_a.py"}), `"x" is a hard link to "../tests/test_a.py"`},
		{"tar_device", tarOf(t, tar.Header{Name: "sda", Typeflag: tar.TypeBlock, Devmajor: 8}), `"sda" is a device`},
		{"tar_pipe", tarOf(t, tar.Header{Name: "p", Typeflag: tar.TypeFifo}), `"p" is a named pipe`},
		{"tar_twin_case", tarOf(t, tar.Header{Name: "A.py"}, tar.Header{Name: "a.py"}), `"A.py" and "a.py" are one file`},
		{"tar_twice", tarOf(t, tar.Header{Name: "a.py"}, tar.Header{Name: "a.py"}), `"a.py" is there twice`},
		{"tar_cut", tarOf(t, tar.Header{Name: "a.py"})[:700], "the archive cannot be read: it is cut off"},
		{"tar_without_end", tarOf(t, tar.Header{Name: "a.py"})[:1024], "the archive cannot be read: it is cut off"},
		{"tar_size_lies", tarHeader(t, 1<<20), `"large" cannot be read: it has fewer bytes than announced`},
		{"tar_too_large", tarHeader(t, MaxFile+1), `"large" has more than 50 MiB`},
		{"tar_gz_cut", gzipOf(t, tarOf(t, tar.Header{Name: "a.py"}, tar.Header{Name: "b.py"}))[:60], "the archive cannot be read: it is cut off"},
		{"tar_gz_bomb", gzipOf(t, append(tarHeader(t, 40<<20), make([]byte, 40<<20)...)), "grows more than 200 times"},
		{"tar_gz_junk_bomb", gzipOf(t, append(tarNamed(t, ".git/pack", 40<<20), make([]byte, 40<<20)...)), "grows more than 200 times"},
		{"gzip_of_text", gzipOf(t, []byte("x = 1\n")), "there is no tar in it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := Read(place(t, "ada.zip", tt.data), Options{})
			if err == nil {
				t.Fatalf("taken: %d files", len(s.Files))
			}
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), `submission "ada"`) {
				t.Errorf("got %q (%v), want %q", err, fault.KindOf(err), tt.want)
			}
			if fault.HintOf(err) == "" {
				t.Errorf("no remedy: %v", err)
			}
		})
	}
}

// overlapping is the small form of a bomb whose entries share their data: the
// first one's data are the whole of the second, header and all.
func overlapping() []byte {
	inner := zipOf([]item{{name: "b", data: strings.Repeat("b", 100)}})
	local := string(inner[:sizeLocal+1+100])
	at := uint32(sizeLocal + 1)
	// The second entry's own copy is left out: its line leads into the first.
	all := zipOf([]item{{name: "a", data: local}, {name: "b", data: strings.Repeat("b", 100), at: &at}})
	return all
}

// unnamed has two files, and only b in its directory.
func unnamed(names ...string) []byte {
	var items []item
	for _, n := range names {
		items = append(items, item{name: n, data: n, hidden: n == "a"})
	}
	return zipOf(items)
}

// setCount changes the number of entries in the end record.
func setCount(n uint16) func([]byte) []byte {
	return func(b []byte) []byte {
		end := b[len(b)-sizeEnd:]
		binary.LittleEndian.PutUint16(end[8:], n)
		binary.LittleEndian.PutUint16(end[10:], n)
		return b
	}
}

func manyEmpty(n int) []byte {
	items := make([]item, n)
	for i := range items {
		items[i].name = fmt.Sprint(i)
	}
	return zipOf(items)
}

// tarHeader is the beginning of a tar whose one file is not there.
func tarHeader(t *testing.T, size int64) []byte { return tarNamed(t, "large", size) }

func tarNamed(t *testing.T, name string, size int64) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := tar.NewWriter(&buf).WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: size, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// TestHostileFolder holds the same for what lies in a folder.
func TestHostileFolder(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		make func(dir string) error
		want string
	}{
		{"link", func(d string) error { return os.Symlink("/etc/passwd", filepath.Join(d, "x")) }, `"x" is a symbolic link to "/etc/passwd"`},
		{"link_to_folder", func(d string) error { return os.Symlink("/etc", filepath.Join(d, "etc")) }, `"etc" is a symbolic link to "/etc"`},
		{"pipe", func(d string) error { return unix.Mkfifo(filepath.Join(d, "p"), 0o600) }, `"p" is a named pipe`},
		{"large", func(d string) error { return sparse(d, "core", 1<<40) }, `"core" has more than 50 MiB (1024.0 GiB)`},
		{"total", func(d string) error {
			return errors.Join(sparse(d, "a", 40<<20), sparse(d, "b", 40<<20), sparse(d, "c", 40<<20))
		}, `the submission has more than 100 MiB, reached at "c"`},
		{"twins", func(d string) error {
			if err := os.WriteFile(filepath.Join(d, "A.py"), nil, 0o600); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(d, "a.py"), nil, 0o600)
		}, `"A.py" and "a.py" are one file`},
		{"not_utf8", func(d string) error { return os.WriteFile(filepath.Join(d, "caf\xe9.py"), nil, 0o600) }, "is not UTF-8"},
		{"empty", func(string) error { return nil }, "there is no file in it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "ada")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := tt.make(dir); err != nil {
				t.Fatal(err)
			}
			_, err := Read(dir, Options{})
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.want) || fault.HintOf(err) == "" {
				t.Errorf("got %v (hint %q), want %q", err, fault.HintOf(err), tt.want)
			}
		})
	}
}

// sparse makes a file of a size that holds no data.
func sparse(dir, name string, size int64) error {
	p := filepath.Join(dir, name)
	return errors.Join(os.WriteFile(p, nil, 0o600), os.Truncate(p, size))
}

// TestUnreadable names the file that the host does not give, also when the
// tests run as root.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret.py"), []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	failed := make(chan error)
	go func() {
		// The thread takes another user for its files and ends with the goroutine.
		runtime.LockOSThread()
		if os.Geteuid() == 0 {
			_ = unix.Setfsuid(65534)
		}
		_, err := Read(dir, Options{})
		failed <- err
	}()
	if err := <-failed; !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), `"secret.py" cannot be read: permission denied`) {
		t.Errorf("got %v", err)
	}
}
