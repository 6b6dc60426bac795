package qemu

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/internal/fault"
	"assay/internal/guest"
)

// kernelPackage is Debian's package with the guest's kernel.
const kernelPackage = "linux-image-cloud-amd64"

// kernelDirs are where a guest kernel is looked for when nobody says: where
// tools/install-guest-kernel unpacks the package, and where the package lies
// when it is installed as the host's own.
var kernelDirs = []string{"/usr/local/lib/assay/guest-kernel", "/"}

// kernel is a guest kernel on this host.
type kernel struct {
	version string
	image   string // path
	modules string // directory
}

// findKernel gives the newest guest kernel below the first directory that has
// one.
func findKernel(dirs []string) (kernel, error) {
	for _, dir := range dirs {
		images, err := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*-cloud-amd64"))
		if err != nil {
			return kernel{}, fault.Errorf(fault.Internal, "look for a guest kernel in %s: %w", dir, err)
		}
		slices.SortFunc(images, compareVersions)
		for _, image := range slices.Backward(images) {
			version := strings.TrimPrefix(filepath.Base(image), "vmlinuz-")
			modules := filepath.Join(dir, "lib", "modules", version)
			if _, err := os.Stat(modules); err == nil {
				return kernel{version: version, image: image, modules: modules}, nil
			}
		}
	}
	return kernel{}, fault.Errorf(fault.Unsupported, "no guest kernel in %s", strings.Join(dirs, ", ")).
		WithHint("run tools/install-guest-kernel as root: it unpacks Debian's %s, and leaves the host's own kernel alone", kernelPackage)
}

// compareVersions orders names by the numbers in them.
func compareVersions(a, b string) int {
	numbers := func(s string) (list []int) {
		for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
			n, _ := strconv.Atoi(f) // digits; too many of them count as none
			list = append(list, n)
		}
		return list
	}
	return slices.Compare(numbers(a), numbers(b))
}

// wantedModules are what a guest needs, besides its board's transport, to reach
// its root filesystem and its link; what they need themselves is found in them.
var wantedModules = []string{"virtio_blk", "virtio_console", "erofs", "overlay"}

// moduleFiles gives the files of the wanted modules and of all that they need,
// in the order to load them. What is built into the kernel has none.
func (k kernel) moduleFiles(wanted []string) ([]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(k.modules, func(path string, d fs.DirEntry, err error) error {
		if name, rest, ok := strings.Cut(d.Name(), ".ko"); err == nil && ok && !d.IsDir() {
			if rest != "" {
				return fault.Errorf(fault.Unsupported, "module %s of guest kernel %s is compressed", d.Name(), k.version).
					WithHint("use the kernel of Debian 12: its modules are not")
			}
			files[moduleName(name)] = path
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read modules of guest kernel %s: %w", k.version, err)
	}
	builtin, err := os.ReadFile(filepath.Join(k.modules, "modules.builtin"))
	if err != nil {
		return nil, fault.Errorf(fault.Unsupported, "guest kernel %s is not whole: %w", k.version, err).WithHint("install it again: tools/install-guest-kernel")
	}
	inKernel := map[string]bool{}
	for line := range strings.FieldsSeq(string(builtin)) {
		inKernel[moduleName(strings.TrimSuffix(filepath.Base(line), ".ko"))] = true
	}
	var order []string
	seen := map[string]bool{}
	var add func(name string) error
	add = func(name string) error {
		if seen[name] || inKernel[name] {
			return nil
		}
		seen[name] = true
		path, ok := files[name]
		if !ok {
			return fault.Errorf(fault.Unsupported, "guest kernel %s has no module %s", k.version, name).WithHint("install Debian's %s: tools/install-guest-kernel", kernelPackage)
		}
		needs, err := moduleNeeds(path)
		if err != nil {
			return err
		}
		for _, n := range needs {
			if err := add(n); err != nil {
				return err
			}
		}
		order = append(order, path)
		return nil
	}
	for _, name := range wanted {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// moduleName is the one of a module's two spellings that is compared.
func moduleName(s string) string { return strings.ReplaceAll(s, "-", "_") }

// moduleNeeds reads from a module which others it needs. The index of the
// package is made only where the package is installed.
func moduleNeeds(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, fault.Errorf(fault.Unsupported, "read module %s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fault.Errorf(fault.Unsupported, "module %s does not say what it needs", path).
			WithHint("unpack the guest kernel again: tools/install-guest-kernel")
	}
	info, err := section.Data()
	if err != nil {
		return nil, fault.Errorf(fault.Unsupported, "read module %s: %w", path, err)
	}
	var needs []string
	for field := range bytes.SplitSeq(info, []byte{0}) {
		if list, ok := bytes.CutPrefix(field, []byte("depends=")); ok {
			for name := range bytes.SplitSeq(list, []byte{','}) {
				if len(name) > 0 {
					needs = append(needs, moduleName(string(name)))
				}
			}
		}
	}
	return needs, nil
}

// bootFiles makes, once for each kernel, guestd and transport, the first
// filesystem of the guest's kernel, and gives its path and the digest of kernel
// and filesystem.
func (k kernel) bootFiles(guestd, cache, transport string) (initramfs, digest string, err error) {
	program, err := os.ReadFile(guestd)
	if err != nil {
		return "", "", fault.Errorf(fault.Unsupported, "read guestd: %w", err).WithHint("build it beside assay: make build")
	}
	modules, err := k.moduleFiles(append([]string{transport}, wantedModules...))
	if err != nil {
		return "", "", err
	}
	later, err := k.moduleFiles(lateModules)
	if err != nil {
		return "", "", err
	}
	later = slices.DeleteFunc(later, func(path string) bool { return slices.Contains(modules, path) })
	var a archive
	a.dir("dev")
	a.console("dev/console")
	a.file("init", 0o755, program)
	a.dir(guest.VMModules[1:])
	names := func(list string, paths []string) {
		var order strings.Builder
		for _, path := range paths {
			fmt.Fprintln(&order, filepath.Base(path))
		}
		a.file(guest.VMModules[1:]+"/"+list, 0o644, []byte(order.String()))
	}
	names("order", modules)
	names("later", later)
	for _, path := range append(modules, later...) {
		content, err := os.ReadFile(path)
		if err != nil {
			return "", "", fault.Errorf(fault.Unsupported, "read module: %w", err)
		}
		a.file(guest.VMModules[1:]+"/"+filepath.Base(path), 0o644, content)
	}
	content := a.end()
	image, err := os.ReadFile(k.image)
	if err != nil {
		return "", "", fault.Errorf(fault.Unsupported, "read guest kernel: %w", err)
	}
	h := sha256.New()
	_, _ = h.Write(image) // a hash takes everything
	_, _ = h.Write(content)
	digest = hex.EncodeToString(h.Sum(nil))[:16]
	initramfs = filepath.Join(cache, "initramfs-"+digest)
	if info, err := os.Stat(initramfs); err == nil && info.Size() == int64(len(content)) {
		return initramfs, digest, nil
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", "", fault.Errorf(fault.Internal, "keep first filesystem of guests: %w", err)
	}
	// Renamed into place: another process may be looking for it now.
	tmp := initramfs + "." + strconv.Itoa(os.Getpid())
	if err = os.WriteFile(tmp, content, 0o644); err == nil {
		err = os.Rename(tmp, initramfs)
	}
	if err != nil {
		return "", "", fault.Errorf(fault.Internal, "keep first filesystem of guests: %w", err)
	}
	return initramfs, digest, nil
}
