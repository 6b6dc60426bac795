package cli

import (
	"context"
	"os"
	"strconv"

	"assay/internal/app"
	"assay/internal/fault"
	"assay/internal/image"
	"assay/internal/sandbox"
)

type templateTestCmd struct {
	Names []string `arg:"" name:"template" help:"Names, or definition files (*.yaml)."`
	// Brief is for "assay template build" of an ordinary user.
	Brief bool `name:"brief" hidden:"" help:"Print failures only."`
}

func (c templateTestCmd) Run(ctx context.Context, env *Env) error {
	if err := enterRoot(ctx, env, c.Names...); err != nil {
		return err
	}
	results := map[string][]app.LanguageCheck{}
	var rows [][]string
	for _, name := range c.Names {
		checks, err := testLanguages(ctx, env, name)
		if err != nil {
			return err
		}
		results[name] = checks
		for _, k := range checks {
			rows = append(rows, []string{name, k.ID, env.UI.Good("accepted"), k.Version})
		}
	}
	switch {
	case c.Brief:
	case env.JSON:
		return env.PrintJSON(results)
	default:
		env.UI.Table([]Column{Left("TEMPLATE"), Left("LANGUAGE"), Left("SELF-TEST"), Left("VERSION")}, rows)
	}
	return nil
}

// testLanguages judges the self-tests of one template in an engine of its own.
func testLanguages(ctx context.Context, env *Env, name string) (checks []app.LanguageCheck, err error) {
	e, _, err := openWith(ctx, env, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = closeEngine(e, err) }()
	p := env.UI.Progress("test "+name, 0)
	checks, err = e.TestLanguages(ctx, name, func(id string, done, total int) {
		p.Stage(id)
		p.Set(int64(done), int64(total))
	})
	if err != nil {
		return nil, err
	}
	p.Finish(strconv.Itoa(len(checks)) + " languages accepted")
	return checks, nil
}

// testBuilt tests a template that was just built, unless that was done before.
// A host that can build but starts no machines, or is too busy to measure, gets
// a warning: that says nothing of the template.
func testBuilt(ctx context.Context, env *Env, store *image.Store, name string, t sandbox.Template) error {
	if tested, err := app.LanguagesTested(store, name, t); tested || err != nil {
		return err
	}
	var err error
	if os.Geteuid() == 0 {
		_, err = testLanguages(ctx, env, name)
	} else {
		var code int
		code, err = app.RunInUserNamespace(ctx, []string{"template", "test", "--brief", name}, append(os.Environ(), "ASSAY_DATA_DIR="+env.DataDir))
		if err == nil && code != 0 {
			err = status(code)
		}
	}
	if fault.Is(err, fault.Unsupported) || fault.Is(err, fault.Unavailable) {
		env.UI.Warnf("not all self-tests of template %s were judged: %v", t.Name, err)
		return nil
	}
	return err
}
