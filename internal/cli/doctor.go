package cli

import (
	"context"
	"fmt"

	"assay/internal/app"
	"assay/internal/doctor"
	"assay/internal/fault"
)

type doctorCmd struct{}

type doctorReport struct {
	Ready  bool             `json:"ready"`
	Checks []doctor.Finding `json:"checks"`
}

func (doctorCmd) Run(ctx context.Context, env *Env) error {
	host, err := doctor.ThisHost(env.DataDir)
	if err != nil {
		return err
	}
	host.MakeNetwork = func() error { return app.TryNetwork(ctx) }
	return showDoctor(env, doctor.Examine(ctx, host))
}

// showDoctor prints a report; one that is not ready is a fault.
func showDoctor(env *Env, r doctor.Report) error {
	if env.JSON {
		if err := env.PrintJSON(doctorReport{Ready: r.Ready(), Checks: r.Findings}); err != nil {
			return err
		}
	} else {
		rows := make([][]string, 0, len(r.Findings))
		for _, f := range r.Findings {
			rows = append(rows, []string{doctorMark(env.UI, f.Level), f.Check, f.Detail, f.Remedy})
		}
		env.UI.Table([]Column{Left("STATE"), Left("CHECK"), Left("FOUND"), Left("REMEDY")}, rows)
		fmt.Fprintf(env.Stdout, "\n%d ok, %d warn, %d fail\n", r.Count(doctor.OK), r.Count(doctor.Warn), r.Count(doctor.Fail))
	}
	if r.Ready() {
		return nil
	}
	things := "things"
	if r.Count(doctor.Fail) == 1 {
		things = "thing"
	}
	return fault.Errorf(fault.Unsupported, "this host lacks %d needed %s", r.Count(doctor.Fail), things).
		WithHint("apply the remedy of each check marked fail, then run \"assay doctor\" again")
}

func doctorMark(ui *UI, level doctor.Level) string {
	switch level {
	case doctor.OK:
		return ui.Good(string(level))
	case doctor.Warn:
		return ui.Warn(string(level))
	default:
		return ui.Bad(string(level))
	}
}
