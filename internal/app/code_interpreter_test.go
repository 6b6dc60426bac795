package app

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"assay/internal/guest"
	"assay/internal/require"
	"assay/internal/sandbox"
)

// drawFigure imports all that the template promises, draws without a display
// and writes and reads a sheet.
const drawFigure = `
import numpy, pandas, matplotlib.pyplot as plt, scipy.optimize, PIL.Image, requests, yaml, openpyxl, pytest
table = pandas.DataFrame({"x": range(10), "y": numpy.arange(10) ** 2})
table.plot(x="x", y="y")
plt.savefig("/tmp/figure.png")
print(PIL.Image.open("/tmp/figure.png").format, PIL.Image.open("/tmp/figure.png").size[0] > 100)
table.to_excel("/tmp/table.xlsx")
print(len(pandas.read_excel("/tmp/table.xlsx")))
print(round(scipy.optimize.brentq(lambda x: x * x - 2, 0, 2), 6))
`

// TestCodeInterpreter runs what such a sandbox is for, where its template, which
// is too large for "make test", has been built.
func TestCodeInterpreter(t *testing.T) {
	dir := testData(t)
	e, err := OpenEngine(t.Context(), Config{DataDir: dir, BinDir: os.Getenv("ASSAY_BIN")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	built, err := e.Templates.Built(t.Context(), "code-interpreter")
	require.Thing(t, "code-interpreter", err == nil && built, "its template is not built in ASSAY_TEST_DATA: assay template build code-interpreter")
	template, err := e.Template(t.Context(), "code-interpreter", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.Manager.Create(t.Context(), sandbox.Spec{Template: &template})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		argv []string
		want string
	}{
		{"python", []string{"python3", "-c", drawFigure}, "PNG True\n10\n1.414214\n"},
		{"venv", []string{"sh", "-c", "python3 -m venv --without-pip /tmp/v && /tmp/v/bin/python -c 'import sys; print(sys.prefix)'"}, "/tmp/v\n"},
		{"node", []string{"node", "-e", "console.log(JSON.stringify([1, 2].map(x => x * 2)))"}, "[2,4]\n"},
		{"shell", []string{"sh", "-c", `cd /tmp && echo '{"a": 1}' >a && jq .a a && zip -q a.zip a && unzip -p a.zip | jq .a && git init -q r && ls r/.git/HEAD`}, "1\n1\nr/.git/HEAD\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			res, err := s.Exec(t.Context(), sandbox.ExecSpec{Argv: tt.argv, Limits: sandbox.Limits{Wall: 2 * time.Minute}}, guest.IO{Stdout: &out, Stderr: &errs})
			if err != nil || res.Exit.Cause != guest.Exited || res.Exit.Code != 0 || out.String() != tt.want {
				t.Errorf("%+v, %v: %q, want %q; stderr %s", res.Exit, err, out.String(), tt.want, strings.TrimSpace(errs.String()))
			}
		})
	}
}
