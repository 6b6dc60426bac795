package httpapi

import (
	"bytes"
	"context"

	"assay/api"
	"assay/internal/classes"
	"assay/internal/course/class"
	"assay/internal/course/similarity"
)

func (h classHandlers) GetGradebook(ctx context.Context, r api.GetGradebookRequestObject) (api.GetGradebookResponseObject, error) {
	g, err := h.classes.Gradebook(ctx, r.Course)
	if err != nil {
		return nil, err
	}
	out := api.Gradebook{Course: r.Course, Points: g.Points.Float(), Columns: []api.GradebookColumn{}, Rows: []api.GradebookRow{}}
	for _, a := range g.Assignments {
		out.Columns = append(out.Columns, api.GradebookColumn{
			Assignment: a.Name, Title: a.Title, Points: a.Points.Float(), Hidden: a.Hidden(), PublishedAt: a.Published,
		})
	}
	for _, row := range g.Rows {
		line := api.GradebookRow{Person: personOf(row.Person), Total: row.Total.Float(), Marks: []api.Mark{}}
		for _, m := range row.Marks {
			line.Marks = append(line.Marks, markOf(m))
		}
		out.Rows = append(out.Rows, line)
	}
	return api.GetGradebook200JSONResponse(out), nil
}

// markOf leaves out numbers that do not exist.
func markOf(m class.Mark) api.Mark {
	out := api.Mark{
		None: m.None, Hidden: m.Hidden, Attempt: m.Attempt, Group: m.Group, ReceivedAt: m.Received, DueAt: m.Due.UTC(), DaysLate: m.Late.Days,
		Attempts: m.Attempts, Refused: m.Refused, Failed: m.Failed, Suspicious: m.Suspicious, Outdated: m.Outdated,
	}
	if !m.None {
		out.Score, out.Earned, out.Penalty, out.Adjustment = number(&m.Score), number(&m.Earned), number(&m.Penalty), number(&m.Adjustment)
	}
	return out
}

func (h classHandlers) ListMarks(ctx context.Context, r api.ListMarksRequestObject) (api.ListMarksResponseObject, error) {
	_, marks, err := h.classes.Marks(ctx, r.Course, r.Assignment)
	if err != nil {
		return nil, err
	}
	out := api.MarkList{Items: []api.AnonymousMark{}}
	for _, m := range marks {
		out.Items = append(out.Items, api.AnonymousMark{Pseudonym: m.Pseudonym, Mark: markOf(m.Mark)})
	}
	return api.ListMarks200JSONResponse(out), nil
}

func (h classHandlers) ExportGradebook(ctx context.Context, r api.ExportGradebookRequestObject) (api.ExportGradebookResponseObject, error) {
	form := classes.Export(r.Params.Format)
	if form == "" {
		form = classes.CSV
	}
	data, _, err := h.classes.Export(ctx, r.Course, form, r.Params.Assignment, nil)
	if err != nil {
		return nil, err
	}
	return api.ExportGradebook200TextCsvResponse{Body: bytes.NewReader(data), ContentLength: int64(len(data))}, nil
}

func (h classHandlers) FillGradebook(ctx context.Context, r api.FillGradebookRequestObject) (api.FillGradebookResponseObject, error) {
	sent, err := table(r.Body)
	if err != nil {
		return nil, err
	}
	data, _, err := h.classes.Export(ctx, r.Course, classes.Export(r.Params.Format), r.Params.Assignment, sent)
	if err != nil {
		return nil, err
	}
	return api.FillGradebook200TextCsvResponse{Body: bytes.NewReader(data), ContentLength: int64(len(data))}, nil
}

func (h classHandlers) GetSimilarity(ctx context.Context, r api.GetSimilarityRequestObject) (api.GetSimilarityResponseObject, error) {
	least := r.Params.Min
	if least == 0 {
		least = defaultSimilarity
	}
	found, err := h.classes.Similarity(ctx, r.Course, r.Assignment, least)
	if err != nil {
		return nil, err
	}
	out := api.Similarity{Compared: found.Compared, Pairs: []api.SimilarPair{}, Notes: orEmpty(found.Notes)}
	for _, p := range found.Pairs {
		pair := api.SimilarPair{A: p.A, B: p.B, Similarity: p.Similarity, AInB: p.AInB, BInA: p.BInA, Regions: []api.SimilarRegion{}}
		for _, region := range p.Regions {
			pair.Regions = append(pair.Regions, api.SimilarRegion{Tokens: region.Tokens, A: spanOf(region.A), B: spanOf(region.B)})
		}
		out.Pairs = append(out.Pairs, pair)
	}
	return api.GetSimilarity200JSONResponse(out), nil
}

// defaultSimilarity is from which on a pair is told when nobody says.
const defaultSimilarity = 0.5

func spanOf(s similarity.Span) api.SimilarSpan {
	return api.SimilarSpan{File: s.File, FirstLine: s.From, LastLine: s.To}
}
