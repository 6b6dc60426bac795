package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/judge/problempkg"
)

type problemCmd struct {
	New  problemNewCmd  `cmd:"" help:"Make a small complete package to begin with."`
	Show problemShowCmd `cmd:"" help:"Show what a package is made of."`
	Zip  problemZipCmd  `cmd:"" help:"Write a package as a zip."`

	Upload problemUploadCmd `cmd:"" help:"Make a package the next version of a problem on a server."`
	List   problemListCmd   `cmd:"" help:"List the problems on a server."`
	Open   problemOpenCmd   `cmd:"" help:"Open a problem on a server to members, or close it."`
}

type problemNewCmd struct {
	Dir  string `arg:"" help:"Folder to make. Its name, lower-case letters and digits, is that of the problem."`
	Type string `name:"type" enum:"pass-fail,interactive,scoring" default:"pass-fail" help:"Kind of problem: pass-fail, interactive or scoring."`
	Name string `name:"name" placeholder:"TITLE" help:"Title of the problem (default: the folder's name)."`
}

func (problemNewCmd) Help() string {
	return `The package has a statement, cases, validators and submissions that are right and wrong, in the format 2025-09. It is whole: "assay verify" finds nothing wrong with it. Then make it yours.`
}

func (c problemNewCmd) Run(env *Env) error {
	if err := problempkg.New(c.Dir, problempkg.Template(c.Type), c.Name); err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(struct {
			Dir  string `json:"dir"`
			Type string `json:"type"`
		}{c.Dir, c.Type})
	}
	env.UI.Printf("%s\n", c.Dir)
	env.UI.Hintf("see whether it holds with \"assay verify %s\"", c.Dir)
	return nil
}

type problemZipCmd struct {
	Dir    string `arg:"" help:"Folder of the package."`
	Output string `name:"output" short:"o" placeholder:"FILE" help:"File to write (default: the folder's name and .zip, here)."`
}

func (problemZipCmd) Help() string {
	return `The same package gives the same bytes. Links are replaced by what they lead to; what the format treats as absent is left out. A package that cannot be read is refused.`
}

func (c problemZipCmd) Run(env *Env) (err error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return fault.Errorf(fault.Invalid, "problem package %s: %w", c.Dir, err)
	}
	out := c.Output
	if out == "" {
		out = filepath.Base(dir) + ".zip"
	}
	abs, err := filepath.Abs(out)
	if err != nil {
		return fault.Errorf(fault.Invalid, "write %s: %w", out, err)
	}
	if rel, err := filepath.Rel(dir, abs); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		return fault.Errorf(fault.Invalid, "%s lies in the package itself", out).WithHint("name another file with -o")
	}
	f, err := os.CreateTemp(filepath.Dir(abs), ".assay-*")
	if err != nil {
		return fault.Errorf(fault.Invalid, "write %s: %w", out, err)
	}
	defer func() {
		if err != nil {
			// The error that counts is the one before.
			_ = os.Remove(f.Name())
		}
	}()
	warnings, err := problempkg.Zip(c.Dir, f)
	for _, step := range []func() error{func() error { return f.Chmod(0o644) }, f.Close} {
		if stepErr := step(); err == nil && stepErr != nil {
			err = fault.Errorf(fault.Unavailable, "write %s: %w", out, stepErr)
		}
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(f.Name())
	if err == nil {
		err = os.Rename(f.Name(), abs)
	}
	if err != nil {
		return fault.Errorf(fault.Unavailable, "write %s: %w", out, err)
	}
	for _, w := range warnings {
		env.UI.Warnf("%s", w)
	}
	if env.JSON {
		return env.PrintJSON(struct {
			File  string `json:"file"`
			Bytes int64  `json:"bytes"`
		}{out, info.Size()})
	}
	env.UI.Printf("%s\n", out)
	return nil
}

type problemShowCmd struct {
	Package string `arg:"" help:"Problem package: a folder or a zip."`
}

// problemJSON is the result of "assay problem show --json". Times are in
// microseconds, sizes in bytes; a limit of zero is not given.
type problemJSON struct {
	ShortName string            `json:"short_name"`
	Name      string            `json:"name"`
	Format    problempkg.Format `json:"format"`
	Types     []string          `json:"types"`
	Version   string            `json:"version"`
	Languages []string          `json:"languages"`
	Limits    problemLimits     `json:"limits"`
	// Inference says how the time limit is found where it is not given.
	Inference *problemInference `json:"inference,omitempty"`
	Checker   string            `json:"checker"`
	Validator []string          `json:"input_validators"`
	Static    string            `json:"static_validator,omitempty"`
	Groups    []problemGroup    `json:"groups"`
	Cases     problemCases      `json:"cases"`
	Proofs    int               `json:"proofs"`
	Labels    []problemLabel    `json:"submissions"`
	Warnings  []string          `json:"warnings"`
}

type problemLimits struct {
	CPUUS       int64 `json:"cpu_us"`
	Memory      int64 `json:"memory_bytes"`
	Output      int64 `json:"output_bytes"`
	Code        int64 `json:"code_bytes"`
	CompileUS   int64 `json:"compile_us"`
	ValidateUS  int64 `json:"validation_us"`
	Passes      int   `json:"passes,omitempty"`
	FilesDenied bool  `json:"file_writing_denied"`
}

type problemInference struct {
	AcceptFactor float64 `json:"accept_factor"`
	RejectFactor float64 `json:"reject_factor"`
	ResolutionUS int64   `json:"resolution_us"`
}

type problemGroup struct {
	Name        string       `json:"name"`
	Cases       int          `json:"cases"`
	Max         *judge.Score `json:"max_score,omitempty"`
	Aggregation string       `json:"aggregation,omitempty"`
	Requires    []string     `json:"requires,omitempty"`
}

type problemCases struct {
	Samples     int    `json:"samples"`
	Secret      int    `json:"secret"`
	InputBytes  int64  `json:"input_bytes"`
	AnswerBytes int64  `json:"answer_bytes"`
	LargestName string `json:"largest_input"`
	Largest     int64  `json:"largest_input_bytes"`
}

type problemLabel struct {
	Path     string `json:"path"`
	Label    string `json:"label"`
	Expected string `json:"expected"`
	// TimeLimit says that the time limit is found from it or held against it.
	TimeLimit bool `json:"for_time_limit"`
}

func (c problemShowCmd) Run(_ context.Context, env *Env) (err error) {
	pkg, err := problempkg.Load(c.Package)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := pkg.Close(); err == nil {
			err = closeErr
		}
	}()
	d := describe(pkg)
	if env.JSON {
		return env.PrintJSON(d)
	}
	d.print(env)
	return nil
}

func describe(pkg *problempkg.Package) problemJSON {
	p := pkg.Problem
	d := problemJSON{
		ShortName: p.ShortName, Name: p.Name, Format: pkg.Format, Types: problemTypes(p), Version: p.Version,
		Languages: append([]string{}, p.Languages...),
		Limits: problemLimits{
			CPUUS: p.Limits.CPU.Microseconds(), Memory: p.Limits.Memory, Output: p.Limits.Output, Code: p.Limits.Code,
			CompileUS: p.Limits.CompileTime.Microseconds(), ValidateUS: p.Limits.ValidationTime.Microseconds(),
			Passes: p.Passes, FilesDenied: p.ReadOnly,
		},
		Checker: p.DescribeChecker(), Validator: []string{}, Groups: []problemGroup{}, Proofs: len(pkg.Proofs),
		Labels: []problemLabel{}, Warnings: append([]string{}, pkg.Warnings...),
	}
	if i := p.Inference; i != nil {
		d.Inference = &problemInference{i.AcceptFactor, i.RejectFactor, i.Resolution.Microseconds()}
	}
	for _, v := range p.InputValidators {
		d.Validator = append(d.Validator, v.Name)
	}
	if p.StaticValidator != nil {
		d.Static = p.StaticValidator.Name
	}
	d.Groups = problemGroups(p)
	for _, k := range p.Cases {
		if k.Sample {
			d.Cases.Samples++
		} else {
			d.Cases.Secret++
		}
		d.Cases.InputBytes += k.Input.Size()
		d.Cases.AnswerBytes += k.Answer.Size()
		if k.Input.Size() > d.Cases.Largest || d.Cases.LargestName == "" {
			d.Cases.Largest, d.Cases.LargestName = k.Input.Size(), k.Input.Name()
		}
	}
	for _, s := range pkg.Submissions {
		d.Labels = append(d.Labels, problemLabel{s.Path, s.Expectation.Label, s.Expectation.Text(), len(s.Bounds) > 0})
	}
	return d
}

func problemTypes(p judge.Problem) []string {
	types := []string{"pass-fail"}
	if p.Scoring {
		types[0] = "scoring"
	}
	if p.Interactor != nil {
		types = append(types, "interactive")
	}
	if p.Passes > 1 {
		types = append(types, "multi-pass")
	}
	return types
}

func problemGroups(p judge.Problem) []problemGroup {
	list := make([]problemGroup, len(p.Groups))
	for i, g := range p.Groups {
		list[i].Name = g.Name
		switch {
		case g.Rules != nil:
			list[i].Max, list[i].Aggregation = g.Rules.Max, string(g.Rules.Aggregation)
			for _, r := range g.Rules.Require {
				list[i].Requires = append(list[i].Requires, p.Groups[r].Name)
			}
		case g.Legacy != nil && p.Scoring:
			list[i].Max, list[i].Aggregation = g.Legacy.High, string(g.Legacy.Flags.Score)
			if g.Legacy.Grader != nil {
				list[i].Aggregation = g.Legacy.Grader.Name
			}
		}
	}
	for _, c := range p.Cases {
		if len(list) > 0 {
			list[c.Group].Cases++
		}
	}
	return list
}

func (d problemJSON) print(env *Env) {
	row := func(name, format string, args ...any) []string {
		return []string{name, oneLine(fmt.Sprintf(format, args...))}
	}
	limit := "not given"
	if d.Limits.CPUUS > 0 {
		limit = (time.Duration(d.Limits.CPUUS) * time.Microsecond).String()
	} else if d.Inference != nil {
		limit = fmt.Sprintf("not given: %g x the slowest accepted submission", d.Inference.AcceptFactor)
	}
	size := func(n int64) string {
		if n == 0 {
			return "the default"
		}
		return fmt.Sprintf("%.4g MiB", float64(n)/(1<<20))
	}
	languages := "all"
	if len(d.Languages) > 0 {
		languages = strings.Join(d.Languages, ", ")
	}
	rows := [][]string{
		row("name", "%s", d.Name), row("short name", "%s", d.ShortName), row("format", "%s", d.Format), row("type", "%s", strings.Join(d.Types, ", ")),
		row("version", "%s", d.Version), row("time limit", "%s", limit), row("memory limit", "%s", size(d.Limits.Memory)),
		row("output limit", "%s", size(d.Limits.Output)), row("languages", "%s", languages), row("checker", "%s", d.Checker),
	}
	for _, v := range d.Validator {
		rows = append(rows, row("input validator", "%s", v))
	}
	if d.Static != "" {
		rows = append(rows, row("static validator", "%s", d.Static))
	}
	rows = append(rows, row("cases", "%d samples, %d secret; %d bytes of input, the largest %d (%s)", d.Cases.Samples, d.Cases.Secret, d.Cases.InputBytes, d.Cases.Largest, d.Cases.LargestName))
	env.UI.Table([]Column{Left("what"), Left("value")}, rows)
	if len(d.Groups) > 0 {
		var table [][]string
		for _, g := range d.Groups {
			name := g.Name
			if name == "" {
				name = "(all)"
			}
			table = append(table, []string{oneLine(name), fmt.Sprint(g.Cases), scoreCell(g.Max), g.Aggregation, strings.Join(g.Requires, ", ")})
		}
		env.UI.Printf("\n")
		env.UI.Table([]Column{Left("group"), Right("cases"), Right("at most"), Left("aggregation"), Left("requires")}, table)
	}
	if len(d.Labels) > 0 {
		var table [][]string
		for _, l := range d.Labels {
			mark := ""
			if l.TimeLimit {
				mark = "yes"
			}
			table = append(table, []string{oneLine(strings.TrimPrefix(l.Path, "submissions/")), l.Expected, oneLine(l.Label), mark})
		}
		env.UI.Printf("\n")
		env.UI.Table([]Column{Left("submission"), Left("expected"), Left("label"), Left("for time limit")}, table)
	}
	for _, w := range d.Warnings {
		env.UI.Warnf("%s", w)
	}
}
