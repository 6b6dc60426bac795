package httpapi

import (
	"context"
	"io"
	"strings"

	"assay/api"
	"assay/internal/classes"
	"assay/internal/course"
	"assay/internal/course/class"
	"assay/internal/fault"
	"assay/internal/judge"
)

// classHandlers are the tag classes.
type classHandlers struct{ classes *classes.Service }

func (h classHandlers) ListCourses(ctx context.Context, r api.ListCoursesRequestObject) (api.ListCoursesResponseObject, error) {
	after, n, err := pageOf(r.Params.Cursor, r.Params.Limit)
	if err != nil {
		return nil, err
	}
	list, err := h.classes.Courses(ctx, classes.CourseQuery{After: after, Limit: n, Archived: r.Params.Archived})
	if err != nil {
		return nil, err
	}
	page := api.CoursePage{Items: []api.Course{}}
	for _, c := range list {
		page.Items = append(page.Items, courseOf(c))
	}
	if len(list) == n {
		page.Next = cursorOf(list[n-1].ID)
	}
	return api.ListCourses200JSONResponse(page), nil
}

func (h classHandlers) CreateCourse(ctx context.Context, r api.CreateCourseRequestObject) (api.CreateCourseResponseObject, error) {
	c, err := h.classes.NewCourse(ctx, class.Course{ID: r.Body.ID, Title: r.Body.Title, Zone: r.Body.Zone})
	if err != nil {
		return nil, err
	}
	return api.CreateCourse201JSONResponse(courseOf(c)), nil
}

func (h classHandlers) GetCourse(ctx context.Context, r api.GetCourseRequestObject) (api.GetCourseResponseObject, error) {
	c, err := h.classes.Course(ctx, r.Course)
	if err != nil {
		return nil, err
	}
	return api.GetCourse200JSONResponse(courseOf(c)), nil
}

func (h classHandlers) ChangeCourse(ctx context.Context, r api.ChangeCourseRequestObject) (api.ChangeCourseResponseObject, error) {
	c, err := h.classes.ArchiveCourse(ctx, r.Course, r.Body.Archived)
	if err != nil {
		return nil, err
	}
	return api.ChangeCourse200JSONResponse(courseOf(c)), nil
}

func (h classHandlers) RemoveCourse(ctx context.Context, r api.RemoveCourseRequestObject) (api.RemoveCourseResponseObject, error) {
	if err := h.classes.RemoveCourse(ctx, r.Course); err != nil {
		return nil, err
	}
	return api.RemoveCourse204Response{}, nil
}

func courseOf(c classes.Course) api.Course {
	return api.Course{ID: c.ID, Title: c.Title, Zone: c.Zone, CreatedAt: c.Created, ArchivedAt: c.Archived, Leads: c.Leads}
}

func (h classHandlers) GetRoster(ctx context.Context, r api.GetRosterRequestObject) (api.GetRosterResponseObject, error) {
	list, err := h.classes.Roster(ctx, r.Course)
	if err != nil {
		return nil, err
	}
	return api.GetRoster200JSONResponse{Items: peopleOf(list)}, nil
}

func peopleOf(list []class.Person) []api.Person {
	out := []api.Person{}
	for _, p := range list {
		out = append(out, personOf(p))
	}
	return out
}

func personOf(p class.Person) api.Person {
	return api.Person{
		ID: p.ID, StudentID: p.StudentID, Email: p.Email, Login: p.Login, Name: p.Name, Section: p.Section, Role: api.PersonRole(p.Role), RemovedAt: p.Removed,
	}
}

// table reads a CSV that was sent.
func table(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, class.MaxTableBytes+1))
	if err == nil && len(data) > class.MaxTableBytes {
		err = fault.Errorf(fault.Invalid, "the table has more than %d bytes", class.MaxTableBytes)
	}
	return data, err
}

// sentTable is what errors about a CSV call it.
const sentTable = "the CSV"

func (h classHandlers) PreviewRoster(ctx context.Context, r api.PreviewRosterRequestObject) (api.PreviewRosterResponseObject, error) {
	data, err := table(r.Body)
	if err != nil {
		return nil, err
	}
	plan, digest, err := h.classes.PlanRoster(ctx, r.Course, sentTable, data)
	if err != nil {
		return nil, err
	}
	return api.PreviewRoster200JSONResponse(rosterPlanOf(plan, digest)), nil
}

func (h classHandlers) ImportRoster(ctx context.Context, r api.ImportRosterRequestObject) (api.ImportRosterResponseObject, error) {
	data, err := table(r.Body)
	if err != nil {
		return nil, err
	}
	plan, err := h.classes.ImportRoster(ctx, r.Course, sentTable, data, r.Params.Plan)
	if err != nil {
		return nil, err
	}
	return api.ImportRoster200JSONResponse(rosterPlanOf(plan, r.Params.Plan)), nil
}

func rosterPlanOf(p class.RosterPlan, digest string) api.RosterPlan {
	out := api.RosterPlan{
		Digest: digest, Format: p.Format, Added: peopleOf(p.Added), Changed: []api.PersonChange{}, Removed: peopleOf(p.Removed),
		Unchanged: p.Unchanged, Notes: orEmpty(p.Notes),
	}
	for _, c := range p.Changed {
		out.Changed = append(out.Changed, api.PersonChange{Person: personOf(c.After), Fields: orEmpty(c.Fields())})
	}
	return out
}

func (h classHandlers) ListGroups(ctx context.Context, r api.ListGroupsRequestObject) (api.ListGroupsResponseObject, error) {
	list, err := h.classes.Groups(ctx, r.Course, r.Assignment)
	if err != nil {
		return nil, err
	}
	return api.ListGroups200JSONResponse(groupsOf(list)), nil
}

func (h classHandlers) SetGroups(ctx context.Context, r api.SetGroupsRequestObject) (api.SetGroupsResponseObject, error) {
	var join []class.GroupLine
	var leave []string
	for _, m := range r.Body.Members {
		if m.Group == "" {
			leave = append(leave, m.Who)
		} else {
			join = append(join, class.GroupLine{Who: m.Who, Group: m.Group})
		}
	}
	if len(join) > 0 && len(leave) > 0 {
		return nil, fault.Errorf(fault.Invalid, "some join a group and others leave theirs").WithHint("send them apart: each is done as a whole")
	}
	var list []class.Group
	var err error
	if len(leave) > 0 {
		list, err = h.classes.LeaveGroup(ctx, r.Course, r.Assignment, leave)
	} else {
		list, err = h.classes.SetGroups(ctx, r.Course, r.Assignment, join)
	}
	if err != nil {
		return nil, err
	}
	return api.SetGroups200JSONResponse(groupsOf(list)), nil
}

func groupsOf(list []class.Group) api.GroupList {
	out := api.GroupList{Items: []api.Group{}}
	for _, g := range list {
		out.Items = append(out.Items, api.Group{Name: g.Name, People: peopleOf(g.People)})
	}
	return out
}

func (h classHandlers) ExtendAssignment(ctx context.Context, r api.ExtendAssignmentRequestObject) (api.ExtendAssignmentResponseObject, error) {
	e := class.Extension{Assignment: r.Assignment, Group: r.Body.Group, Days: r.Body.Days, Note: class.Note{Reason: r.Body.Reason}}
	if r.Body.Due != "" {
		due, err := course.ParseLocalTime(r.Body.Due)
		if err != nil {
			return nil, err
		}
		e.Due = due
	}
	e, err := h.classes.Extend(ctx, r.Course, r.Body.Who, e)
	if err != nil {
		return nil, err
	}
	return api.ExtendAssignment201JSONResponse{ID: e.ID, By: e.By, At: e.At, Reason: e.Reason}, nil
}

func (h classHandlers) AdjustMark(ctx context.Context, r api.AdjustMarkRequestObject) (api.AdjustMarkResponseObject, error) {
	a := class.Adjustment{Assignment: r.Assignment, Note: class.Note{Reason: r.Body.Reason}}
	text, set := strings.CutPrefix(r.Body.Points, "=")
	points, err := judge.ParseScore(strings.TrimPrefix(text, "+"))
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "points: %q is no number of points", r.Body.Points).WithHint("write +2 or -2 to change a mark, =7.5 to set it")
	}
	a.Set, a.Points = set, points
	a, err = h.classes.Adjust(ctx, r.Course, r.Body.Who, a)
	if err != nil {
		return nil, err
	}
	return api.AdjustMark201JSONResponse{ID: a.ID, By: a.By, At: a.At, Reason: a.Reason}, nil
}

func (h classHandlers) RevokeNote(ctx context.Context, r api.RevokeNoteRequestObject) (api.RevokeNoteResponseObject, error) {
	if err := h.classes.Revoke(ctx, r.Course, r.Note, r.Body.Reason); err != nil {
		return nil, err
	}
	return api.RevokeNote204Response{}, nil
}

func (h classHandlers) GetHistory(ctx context.Context, r api.GetHistoryRequestObject) (api.GetHistoryResponseObject, error) {
	p, events, err := h.classes.History(ctx, r.Course, r.Params.Assignment, r.Params.Who)
	if err != nil {
		return nil, err
	}
	out := api.History{Person: personOf(p), Items: []api.HistoryEvent{}}
	for _, e := range events {
		out.Items = append(out.Items, api.HistoryEvent{
			At: e.At, Kind: api.HistoryEventKind(e.Kind), Assignment: e.Assignment, ID: e.ID, Text: e.Text, By: e.By, Reason: e.Reason,
		})
	}
	return api.GetHistory200JSONResponse(out), nil
}
