package harness

import (
	"path"
	"slices"
	"strings"
	"time"

	"assay/internal/course"
	"assay/internal/course/testreport"
	"assay/internal/fault"
)

const commandWall = time.Minute

// command lays out harness and submission in one directory, in which a command
// is run that leaves a report.
func command(a *course.Assignment, files []course.File) (layout, error) {
	h := a.Harness
	switch {
	case len(h.Command) == 0:
		return layout{}, fault.Errorf(fault.Invalid, "it has no command").WithHint("give harness.command")
	case !slices.Contains(testreport.Formats(), h.ReportFormat):
		return layout{}, fault.Errorf(fault.Invalid, "there is no report format %q", h.ReportFormat).
			WithHint("give harness.report_format one of %s", strings.Join(testreport.Formats(), ", "))
	case h.Report != "" && (path.IsAbs(h.Report) || strings.HasPrefix(path.Clean(h.Report), "..")):
		return layout{}, fault.Errorf(fault.Invalid, "the report %q lies outside", h.Report).WithHint("give harness.report a name below the working directory")
	}
	l := layout{
		root: "/grade", hand: "/grade", files: below("/grade", files), open: []string{"/grade"},
		argv: h.Command, dir: "/grade", user: "user", wall: commandWall,
		read: func(data []byte) (result, error) {
			rep, err := testreport.Parse(h.ReportFormat, data)
			if err != nil {
				return result{}, err
			}
			return fromReport(rep, h.SkippedCounts)
		},
	}
	if h.Report != "" {
		l.result = path.Join("/grade", h.Report)
		if dir := path.Dir(l.result); dir != l.root {
			l.dirs, l.open = append(l.dirs, dir), append(l.open, dir)
		}
	}
	return l, nil
}
