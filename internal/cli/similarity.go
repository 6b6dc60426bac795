package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"assay/internal/course/gradepage"
	"assay/internal/course/handin"
	"assay/internal/course/similarity"
	"assay/internal/fault"
)

type similarityCmd struct {
	Submissions []string `arg:"" name:"submission" help:"Submissions: files, folders, archives, or a folder that holds one for each student."`
	Starter     []string `name:"starter" placeholder:"PATH" help:"Code that the teacher handed out, or that may be copied: a file, folder or archive. May be repeated."`
	Language    string   `name:"language" short:"l" placeholder:"NAME" help:"Compare only files of this language (python, java, c, javascript, or an ending such as .go)."`
	Min         float64  `name:"min" default:"0.5" help:"Show pairs that are alike from here on, 0 to 1."`
	Out         string   `name:"out" short:"o" placeholder:"FILE" help:"Write a page that shows both programs side by side."`
}

func (similarityCmd) Help() string {
	return `Names, numbers, texts, comments and spaces do not count, nor does the order of functions. What lies in --starter, and what half of the class has, is nobody's own and is left out.

What is found is where a person should look: it is no proof, and no mark depends on it. The exit code is 0 whatever is found.`
}

func (c similarityCmd) Run(ctx context.Context, env *Env) (err error) {
	if !(c.Min >= 0 && c.Min <= 1) {
		return fault.Errorf(fault.Invalid, "--min %v is not between 0 and 1", c.Min)
	}
	o := similarity.Options{Language: c.Language, Min: c.Min}
	for _, path := range c.Starter {
		s, err := handin.Read(path, handin.Options{})
		if err != nil {
			return fmt.Errorf("starter: %w", err)
		}
		o.Starter = append(o.Starter, s.Files...)
	}
	d, err := similarity.NewDetector(o)
	if err != nil {
		return err
	}
	class, err := handin.ReadClass(c.Submissions, handin.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, class.Close()) }()
	var refused []string
	for _, e := range class.Entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, err := e.Open()
		if err != nil {
			refused = append(refused, err.Error())
			continue
		}
		d.Add(s)
	}
	r := d.Result()
	r.Notes = append(append(class.Notes, refused...), r.Notes...)
	if r.Compared < 2 {
		return fault.Errorf(fault.Invalid, "%d of %d submissions can be compared, two are needed: %s", r.Compared, len(class.Entries), strings.Join(r.Notes, "; ")).
			WithHint("give the folder of the whole class, and --language if files have unusual endings")
	}
	if c.Out != "" {
		abs, err := filepath.Abs(c.Submissions[0])
		if err != nil {
			abs = c.Submissions[0]
		}
		err = writeResult(env, c.Out, func(w io.Writer) error { return gradepage.Similar(w, filepath.Base(abs), r) })
		if err != nil {
			return err
		}
	}
	return c.show(env, r)
}

func (c similarityCmd) show(env *Env, r similarity.Result) error {
	if env.JSON {
		return env.PrintJSON(r)
	}
	for _, n := range r.Notes {
		env.UI.Notef("%s", n)
	}
	if len(r.Pairs) == 0 {
		env.UI.Printf("no pair of %d submissions is alike from %.0f %% on\n", r.Compared, 100*c.Min)
		return nil
	}
	rows := make([][]string, len(r.Clusters))
	for i, g := range r.Clusters {
		rows[i] = []string{fmt.Sprint(len(g.Members)), fmt.Sprint(g.Pairs), percentOf(g.Highest), strings.Join(g.Members, " ")}
	}
	env.UI.Table([]Column{Right("SIZE"), Right("PAIRS"), Right("MOST ALIKE"), Left("GROUP")}, rows)
	env.UI.Printf("\n")
	rows = make([][]string, len(r.Pairs))
	for i, p := range r.Pairs {
		longest := 0
		if len(p.Regions) > 0 {
			longest = p.Regions[0].A.To - p.Regions[0].A.From + 1
		}
		rows[i] = []string{p.A, p.B, percentOf(p.AInB), percentOf(p.BInA), fmt.Sprint(len(p.Regions)), fmt.Sprint(longest)}
	}
	env.UI.Table([]Column{Left("A"), Left("B"), Right("OF A IN B"), Right("OF B IN A"), Right("PLACES"), Right("LONGEST (LINES)")}, rows)
	env.UI.Notef("these are places to look at, no proof: read both programs before you conclude anything")
	if c.Out != "" {
		env.UI.Notef("side by side: %s", c.Out)
	}
	return nil
}

// percentOf rounds down: only all is 100 %.
func percentOf(part float64) string { return fmt.Sprintf("%d %%", int(100*part+1e-9)) }
