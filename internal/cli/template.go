package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"assay/internal/fault"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/templates"
)

// templateCmd groups the commands on templates.
type templateCmd struct {
	Build  templateBuildCmd  `cmd:"" help:"Build a template, or find it built."`
	List   templateListCmd   `cmd:"" aliases:"ls" help:"List all templates."`
	Show   templateShowCmd   `cmd:"" help:"Show one template's definition and what was built of it."`
	Test   templateTestCmd   `cmd:"" help:"Judge the self-test of each language of a built template."`
	Rm     templateRmCmd     `cmd:"" help:"Remove what was built of a template, and its definition if it was imported."`
	Import templateImportCmd `cmd:"" help:"Keep a definition, an OCI image or a root filesystem tar under a name."`
}

// openTemplates opens the host's templates. guestd lies beside the program.
func openTemplates(env *Env) (*image.Store, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find guestd: %w", err)
	}
	return image.Open(filepath.Join(env.DataDir, "templates"), image.Options{
		Guestd:  filepath.Join(filepath.Dir(exe), "guestd"),
		Builtin: templates.FS,
	})
}

// buildTemplate gives a built template and shows the building. Nothing is
// shown when it was built before.
func buildTemplate(ctx context.Context, env *Env, store *image.Store, name string) (sandbox.Template, error) {
	w := &buildView{ui: env.UI, title: "build " + name}
	t, err := store.Build(ctx, name, w)
	if err != nil {
		return t, err
	}
	w.finish("done")
	return t, nil
}

// buildView shows a build as one progress.
type buildView struct {
	ui       *UI
	title    string
	progress *Progress
}

var stageNames = map[image.Stage]string{
	image.StageWait:     "wait for another build",
	image.StageFetch:    "fetch image",
	image.StagePackages: "packages",
	image.StageSteps:    "steps",
	image.StageUnpack:   "unpack",
	image.StageFinish:   "clean up",
	image.StageImage:    "write image",
}

// Progress shows one event. Bytes are shown in MiB.
func (w *buildView) Progress(e image.Progress) {
	if w.progress == nil {
		w.progress = w.ui.Progress(w.title, 0)
	}
	w.progress.Stage(stageNames[e.Stage])
	done, total := e.Done, e.Total
	if e.Stage == image.StageUnpack || e.Stage == image.StageImage {
		done, total = done>>20, total>>20
	}
	w.progress.Set(done, total)
}

func (w *buildView) finish(outcome string) {
	if w.progress != nil {
		w.progress.Finish(outcome)
	}
}

type templateBuildCmd struct {
	Names  []string `arg:"" name:"template" help:"Names, or definition files (*.yaml)."`
	NoTest bool     `name:"no-test" help:"Do not judge the self-tests of the template's languages."`
}

type builtTemplate struct {
	sandbox.Template
	ImageBytes int64 `json:"image_bytes"`
	// BuildMS is wall time; a template that was built before takes a few.
	BuildMS int64 `json:"build_ms"`
}

func (c templateBuildCmd) Run(ctx context.Context, env *Env) error {
	store, err := openTemplates(env)
	if err != nil {
		return err
	}
	built := []builtTemplate{}
	for _, name := range c.Names {
		start := time.Now()
		t, err := buildTemplate(ctx, env, store, name)
		if err != nil {
			return err
		}
		info, err := os.Stat(t.Image)
		if err != nil {
			return fmt.Errorf("look at image of %s: %w", t.Name, err)
		}
		built = append(built, builtTemplate{t, info.Size(), time.Since(start).Milliseconds()})
		if c.NoTest {
			continue
		}
		if err := testBuilt(ctx, env, store, name, t); err != nil {
			return err
		}
	}
	if env.JSON {
		return env.PrintJSON(built)
	}
	rows := make([][]string, 0, len(built))
	for _, b := range built {
		rows = append(rows, []string{b.Name, shortDigest(b.Digest), mib(b.ImageBytes), elapsed(time.Duration(b.BuildMS) * time.Millisecond)})
	}
	env.UI.Table([]Column{Left("TEMPLATE"), Left("DIGEST"), Right("IMAGE"), Right("TIME")}, rows)
	return nil
}

type templateListCmd struct{}

func (templateListCmd) Run(env *Env) error {
	store, err := openTemplates(env)
	if err != nil {
		return err
	}
	entries, err := store.List()
	if err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(entries)
	}
	rows := make([][]string, 0, len(entries))
	for _, e := range entries {
		state, size := env.UI.Warn("not built"), ""
		if e.Digest != "" {
			state, size = env.UI.Good("built"), mib(e.ImageBytes)
		}
		text := e.Description
		if e.Problem != "" {
			state = env.UI.Bad("broken")
			text, _, _ = strings.Cut(e.Problem, "\n")
		}
		rows = append(rows, []string{e.Name, state, size, e.Origin, text})
	}
	env.UI.Table([]Column{Left("TEMPLATE"), Left("STATE"), Right("IMAGE"), Left("FROM"), Left("DESCRIPTION")}, rows)
	return nil
}

type templateShowCmd struct {
	Name string `arg:"" name:"template" help:"A name, or a definition file (*.yaml)."`
}

func (c templateShowCmd) Run(env *Env) error {
	store, err := openTemplates(env)
	if err != nil {
		return err
	}
	d, err := store.Show(c.Name)
	if err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(d)
	}
	if d.Problem != "" {
		return fault.Errorf(fault.Invalid, "template %s: %s", d.Name, d.Problem)
	}
	env.UI.Table([]Column{Left("TEMPLATE"), Left(d.Name)}, templateRows(env.UI, d))
	return nil
}

// templateRows lays details out as pairs; what is not known is left out.
func templateRows(ui *UI, d image.Details) [][]string {
	var rows [][]string
	add := func(key, value string) {
		if value != "" {
			rows = append(rows, []string{key, value})
		}
	}
	def := d.Definition
	add("description", d.Description)
	add("defined", d.Origin)
	for _, from := range []struct{ kind, value string }{
		{"debian", def.From.Debian}, {"oci", def.From.OCI}, {"tar", def.From.Tar}, {"template", def.From.Template},
	} {
		if from.value != "" {
			add("from", from.kind+" "+from.value)
		}
	}
	add("packages", strings.Join(def.Packages, " "))
	if len(def.Run) > 0 {
		add("steps", strconv.Itoa(len(def.Run)))
	}
	add("languages", strings.Join(d.Languages, " "))
	add("shape", fmt.Sprintf("%d vcpus, %s memory, %s disk, %d processes", d.Shape.VCPUs, d.Shape.Memory, d.Shape.Disk, d.Shape.Processes))
	add("driver", def.Driver)
	for _, w := range def.Warm {
		add("warm", w)
	}
	if d.Digest == "" {
		add("state", ui.Warn("not built"))
		return rows
	}
	add("state", ui.Good("built")+" "+d.Built.Local().Format(time.DateTime))
	add("digest", d.Digest)
	add("image", mib(d.ImageBytes)+" "+d.Image)
	if len(d.Packages) > 0 {
		add("installed", strconv.Itoa(len(d.Packages))+" packages")
	}
	add("log", d.Log)
	return rows
}

type templateRmCmd struct {
	Names []string `arg:"" name:"template" help:"Names."`
}

func (c templateRmCmd) Run(env *Env) error {
	store, err := openTemplates(env)
	if err != nil {
		return err
	}
	for _, name := range c.Names {
		if err := store.Remove(name); err != nil {
			return err
		}
		env.UI.Notef("removed template %s", name)
	}
	if env.JSON {
		return env.PrintJSON(map[string][]string{"removed": c.Names})
	}
	return nil
}

type templateImportCmd struct {
	Source string `arg:"" help:"A definition (*.yaml), an OCI layout directory, an image or root filesystem tar, or an OCI reference."`
	Name   string `arg:"" name:"template" help:"The name to keep it under."`
}

func (c templateImportCmd) Run(ctx context.Context, env *Env) error {
	store, err := openTemplates(env)
	if err != nil {
		return err
	}
	e, err := store.Import(ctx, c.Name, c.Source)
	if err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(e)
	}
	env.UI.Notef("imported template %s", e.Name)
	env.UI.Hintf("build it with \"assay template build %s\"", e.Name)
	return nil
}

// shortDigest is enough of a digest to tell two apart by eye.
func shortDigest(digest string) string {
	return digest[:min(len(digest), len("sha256:")+12)]
}

func mib(n int64) string { return strconv.FormatInt((n+1<<19)>>20, 10) + " MiB" }
