package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/image"
	"assay/internal/judge"
	"assay/internal/judge/checker"
	"assay/internal/sandbox"
)

// LanguageCheck is what was found out about one language in a template.
type LanguageCheck struct {
	ID string `json:"id"`
	// Version is the first line that the language's version command prints.
	Version string `json:"version"`
	// Tested says that the self-test was judged and accepted.
	Tested bool `json:"tested"`
}

// versionWall bounds one version command, maxVersion what is kept of its
// output, in bytes.
const (
	versionWall = 30 * time.Second
	maxVersion  = 4 << 10
	// versionStack is less than what runtimes that touch all of their stack (Ruby)
	// find, in bytes.
	versionStack = 64 << 20
)

// Versions runs the version command of each language that the template has by
// its definition. What was found is kept with the template, so the next call
// is quick.
func (e *Engine) Versions(ctx context.Context, template string) ([]LanguageCheck, error) {
	return e.checkLanguages(ctx, template, false, nil)
}

// TestLanguages does what Versions does, and judges the self-test of each
// language. A language whose self-test is not accepted is a fault.Invalid that
// names them all: such a template must not judge anybody. fault.Unavailable is
// a failure of ours, which says nothing of the template. Success is kept with
// the template, for as long as neither it nor a language's data changes.
// observe is told of each language before its turn; it may be nil.
func (e *Engine) TestLanguages(ctx context.Context, template string, observe func(id string, done, total int)) ([]LanguageCheck, error) {
	return e.checkLanguages(ctx, template, true, observe)
}

// LanguagesTested reports whether TestLanguages has nothing left to do for the
// template called name, built as t. It needs no engine.
func LanguagesTested(store *image.Store, name string, t sandbox.Template) (bool, error) {
	languages, err := languagesOf(store, name)
	if err != nil || len(languages) == 0 {
		return err == nil, err
	}
	file, err := checksFile(t, languages)
	if err != nil {
		return false, err
	}
	known, err := readChecks(file)
	return known != nil && allTested(known), err
}

func allTested(checks []LanguageCheck) bool {
	return !slices.ContainsFunc(checks, func(c LanguageCheck) bool { return !c.Tested })
}

func (e *Engine) checkLanguages(ctx context.Context, template string, test bool, observe func(string, int, int)) ([]LanguageCheck, error) {
	t, err := e.Template(ctx, template, nil)
	if err != nil {
		return nil, err
	}
	languages, err := languagesOf(e.Templates, template)
	if err != nil {
		return nil, err
	}
	file, err := checksFile(t, languages)
	if err != nil {
		return nil, err
	}
	known, err := readChecks(file)
	if err != nil {
		return nil, err
	}
	if known != nil && (!test || allTested(known)) {
		return known, nil
	}
	checks, err := e.versions(ctx, t, languages, known)
	if err != nil {
		return nil, err
	}
	var failed, unsure error
	for i := range checks {
		if !test || checks[i].Tested {
			continue
		}
		if observe != nil {
			observe(languages[i].ID, i, len(languages))
		}
		err := e.selfTest(ctx, template, languages[i])
		checks[i].Tested = err == nil
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if fault.Is(err, fault.Unavailable) {
			unsure = errors.Join(unsure, err)
		} else {
			failed = errors.Join(failed, err)
		}
	}
	switch {
	case failed != nil:
		err = fault.Errorf(fault.Invalid, "template %s: %w", t.Name, errors.Join(failed, unsure)).
			WithHint("mend the template's definition, or take the language out of its list")
	case unsure != nil:
		err = fault.Errorf(fault.Unavailable, "template %s: %w", t.Name, unsure).
			WithHint("try again with \"assay template test\" when the host is less busy")
	}
	// What was accepted stays so, whatever became of the others.
	return checks, errors.Join(err, writeChecks(file, checks))
}

// languagesOf are the languages that the template's definition lists, as far as
// the judge knows them: a template may name more for other purposes.
func languagesOf(store *image.Store, template string) ([]judge.Language, error) {
	d, err := store.Show(template)
	if err != nil {
		return nil, err
	}
	all, err := judge.DefaultLanguages()
	if err != nil {
		return nil, err
	}
	var list []judge.Language
	for _, id := range d.Definition.Languages {
		if l, err := all.ByID(id); err == nil {
			list = append(list, l)
		}
	}
	return list, nil
}

// versions asks for the versions in a machine of the template, unless they are
// known.
func (e *Engine) versions(ctx context.Context, t sandbox.Template, languages []judge.Language, known []LanguageCheck) (checks []LanguageCheck, err error) {
	if known != nil || len(languages) == 0 {
		return known, nil
	}
	s, err := e.Manager.Create(ctx, sandbox.Spec{Template: &t, Metadata: map[string]string{"for": "versions"}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Destroy()) }()
	for _, l := range languages {
		var out bytes.Buffer
		res, err := s.Exec(ctx, sandbox.ExecSpec{
			Argv: l.Version, Dir: "/tmp", User: "user", KeepOutput: true,
			Env:    []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8"},
			Limits: sandbox.Limits{Wall: versionWall, Output: maxVersion, Stack: versionStack},
		}, guest.IO{Stdout: &out, Stderr: &out})
		if err != nil {
			return nil, fmt.Errorf("version of %s: %w", l.Name, err)
		}
		if res.Exit.Cause != guest.Exited || res.Exit.Code != 0 {
			return nil, fault.Errorf(fault.Invalid, "template %s: the version command of %s ended with %s, code %d: %s",
				t.Name, l.Name, res.Exit.Cause, res.Exit.Code, strings.TrimSpace(out.String())).
				WithHint("mend the template's definition, or take the language out of its list")
		}
		first, _, _ := strings.Cut(strings.TrimSpace(out.String()), "\n")
		checks = append(checks, LanguageCheck{ID: l.ID, Version: strings.ToValidUTF8(first, "\uFFFD")})
	}
	return checks, nil
}

// selfTest judges the language's own program in a machine of the template.
func (e *Engine) selfTest(ctx context.Context, template string, l judge.Language) error {
	j, err := e.Judge(judge.Options{Template: template})
	if err != nil {
		return err
	}
	p, s := l.SelfTestCase(checker.Default{})
	run, err := j.Run(ctx, p, s, nil)
	if err != nil {
		return fmt.Errorf("self-test of %s: %w", l.Name, err)
	}
	switch run.Verdict {
	case judge.Accepted:
		return nil
	case judge.JudgeError:
		return fault.Errorf(fault.Unavailable, "self-test of %s: %s%s", l.Name, run.Reason, said(run))
	}
	return fmt.Errorf("self-test of %s: %s (%s)%s", l.Name, run.Verdict.Text(), run.Reason, said(run))
}

// said is what compiler and program wrote, where there is something.
func said(run judge.Run) string {
	text := run.Compile.Output
	for _, c := range run.Cases {
		if c.Staff != nil {
			text += c.Staff.Stderr
		}
	}
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	const enough = 2 << 10
	return ": " + strings.ToValidUTF8(text[:min(len(text), enough)], "")
}

// checksFile is where the outcome is kept: beside the template's snapshots,
// with which it is removed, under a name that changes with the languages.
func checksFile(t sandbox.Template, languages []judge.Language) (string, error) {
	data, err := json.Marshal(languages)
	if err != nil {
		return "", fmt.Errorf("name the language checks of template %s: %w", t.Name, err)
	}
	sum := sha256.Sum256(data)
	return filepath.Join(t.Snapshots, "languages-"+hex.EncodeToString(sum[:8])+".json"), nil
}

// readChecks gives nil where there is nothing that can be used.
func readChecks(file string) ([]LanguageCheck, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "read language checks: %w", err)
	}
	var checks []LanguageCheck
	if err := json.Unmarshal(data, &checks); err != nil {
		// Cut short by a full disk or a crash: found out again.
		return nil, nil //nolint:nilerr // found out again
	}
	return checks, nil
}

func writeChecks(file string, checks []LanguageCheck) error {
	data, err := json.MarshalIndent(checks, "", "  ")
	if err == nil {
		err = os.WriteFile(file+".tmp", append(data, '\n'), 0o644)
	}
	if err == nil {
		err = os.Rename(file+".tmp", file)
	}
	if err != nil {
		return fault.Errorf(fault.Internal, "keep language checks: %w", err)
	}
	return nil
}
