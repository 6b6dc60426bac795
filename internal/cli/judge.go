package cli

import (
	"context"
	"time"

	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/judge/problempkg"
)

type judgeCmd struct {
	judgeFlags

	Package    string   `arg:"" help:"Problem package: a folder or a zip."`
	Files      []string `arg:"" optional:"" name:"file" help:"Submissions: files, or a folder of them. None: all labelled ones of the package."`
	Folders    bool     `name:"folders" help:"Each folder named is one submission of several files."`
	All        bool     `name:"all" help:"Go on after a case that failed."`
	Groups     bool     `name:"groups" help:"Show the outcome of each test group too."`
	Transcript bool     `name:"transcript" help:"Run an interactive case that was not accepted once more, and show what program and interactor said to each other."`
	Contestant bool     `name:"contestant" help:"Show only what whoever sent the submission may see; labels do not count."`
	JUnit      string   `name:"junit" placeholder:"FILE" help:"Write the outcome as JUnit XML as well."`
	Record     string   `name:"record" placeholder:"DIR" help:"Write a record of each run into a folder, for assay rejudge. It holds what contestants must not see."`
	Records    bool     `name:"records" help:"With --json: the whole record of each run, not only its row."`
}

func (judgeCmd) Help() string {
	return `Each submission is compiled and run in a machine of its own, as many at once as the host has cores. What decides, the expected outputs and the checker, never enters that machine.

A submission that says what it must do (the folder it lies in, submissions.yaml, or @EXPECTED_RESULTS@ in the source) is compared with that; the exit code is 1 if one did something else.

A folder named submissions holds a folder for each label, and in those lie the submissions, each a file or a folder. In any other folder each file is a submission, and so is each folder in it.

A package that gives no time limit has it found from its accepted submissions first.`
}

// judged is one submission, its run and how that compares.
type judged struct {
	sub judge.Job
	run judge.Run
	row judge.Comparison
}

func (c judgeCmd) Run(ctx context.Context, env *Env) (err error) {
	if c.Contestant && (c.JUnit != "" || c.Records || c.Transcript) {
		return fault.Errorf(fault.Invalid, "--contestant does not go together with --junit, --records and --transcript, which show more").
			WithHint("leave --contestant out, or the others")
	}
	pkg, err := problempkg.Options{TimeLimit: time.Duration(c.Time)}.Load(c.Package)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := pkg.Close(); err == nil {
			err = closeErr
		}
	}()
	subs, warnings, err := collect(pkg, c.Files, c.Folders)
	if err != nil {
		return err
	}
	if len(subs) == 0 {
		return fault.Errorf(fault.Invalid, "package %s has no submissions to judge", c.Package).WithHint("name the files to judge")
	}
	records, err := newRecorder(c.Record, c.Package)
	if err != nil {
		return err
	}
	set := jobSet{problem: pkg.Problem, jobs: jobsOf(subs), labelled: jobsOf(pkg.Submissions)}
	o := judge.Options{AllCases: c.All, Template: c.Template, Transcripts: c.Transcript}
	var list []judged
	err = c.withJudge(ctx, env, o, []jobSet{set}, func(j *judge.Judge) error {
		for _, w := range append(pkg.Warnings, warnings...) {
			env.UI.Warnf("%s", w)
		}
		if err := c.limit(ctx, env, j, &set); err != nil {
			return err
		}
		// A package may have more languages than this judge; what a person names
		// must be something to judge.
		lenient := len(c.Files) == 0
		return c.run(ctx, env, j, set, lenient, func(i int, r judge.Run) error {
			s := set.jobs[i]
			if r.Verdict != judge.Skipped {
				if err := records.write(judge.NewRecord(r, s.Submission, set.problem, records.pkg, o)); err != nil {
					return err
				}
			}
			row := s.Expectation.Compare(r)
			if c.Contestant {
				r = r.ForContestant()
			}
			if !c.Records && !c.Groups && !c.Contestant && !c.Transcript {
				r = summary(r)
			}
			list = append(list, judged{s, r, row})
			return nil
		})
	})
	if err != nil {
		return err
	}
	if c.JUnit != "" {
		if err := writeJUnit(c.JUnit, []suite{{name: pkg.Problem.ShortName, runs: list}}); err != nil {
			return err
		}
	}
	return c.show(env, list)
}

// summary is a run without its cases: thousands of runs need not be kept whole.
func summary(r judge.Run) judge.Run {
	r.Cases, r.Groups = nil, nil
	return r
}

// show prints the outcome; it gives errNegative when a label was not met.
func (c judgeCmd) show(env *Env, list []judged) error {
	if c.Contestant {
		return c.showContestant(env, list)
	}
	rows, runs := make([]judge.Comparison, len(list)), make([]judge.Run, len(list))
	missed := 0
	for i, l := range list {
		rows[i], runs[i] = l.row, l.run
		if !l.row.Met && l.run.Verdict != judge.Skipped {
			missed++
		}
	}
	switch {
	case env.JSON && (c.Records || c.Transcript):
		if err := env.PrintJSON(runs); err != nil {
			return err
		}
	case env.JSON:
		if err := env.PrintJSON(rows); err != nil {
			return err
		}
	default:
		runTable(env, rows)
		if c.Groups {
			groupTable(env, list)
		}
		transcripts(env, list)
		if missed > 0 {
			env.UI.Printf("%d of %d submissions did not do what their label says\n", missed, len(rows))
		}
	}
	if missed > 0 {
		return errNegative
	}
	return nil
}
