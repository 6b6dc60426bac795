package httpapi

import (
	"context"
	"time"

	"assay/api"
	"assay/internal/classes"
	"assay/internal/course"
	"assay/internal/fault"
)

func (h classHandlers) HandIn(ctx context.Context, r api.HandInRequestObject) (api.HandInResponseObject, error) {
	n := classes.NewAttempt{Course: r.Course, Assignment: r.Assignment, For: r.Body.For, Idempotency: r.Params.IdempotencyKey}
	for _, f := range r.Body.Files {
		if f.Text != "" && f.Base64 != nil {
			return nil, fault.Errorf(fault.Invalid, "file %q has both text and base64", f.Name)
		}
		data := f.Base64
		if data == nil {
			data = []byte(f.Text)
		}
		n.Files = append(n.Files, course.File{Name: f.Name, Data: data})
	}
	a, err := h.handIn(ctx, n)
	if err != nil {
		return nil, err
	}
	return api.HandIn201JSONResponse(a), nil
}

func (h classHandlers) HandInFile(ctx context.Context, r api.HandInFileRequestObject) (api.HandInFileResponseObject, error) {
	a, err := h.handIn(ctx, classes.NewAttempt{
		Course: r.Course, Assignment: r.Assignment, For: r.Params.For, Idempotency: r.Params.IdempotencyKey, Name: r.Params.Name, Archive: r.Body,
	})
	if err != nil {
		return nil, err
	}
	return api.HandInFile201JSONResponse(a), nil
}

// handIn hands in, and shows the attempt as whoever did it sees it.
func (h classHandlers) handIn(ctx context.Context, n classes.NewAttempt) (api.Attempt, error) {
	a, err := h.classes.HandIn(ctx, n)
	if err != nil {
		return api.Attempt{}, err
	}
	seen, err := h.classes.Attempt(ctx, n.Course, a.ID)
	return attemptOf(seen), err
}

func (h classHandlers) ListAttempts(ctx context.Context, r api.ListAttemptsRequestObject) (api.ListAttemptsResponseObject, error) {
	after, n, err := pageOf(r.Params.Cursor, r.Params.Limit)
	if err != nil {
		return nil, err
	}
	list, err := h.classes.Attempts(ctx, r.Course, classes.AttemptsQuery{After: after, Limit: n, Assignment: r.Params.Assignment, Who: r.Params.Who})
	if err != nil {
		return nil, err
	}
	page := api.AttemptPage{Items: []api.Attempt{}}
	for _, a := range list {
		page.Items = append(page.Items, attemptOf(a))
	}
	if len(list) == n {
		page.Next = cursorOf(list[n-1].Page())
	}
	return api.ListAttempts200JSONResponse(page), nil
}

func (h classHandlers) GetAttempt(ctx context.Context, r api.GetAttemptRequestObject) (api.GetAttemptResponseObject, error) {
	var a classes.Seen
	var err error
	if r.Params.WaitSeconds > 0 {
		a, err = h.classes.Wait(ctx, r.Course, r.Attempt, time.Duration(r.Params.WaitSeconds)*time.Second)
	} else {
		a, err = h.classes.Attempt(ctx, r.Course, r.Attempt)
	}
	if err != nil {
		return nil, err
	}
	return api.GetAttempt200JSONResponse(attemptOf(a)), nil
}

func (h classHandlers) GetAttemptFiles(ctx context.Context, r api.GetAttemptFilesRequestObject) (api.GetAttemptFilesResponseObject, error) {
	files, err := h.classes.Files(ctx, r.Course, r.Attempt)
	if err != nil {
		return nil, err
	}
	return api.GetAttemptFiles200JSONResponse(filesOf(files)), nil
}

func (h classHandlers) FollowAttempt(ctx context.Context, r api.FollowAttemptRequestObject) (api.FollowAttemptResponseObject, error) {
	// Asked once before the stream begins, so that a refusal has its status.
	if _, err := h.classes.Attempt(ctx, r.Course, r.Attempt); err != nil {
		return nil, err
	}
	return api.FollowAttempt200TextEventStreamResponse{Body: stream(ctx, func(ctx context.Context, send func(Event) error) error {
		return h.classes.Follow(ctx, r.Course, r.Attempt, func(a classes.Seen) error { return send(Event{"attempt", attemptOf(a)}) })
	})}, nil
}

func attemptOf(a classes.Seen) api.Attempt {
	out := api.Attempt{
		ID: a.ID, Assignment: a.Assignment, Who: a.Who, Group: a.Group, User: a.Login, Digest: a.Digest, Notes: orEmpty(a.Notes), ReceivedAt: a.Received,
		Version: a.VersionDigest, VersionNumber: a.Version, State: api.AttemptState(a.Grading.State), Tries: a.Grading.Tries, Node: a.Grading.Node,
		Graded: a.Graded, OurFailure: a.OurFailure, Reason: a.Grading.Reason,
	}
	if a.Graded {
		out.Report = reportPath(a.Course, a.ID)
	}
	switch {
	case a.Grade != nil:
		out.Grade = gradeOf(*a.Grade)
	case a.Student != nil:
		out.Grade = studentGradeOf(*a.Student)
	}
	return out
}

// gradeOf is all of a grade.
func gradeOf(g course.Grade) *api.Grade {
	out := &api.Grade{
		Version: g.Version, Score: number(&g.Score), Points: number(&g.Points), Tests: []api.GradedTest{}, Message: g.Cause.Text(), Build: g.Build, Log: g.Log,
		Notes: g.Notes, FinishedAt: g.Run.Finished,
	}
	for _, s := range g.Suspicious {
		out.Suspicious = append(out.Suspicious, s.Kind+": "+s.Text)
	}
	for i, t := range g.Tests {
		test := api.GradedTest{
			Name: t.Name, Passed: t.Status == course.Passed, Score: t.Score.Float(), Points: t.Points.Float(), Bonus: t.Bonus, Hidden: t.Visibility != course.Visible,
			Cause: string(t.Cause), Message: t.Message, Detail: t.Detail, Stdout: t.Stdout, Stderr: t.Stderr,
		}
		if i < len(g.Run.Tests) {
			test.TimeUs, test.MemoryBytes = g.Run.Tests[i].TimeUS, g.Run.Tests[i].MemoryBytes
		}
		out.Tests = append(out.Tests, test)
	}
	return out
}

// studentGradeOf is what a student may see.
func studentGradeOf(g course.StudentGrade) *api.Grade {
	out := &api.Grade{
		Version: g.Version, Score: number(g.Score), Points: number(g.Points), HiddenTestsRemain: g.HiddenRemain, Tests: []api.GradedTest{}, Message: g.Message,
		Build: g.Build, Notes: g.Notes, FinishedAt: g.Finished,
	}
	for _, t := range g.Tests {
		out.Tests = append(out.Tests, api.GradedTest{
			Name: t.Name, Passed: t.Passed, Score: t.Score.Float(), Points: t.Points.Float(), Bonus: t.Bonus, Message: t.Message, Detail: t.Detail,
			Stdout: t.Stdout, TimeUs: t.TimeUS, MemoryBytes: t.Memory,
		})
	}
	return out
}
