package cli

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"assay/internal/app"
	"assay/internal/course"
	"assay/internal/course/class"
	"assay/internal/judge"
)

// TestCourseScripts runs a course as staff do; it needs no machine. The script
// command record stands for a graded submission.
func TestCourseScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/course",
		Setup: func(e *testscript.Env) error {
			e.Setenv("ASSAY_DATA_DIR", filepath.Join(e.WorkDir, "data"))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"record": recordCmd},
	})
}

// recordCmd is "record COURSE ASSIGNMENT WHO RECEIVED SCORE POINTS".
func recordCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 6 {
		ts.Fatalf("usage: record COURSE ASSIGNMENT WHO RECEIVED SCORE POINTS")
	}
	received, err := time.Parse(time.RFC3339, args[3])
	ts.Check(err)
	score, err := judge.ParseScore(args[4])
	ts.Check(err)
	points, err := judge.ParseScore(args[5])
	ts.Check(err)
	ctx := context.Background()
	book, err := app.OpenCourses(ctx, ts.Getenv("ASSAY_DATA_DIR"))
	ts.Check(err)
	_, err = book.Record(ctx, args[0], class.HandIn{
		Assignment: args[1], Who: args[2], Received: received, By: "user:test",
		Grade: course.Grade{Digest: "sha256:" + args[2] + args[3], Score: score, Points: points},
	})
	ts.Check(err)
	ts.Check(book.Close())
}
