package harness

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"assay/internal/course"
	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/judge"
	"assay/internal/sandbox"
)

// What holds where neither the assignment nor its format gives a limit.
const (
	defaultMemory    = 512 << 20
	defaultProcesses = 256
	defaultDisk      = 256 << 20
	// keptOutput is how much of the harness's output is kept, the middle dropped.
	keptOutput = 64 << 10
	// flood is from how much dropped output on a run that did not end is said to
	// have ended for its output.
	flood = 8 << 20
	// watchDir is where the watching side lies in the machine.
	watchDir = "/opt/assay-watch"
)

//go:embed inside/watch.py
var watchPython []byte

// observed is one run of a harness.
type observed struct {
	layout  layout
	exit    sandbox.Exit
	usage   sandbox.Usage
	events  events
	log     string
	cut     bool
	machine judge.MachineInfo
	// raw is the result's bytes; broken says why they cannot be read, though
	// something is there.
	raw    []byte
	broken string
	phases []course.Phase
}

// shell runs the harness with a line of its own to the host, descriptor 9,
// and says how it ended and how many processes it left. A process that is just
// ending gets half a second.
const shell = `exec 9>&2 2>&1
count() { set -- /proc/[0-9]*; n=$#; }
count; before=$n
"$@"
code=$?
for wait in 1 2 3 4 5; do count; [ "$n" -gt "$before" ] || break; sleep 0.1; done
left=$((n - before)); [ "$left" -ge 0 ] || left=0
echo "exit $code $left" >&9
exit "$code"`

// run runs the harness on files in a fresh machine. An error is ours.
func (g *Grader) run(ctx context.Context, a *course.Assignment, l layout, files []course.File, wall time.Duration) (o observed, err error) {
	o.layout = l
	limits := limitsOf(a, l, wall)
	phase := func(name string, began time.Time) {
		o.phases = append(o.phases, course.Phase{Name: name, Began: began.UTC(), Took: time.Since(began)})
	}
	began := time.Now()
	m, err := g.machines.Create(ctx, judge.MachineRequest{Template: a.Template, Memory: limits.Memory + machineOverhead})
	if err != nil {
		return o, err
	}
	defer func() {
		if derr := m.Destroy(context.WithoutCancel(ctx)); err == nil && derr != nil {
			err = derr
		}
	}()
	o.machine = m.Describe()
	phase("machine", began)

	began = time.Now()
	if err := place(ctx, m, l, files); err != nil {
		return o, fmt.Errorf("put in submission and harness: %w", err)
	}
	phase("files", began)

	began = time.Now()
	var stdout, stderr bytes.Buffer
	home := map[string]string{"root": "/root", "user": "/home/user"}[l.user]
	res, err := m.Exec(ctx, sandbox.ExecSpec{
		Argv: append([]string{"/bin/sh", "-c", shell, "harness"}, l.argv...), Dir: l.dir, User: l.user, KeepOutput: true, Limits: limits,
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + home, "USER=" + l.user, "LANG=C.UTF-8", "TERM=dumb",
			"PYTHONPATH=" + watchDir, fmt.Sprintf("ASSAY_SEED=%d", a.Seed), fmt.Sprintf("PYTHONHASHSEED=%d", uint32(a.Seed)),
		},
	}, nil, &stdout, &stderr)
	if err != nil {
		return o, fmt.Errorf("run the harness: %w", err)
	}
	phase("harness", began)
	o.exit, o.usage, o.events = res.Exit, res.Usage, parseEvents(stderr.String())
	o.log, o.cut = stdout.String(), res.Exit.OutputTruncated
	if cause, ended := m.Ended(); ended {
		if cause != guest.MemoryLimit {
			return o, fault.Errorf(fault.Unavailable, "the machine was lost while the harness ran")
		}
		o.exit.Cause = guest.MemoryLimit
		return o, nil
	}
	if l.result == "" {
		o.raw = stdout.Bytes()
		return o, nil
	}
	// All processes of the run are dead now.
	o.raw, o.broken, err = fetch(ctx, m, l.result)
	return o, err
}

// machineOverhead is what a machine needs beside a run's own memory, in bytes.
const machineOverhead = 128 << 20

func limitsOf(a *course.Assignment, l layout, wall time.Duration) sandbox.Limits {
	out := sandbox.Limits{
		CPU: a.Limits.Time, Wall: a.Limits.Wall, Memory: a.Limits.Memory, Processes: a.Limits.Processes, Disk: a.Limits.Disk, Output: keptOutput,
	}
	if out.Wall == 0 {
		out.Wall = l.wall
	}
	if wall > 0 {
		out.Wall = min(out.Wall, wall)
	}
	if out.Memory == 0 {
		out.Memory = max(l.memory, defaultMemory)
	}
	if out.Processes == 0 {
		out.Processes = defaultProcesses
	}
	if out.Disk == 0 {
		out.Disk = defaultDisk
	}
	return out
}

// place writes the submission and then, over it, the harness.
func place(ctx context.Context, m judge.Machine, l layout, files []course.File) error {
	for _, dir := range append([]string{l.root, l.hand, watchDir}, l.dirs...) {
		if err := m.MakeDir(ctx, dir, 0o755); err != nil {
			return err
		}
	}
	handed := below(l.hand, files)
	for _, part := range [][]course.File{handed, l.files} {
		part = slices.DeleteFunc(slices.Clone(part), func(f course.File) bool { return !strings.HasPrefix(f.Name, l.root+"/") })
		if len(part) == 0 {
			continue
		}
		tree, err := packTree(l.root, part)
		if err != nil {
			return err
		}
		if err := m.WriteTree(ctx, l.root, tree); err != nil {
			return err
		}
	}
	if len(l.open) > 0 {
		// Sticky: who may add files may not take away those of others.
		res, err := m.Exec(ctx, sandbox.ExecSpec{Argv: append([]string{"/bin/chmod", "1777"}, l.open...), User: "root"}, nil, nil, nil)
		if err == nil && (res.Exit.Cause != guest.Exited || res.Exit.Code != 0) {
			err = fault.Errorf(fault.Unavailable, "chmod ended with %v", res.Exit)
		}
		if err != nil {
			return err
		}
	}
	harness := []string{}
	sources := l.files
	if l.setup != nil {
		sources = append(slices.Clone(sources), l.setup.Files...)
	}
	for _, f := range sources {
		harness = append(harness, path.Join("/", f.Name))
	}
	results := l.result
	if results != "" && len(l.dirs) > 0 {
		results = path.Dir(results)
	}
	config, err := json.Marshal(map[string]any{"harness": harness, "results": results})
	if err != nil {
		return err
	}
	if err := m.WriteFile(ctx, watchDir+"/watch.json", bytes.NewReader(config), 0o644); err != nil {
		return err
	}
	return m.WriteFile(ctx, watchDir+"/sitecustomize.py", bytes.NewReader(watchPython), 0o644)
}

// fetch reads the result's file; what keeps it from being read is no error of
// ours, whatever lies there.
func fetch(ctx context.Context, m judge.Machine, name string) (data []byte, broken string, err error) {
	r, err := m.ReadFile(ctx, name)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, "", nil
	case fault.Is(err, fault.Invalid), fault.Is(err, fault.Denied), fault.Is(err, fault.Conflict):
		return nil, "the result is no regular file", nil
	case err != nil:
		return nil, "", fmt.Errorf("read the result: %w", err)
	}
	data, err = io.ReadAll(io.LimitReader(r, maxResult+1))
	err = errors.Join(err, r.Close())
	if err == nil && len(data) > maxResult {
		return nil, fmt.Sprintf("the result is larger than %d bytes", maxResult), nil
	}
	return data, "", err
}

// cause says why a run has no result, or none of its own.
func (o observed) cause() course.Cause {
	switch o.exit.Cause {
	case guest.CPULimit, guest.WallLimit:
		if o.exit.StdoutDropped > flood {
			return course.OutputLimit
		}
		return course.TimeLimit
	case guest.MemoryLimit:
		return course.MemoryLimit
	case guest.OutputLimit:
		return course.OutputLimit
	case guest.ProcessLimit:
		return course.ProcessLimit
	case guest.DiskLimit:
		return course.DiskLimit
	case guest.Signaled:
		return course.Crashed
	}
	switch {
	case o.events.ended < o.events.started && o.events.exit < 128:
		return course.EndedTest
	case o.events.exit > 128:
		return course.Crashed
	case len(o.raw) > 0 || o.broken != "":
		return course.InvalidResult
	}
	return course.NoResult
}
