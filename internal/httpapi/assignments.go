package httpapi

import (
	"context"
	"unicode/utf8"

	"assay/api"
	"assay/internal/classes"
	"assay/internal/course"
)

func (h classHandlers) ListAssignments(ctx context.Context, r api.ListAssignmentsRequestObject) (api.ListAssignmentsResponseObject, error) {
	tasks, err := h.classes.Tasks(ctx, r.Course)
	if err != nil {
		return nil, err
	}
	list := api.AssignmentList{Items: []api.Assignment{}}
	for _, t := range tasks {
		list.Items = append(list.Items, assignmentOf(t))
	}
	return api.ListAssignments200JSONResponse(list), nil
}

func (h classHandlers) GetAssignment(ctx context.Context, r api.GetAssignmentRequestObject) (api.GetAssignmentResponseObject, error) {
	t, err := h.classes.Task(ctx, r.Course, r.Assignment)
	if err != nil {
		return nil, err
	}
	return api.GetAssignment200JSONResponse(assignmentOf(t)), nil
}

func (h classHandlers) ChangeAssignment(ctx context.Context, r api.ChangeAssignmentRequestObject) (api.ChangeAssignmentResponseObject, error) {
	change := h.classes.Close
	if r.Body.Open {
		change = h.classes.Reopen
	}
	t, err := change(ctx, r.Course, r.Assignment)
	if err != nil {
		return nil, err
	}
	return api.ChangeAssignment200JSONResponse(assignmentOf(t)), nil
}

func (h classHandlers) PublishAssignment(ctx context.Context, r api.PublishAssignmentRequestObject) (api.PublishAssignmentResponseObject, error) {
	t, err := h.classes.Publish(ctx, r.Course, r.Assignment)
	if err != nil {
		return nil, err
	}
	return api.PublishAssignment200JSONResponse(assignmentOf(t)), nil
}

func assignmentOf(t classes.Task) api.Assignment {
	v := t.Current
	out := api.Assignment{
		Name: t.Name, Open: t.Open, Title: t.Class.Title, Points: t.Class.Points.Float(), Mode: string(v.Mode), Language: v.Language, HasStarter: v.Starter,
		Expected: []api.ExpectedFile{}, Version: v.Digest, VersionNumber: v.Number, NewestVersion: t.Newest, DueAt: t.Due.UTC(), AttemptsMax: t.Class.Attempts.Max,
		Counts: string(t.Class.Attempts.Counts), Used: t.Used, Why: t.Why, Anonymous: t.Class.Anonymous, PublishedAt: t.Class.Published, CreatedAt: t.Created,
	}
	if !t.Class.Due.IsZero() {
		out.Late = t.Class.Late.String()
	}
	if t.Left >= 0 {
		out.Left = &t.Left
	}
	for _, e := range v.Expected {
		out.Expected = append(out.Expected, api.ExpectedFile{Name: e.Pattern, Optional: e.Optional})
	}
	return out
}

func (h classHandlers) GetStarter(ctx context.Context, r api.GetStarterRequestObject) (api.GetStarterResponseObject, error) {
	files, err := h.classes.Starter(ctx, r.Course, r.Assignment)
	if err != nil {
		return nil, err
	}
	return api.GetStarter200JSONResponse(filesOf(files)), nil
}

func filesOf(files []course.File) api.SourceFileList {
	list := api.SourceFileList{Items: []api.SourceFile{}}
	for _, f := range files {
		if utf8.Valid(f.Data) {
			list.Items = append(list.Items, api.SourceFile{Name: f.Name, Text: string(f.Data)})
		} else {
			list.Items = append(list.Items, api.SourceFile{Name: f.Name, Base64: f.Data})
		}
	}
	return list
}

func (h classHandlers) ListAssignmentVersions(ctx context.Context, r api.ListAssignmentVersionsRequestObject) (api.ListAssignmentVersionsResponseObject, error) {
	versions, err := h.classes.Versions(ctx, r.Course, r.Assignment)
	if err != nil {
		return nil, err
	}
	list := api.AssignmentVersionList{Items: []api.AssignmentVersion{}}
	for _, v := range versions {
		list.Items = append(list.Items, assignmentVersionOf(v))
	}
	return api.ListAssignmentVersions200JSONResponse(list), nil
}

func (h classHandlers) GetAssignmentVersion(ctx context.Context, r api.GetAssignmentVersionRequestObject) (api.GetAssignmentVersionResponseObject, error) {
	v, err := h.classes.Version(ctx, r.Course, r.Assignment, r.Number)
	if err != nil {
		return nil, err
	}
	return api.GetAssignmentVersion200JSONResponse(assignmentVersionOf(v)), nil
}

func (h classHandlers) UploadAssignment(ctx context.Context, r api.UploadAssignmentRequestObject) (api.UploadAssignmentResponseObject, error) {
	v, err := h.classes.Upload(ctx, r.Course, r.Assignment, r.Body)
	if err != nil {
		return nil, err
	}
	return api.UploadAssignment201JSONResponse(assignmentVersionOf(v)), nil
}

func (h classHandlers) OpenAssignmentVersion(ctx context.Context, r api.OpenAssignmentVersionRequestObject) (api.OpenAssignmentVersionResponseObject, error) {
	t, err := h.classes.Open(ctx, r.Course, r.Assignment, r.Number, classes.Opening{Despite: r.Body.Despite, Anonymous: r.Body.Anonymous})
	if err != nil {
		return nil, err
	}
	return api.OpenAssignmentVersion200JSONResponse(assignmentOf(t)), nil
}

func assignmentVersionOf(v classes.Version) api.AssignmentVersion {
	out := api.AssignmentVersion{
		Number: v.Number, Version: v.Digest, State: api.AssignmentVersionState(v.State), Why: v.Why, Title: v.Class.Title, Mode: string(v.Mode), Language: v.Language,
		Points: v.Class.Points.Float(), Tests: v.Tests, Checks: []api.AssignmentCheck{}, UploadedAt: v.Uploaded, UploadedBy: v.By, OpenedAt: v.Opened, Despite: v.Despite,
	}
	for _, c := range v.Checks {
		out.Checks = append(out.Checks, api.AssignmentCheck{Kind: c.Kind, Name: c.Name, Want: c.Want, Got: c.Got, Ok: c.OK, Why: c.Why})
	}
	return out
}
