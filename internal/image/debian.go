package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/internal/fault"
)

// stepMark is what a hook prints before each step, so that the log and the
// progress say which one runs.
const stepMark = "assay: step "

// aptConfig are the host's settings of how packages are fetched; the rest of
// its configuration is not the template's business. They lie in the tree while
// packages are installed and are removed with the rest of etc/apt.
const aptConfigName = "/etc/apt/apt.conf.d/00assay-host"

// hostCertificates is where the host's certificates lie while steps run.
const hostCertificates = "/opt/assay-host-certificates.crt"

// debianTree fills work/root with a Debian suite, the packages, files and
// steps. The host's own apt sources and settings are used.
func (s *Store) debianTree(ctx context.Context, p *plan, work string, log *buildLog, obs Observer) error {
	bin, err := findTool("mmdebstrap", "mmdebstrap")
	if err != nil {
		return err
	}
	sources, err := aptSources(ctx, p.def.From.Debian)
	if err != nil {
		return err
	}
	config, err := aptConfig(ctx)
	if err != nil {
		return err
	}
	configFile, filesTar := filepath.Join(work, "apt.conf"), filepath.Join(work, "files.tar")
	if err := os.WriteFile(configFile, config, 0o644); err != nil {
		return s.diskFault(err, 0)
	}
	if err := writeFilesTar(filesTar, p.files); err != nil {
		return s.diskFault(err, 0)
	}

	asRoot := FullRoot()
	out, format := filepath.Join(work, "root"), "directory"
	if !asRoot {
		out, format = "-", "tar"
	}
	argv := []string{
		// The namespaces of this mode end with the tool, and so do its mounts,
		// also after kill -9; "root" would leave /dev and /proc in the tree.
		bin, "--mode=unshare", "--variant=minbase", "--format=" + format, "--verbose",
		`--aptopt=Acquire::Languages "none"`,
		`--aptopt=APT::Install-Recommends "false"`,
		"--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/info/*",
		"--dpkgopt=path-exclude=/usr/share/doc/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*",
		"--setup-hook=cat " + quote(configFile) + ` > "$1"` + aptConfigName,
		`--setup-hook=for f in auth.conf auth.conf.d; do if [ -r /etc/apt/$f ]; then cp -r /etc/apt/$f "$1/etc/apt/"; fi; done`,
		// Some packages (Java's) fail to configure without these directories.
		`--essential-hook=for i in 1 2 3 4 5 6 7 8 9; do mkdir -p "$1/usr/share/man/man$i"; done`,
	}
	if len(p.def.Packages) > 0 {
		argv = append(argv, "--include="+strings.Join(p.def.Packages, ","))
	}
	if len(p.files) > 0 {
		argv = append(argv, "--customize-hook=tar-in "+quote(filesTar)+" /")
	}
	fetchEnv, certificates := stepEnv()
	if certificates != "" && len(p.def.Run) > 0 {
		argv = append(argv, "--customize-hook=cp "+quote(certificates)+` "$1"`+hostCertificates)
	}
	for i, step := range p.def.Run {
		argv = append(argv, fmt.Sprintf(`--customize-hook=echo '%s%d'; exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive %s chroot "$1" /bin/sh -e -c %s`,
			stepMark, i+1, fetchEnv, quote(step)))
	}
	if certificates != "" && len(p.def.Run) > 0 {
		argv = append(argv, `--customize-hook=rm "$1"`+hostCertificates)
	}
	argv = append(argv, p.def.From.Debian, out, "-")

	watch := &packageWatch{obs: obs, steps: int64(len(p.def.Run))}
	log.line = watch.line
	defer func() { log.line = nil }()
	obs.Progress(Progress{Stage: StagePackages, Text: "fetch package lists of " + p.def.From.Debian})
	t := tool{argv: argv, env: toolEnv("TMPDIR=" + work), dir: work, stdin: strings.NewReader(sources), log: log}
	water := watchSpace(ctx, s.root)
	if asRoot {
		err = t.run(ctx)
	} else {
		err = s.runToTree(ctx, t, filepath.Join(work, "root"), obs)
	}
	full := water.end()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return err
	case full:
		return s.full("install packages", 0, water.lowest.Load())
	case fault.KindOf(err) != fault.Internal:
		return err
	}
	if watch.step > 0 {
		return fault.Errorf(fault.Invalid, "step %d of the definition ended with an error (%w):%s", watch.step, err, log.end()).
			WithHint("see %s", log.name())
	}
	hint := "check the package names and that this host's apt sources can be reached (apt-get update); see " + log.name()
	if !asRoot {
		hint = "an ordinary user needs lines in /etc/subuid and /etc/subgid (usermod --add-subuids --add-subgids), and newuidmap (apt-get install uidmap); else " + hint
	}
	return fault.Errorf(fault.Unavailable, "mmdebstrap %s: %w%s", p.def.From.Debian, err, log.end()).WithHint("%s", hint)
}

// runToTree is for ordinary users: the tool's user namespace knows owners that
// we may not give, so its tar is unpacked as our own files.
func (s *Store) runToTree(ctx context.Context, t tool, dir string, obs Observer) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	u, err := newUnpacker(dir, s.opt.Caps, nil)
	if err != nil {
		return err
	}
	defer u.close()
	r, w := io.Pipe()
	t.stdout = w
	ran := make(chan error, 1)
	go func() {
		err := t.run(ctx)
		w.CloseWithError(err)
		ran <- err
	}()
	if err = u.apply(ctx, r); err == nil {
		// A tar ends before its last block does; the tool must write that too.
		_, err = io.Copy(io.Discard, r)
	}
	r.CloseWithError(err)
	if runErr := <-ran; err == nil || fault.Is(err, fault.Invalid) && runErr != nil {
		err = runErr
	}
	return s.diskFault(err, 0)
}

// aptSources gives sources.list lines for a suite: the host's own sources of
// that suite, its updates and its security updates.
func aptSources(ctx context.Context, suite string) (string, error) {
	bin, err := findTool("apt-get", "apt")
	if err != nil {
		return "", err
	}
	out, err := output(ctx, bin, "indextargets", "--no-release-info",
		"--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages")
	if err != nil {
		return "", fmt.Errorf("read apt sources: %w", err)
	}
	var lines []string
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue // a flat repository: no suite of Debian
		}
		if r := fields[1]; r == suite || strings.HasPrefix(r, suite+"-") || strings.HasPrefix(r, suite+"/") {
			lines = append(lines, "deb "+strings.Join(fields, " "))
		}
	}
	if len(lines) == 0 {
		return "", fault.Errorf(fault.Unsupported, "this host's apt sources do not have the suite %s", suite).
			WithHint("add a deb line for %s under /etc/apt/sources.list.d, or import an OCI image with \"assay template import\"", suite)
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n") + "\n", nil
}

// aptConfig gives the host's settings of how to fetch: proxies, checks, and
// the like.
func aptConfig(ctx context.Context) ([]byte, error) {
	bin, err := findTool("apt-config", "apt")
	if err != nil {
		return nil, err
	}
	out, err := output(ctx, bin, "dump", "Acquire")
	if err != nil {
		return nil, fmt.Errorf("read apt configuration: %w", err)
	}
	var b strings.Builder
	for line := range strings.Lines(out) {
		// Which indexes are fetched is the suite's affair and needs no others.
		if strings.HasPrefix(line, "Acquire::IndexTargets") || strings.HasPrefix(line, "Acquire::Languages") {
			continue
		}
		b.WriteString(line)
	}
	return []byte(b.String()), nil
}

func output(ctx context.Context, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = toolEnv()
	out, err := cmd.Output()
	if ee, ok := errors.AsType[*exec.ExitError](err); ok && len(ee.Stderr) > 0 {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(string(ee.Stderr)))
	}
	return string(out), err
}

// writeFilesTar packs the definition's files for mmdebstrap's tar-in, with the
// directories that they need.
func writeFilesTar(name string, files []treeFile) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	err = packFiles(f, files)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func packFiles(w io.Writer, files []treeFile) error {
	tw := tar.NewWriter(w)
	for _, f := range files {
		name := strings.TrimPrefix(f.path, "/")
		if err := tw.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.data)),
		}); err != nil {
			return err
		}
		if _, err := tw.Write(f.data); err != nil {
			return err
		}
	}
	return tw.Close()
}

// quote makes one shell word of a text.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// packageWatch turns apt's and dpkg's lines into progress. Only what is shown
// depends on their wording.
type packageWatch struct {
	obs         Observer
	done, total int64
	step, steps int64
}

func (w *packageWatch) line(line string) {
	if n, ok := strings.CutPrefix(line, stepMark); ok {
		if i, err := strconv.ParseInt(n, 10, 64); err == nil {
			w.step = i
			w.obs.Progress(Progress{Stage: StageSteps, Text: "step " + n, Done: i - 1, Total: w.steps})
		}
		return
	}
	if w.step > 0 {
		return
	}
	if before, _, ok := strings.Cut(line, " newly installed,"); ok {
		if i := strings.LastIndexByte(before, ' '); i >= 0 {
			if n, err := strconv.ParseInt(before[i+1:], 10, 64); err == nil {
				// apt prints it for the download and again for the
				// installation of what is beyond the essential packages.
				w.total = w.done + n
			}
		}
	}
	verb, rest, _ := strings.Cut(line, " ")
	switch {
	case strings.HasPrefix(line, "Get:"):
		if f := strings.Fields(line); len(f) > 4 {
			w.obs.Progress(Progress{Stage: StagePackages, Text: "download " + path.Base(f[len(f)-4]), Done: w.done, Total: w.total})
		}
	case verb == "Setting" && strings.HasPrefix(rest, "up "):
		name, _, _ := strings.Cut(strings.TrimPrefix(rest, "up "), " ")
		w.done++
		w.obs.Progress(Progress{Stage: StagePackages, Text: "set up " + strings.TrimSuffix(name, ":amd64"), Done: min(w.done, w.total), Total: w.total})
	}
}
