package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"assay/internal/app"
	"assay/internal/fault"
	"assay/internal/judge"
)

type languagesCmd struct{}

func (languagesCmd) Help() string {
	return `Versions are asked for once in a machine of each template that is built, and kept with it.`
}

// languageJSON is one entry of "assay languages --json".
type languageJSON struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Aliases    []string `json:"aliases"`
	Extensions []string `json:"extensions"`
	// ByName says that the extensions never choose this language.
	ByName   bool   `json:"by_name"`
	Template string `json:"template"`
	// Version is empty, and Note says why, where the template is not built.
	Version string `json:"version,omitempty"`
	Note    string `json:"note,omitempty"`
	// Tested says that the self-test was accepted in this template.
	Tested bool `json:"tested"`
}

func (languagesCmd) Run(ctx context.Context, env *Env) error {
	set, err := judge.DefaultLanguages()
	if err != nil {
		return err
	}
	var list []languageJSON
	var templates []string
	for _, id := range set.IDs() {
		l, err := set.ByID(id)
		if err != nil {
			return err
		}
		list = append(list, languageJSON{
			ID: l.ID, Name: l.Name, Aliases: append([]string{}, l.Aliases...), Extensions: l.Extensions, ByName: l.ByName, Template: l.Template,
		})
		if !slices.Contains(templates, l.Template) {
			templates = append(templates, l.Template)
		}
	}
	checks, notes, err := languageVersions(ctx, env, templates)
	if err != nil {
		return err
	}
	for i := range list {
		c := checks[inTemplate{list[i].Template, list[i].ID}]
		list[i].Version, list[i].Tested, list[i].Note = c.Version, c.Tested, notes[list[i].Template]
	}
	if env.JSON {
		return env.PrintJSON(list)
	}
	rows := make([][]string, len(list))
	for i, l := range list {
		extensions, version := strings.Join(l.Extensions, " "), l.Version
		if l.ByName {
			extensions = "by name only"
		}
		if version == "" {
			version = "-"
		}
		rows[i] = []string{l.ID, l.Name, extensions, l.Template, version}
	}
	env.UI.Table([]Column{Left("ID"), Left("NAME"), Left("EXTENSIONS"), Left("TEMPLATE"), Left("VERSION")}, rows)
	for _, t := range templates {
		if note := notes[t]; note != "" {
			env.UI.Notef("template %s: %s", t, note)
		}
	}
	return nil
}

// inTemplate is a language in one of the templates that have it.
type inTemplate struct{ template, id string }

// languageVersions asks the templates that are built. notes say of each other
// one why it was not asked.
func languageVersions(ctx context.Context, env *Env, names []string) (checks map[inTemplate]app.LanguageCheck, notes map[string]string, err error) {
	checks, notes = map[inTemplate]app.LanguageCheck{}, map[string]string{}
	store, err := openTemplates(env)
	if err != nil {
		return nil, nil, err
	}
	var built []string
	for _, name := range names {
		ok, err := store.Built(ctx, name)
		switch {
		case err != nil:
			notes[name] = err.Error()
		case !ok:
			notes[name] = fmt.Sprintf("not built (\"assay template build %s\")", name)
		default:
			built = append(built, name)
		}
	}
	if len(built) == 0 {
		return checks, notes, nil
	}
	if err := enterRoot(ctx, env, built...); err != nil {
		return nil, nil, err
	}
	e, err := app.OpenEngine(ctx, app.Config{DataDir: env.DataDir, Driver: env.Driver, Accel: env.Accel})
	if fault.Is(err, fault.Unsupported) {
		for _, name := range built {
			notes[name] = err.Error()
		}
		return checks, notes, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = closeEngine(e, err) }()
	for _, name := range built {
		if _, err := prepareShown(ctx, env, e, name); err != nil {
			return nil, nil, err
		}
		found, err := e.Versions(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		for _, c := range found {
			checks[inTemplate{name, c.ID}] = c
		}
	}
	return checks, notes, nil
}
