package harness

import (
	"archive/tar"
	"bytes"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"assay/internal/course"
	"assay/internal/fault"
)

// layout is how a format is run: what lies where, what is started, and where
// its result is. Paths are of the machine and absolute.
type layout struct {
	// root holds all; it is made anew. hand is where the submission lies.
	root, hand string
	// files are the harness's, with absolute names. They are put in after the
	// submission and take the place of files of the same name.
	files []course.File
	// dirs are made empty.
	dirs []string
	// open are directories in which the run's user may make files.
	open []string
	argv []string
	dir  string
	user string
	// result is the file that the harness writes, "" its standard output.
	result string
	wall   time.Duration
	memory int64
	// setup is what has to be done once, when a machine's template is made.
	setup *Setup
	read  func(data []byte) (result, error)
}

// Setup is what a harness wants installed before it runs. The machine's root
// has Files, with names below "/", before Steps are run as root with the
// network.
type Setup struct {
	// Parent is the template to add to.
	Parent string
	Files  []course.File
	Steps  []string
}

// Digest names a Setup by content ("sha256:…").
func (s Setup) Digest() string {
	files := append(slices.Clone(s.Files), course.File{Name: "parent", Data: []byte(s.Parent)}, course.File{Name: "steps", Data: []byte(strings.Join(s.Steps, "\x00"))})
	return course.DigestFiles(files)
}

// Formats of a harness.
const (
	Gradescope   = "gradescope"
	PrairieLearn = "prairielearn"
	Autolab      = "autolab"
	Command      = "command"
)

// layoutOf reads the harness of an assignment. Errors are of kind Invalid: the
// assignment is wrong.
func layoutOf(a *course.Assignment) (layout, error) {
	files, err := packageFiles(a)
	if err != nil {
		return layout{}, err
	}
	lay := map[string]func(*course.Assignment, []course.File) (layout, error){
		Gradescope: gradescope, PrairieLearn: prairieLearn, Autolab: autolab, Command: command,
	}[a.Harness.Format]
	if lay == nil {
		return layout{}, fault.Errorf(fault.Invalid, "assignment %s: there is no harness format %q", a.Name, a.Harness.Format).
			WithHint("use gradescope, prairielearn, autolab or command")
	}
	l, err := lay(a, files)
	if err != nil {
		return layout{}, fault.Errorf(fault.Invalid, "assignment %s: harness: %w", a.Name, err).WithHint("%s", fault.HintOf(err))
	}
	return l, nil
}

// packageFiles are the files of the harness, with names relative to its top.
func packageFiles(a *course.Assignment) ([]course.File, error) {
	at := path.Clean(a.Harness.Path)
	for _, f := range a.Files {
		if f.Name == at {
			files, err := unpack(f)
			if err != nil {
				return nil, fault.Errorf(fault.Invalid, "assignment %s: %s: %w", a.Name, f.Name, err)
			}
			return files, nil
		}
	}
	var files []course.File
	for _, f := range a.Files {
		if name, ok := strings.CutPrefix(f.Name, at+"/"); ok || at == "." {
			if at == "." {
				name = f.Name
			}
			f.Name = name
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return nil, fault.Errorf(fault.Invalid, "assignment %s: the harness %q is not there", a.Name, a.Harness.Path).
			WithHint("give harness.path the name of a zip, tar or folder of the assignment")
	}
	return files, nil
}

// withoutTop takes off a single folder that holds all files, when one of the
// wanted files then lies at the top: people zip the folder.
func withoutTop(files []course.File, wanted string) []course.File {
	top, _, ok := strings.Cut(files[0].Name, "/")
	if !ok || slices.ContainsFunc(files, func(f course.File) bool { return f.Name == wanted || !strings.HasPrefix(f.Name, top+"/") }) {
		return files
	}
	if !has(files, top+"/"+wanted) {
		return files
	}
	out := slices.Clone(files)
	for i := range out {
		out[i].Name = strings.TrimPrefix(out[i].Name, top+"/")
	}
	return out
}

func has(files []course.File, name string) bool {
	return slices.ContainsFunc(files, func(f course.File) bool { return f.Name == name })
}

func fileNamed(files []course.File, name string) *course.File {
	if i := slices.IndexFunc(files, func(f course.File) bool { return f.Name == name }); i >= 0 {
		return &files[i]
	}
	return nil
}

// below puts files into a directory.
func below(dir string, files []course.File) []course.File {
	out := slices.Clone(files)
	for i := range out {
		out[i].Name = path.Join(dir, out[i].Name)
	}
	return out
}

// packTree makes a tar of files whose absolute names lie below root. Where two
// have one name the last counts.
func packTree(root string, files []course.File) (io.Reader, error) {
	last := map[string]int{}
	for i, f := range files {
		last[f.Name] = i
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	made := map[string]bool{".": true}
	var dirs func(dir string) error
	dirs = func(dir string) error {
		if made[dir] {
			return nil
		}
		if err := dirs(path.Dir(dir)); err != nil {
			return err
		}
		made[dir] = true
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755})
	}
	for i, f := range files {
		if last[f.Name] != i {
			continue
		}
		name := strings.TrimPrefix(f.Name, root+"/")
		if err := dirs(path.Dir(name)); err != nil {
			return nil, err
		}
		mode := int64(0o644)
		if f.Executable {
			mode = 0o755
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(f.Data))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return &b, nil
}
