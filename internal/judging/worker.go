package judging

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/work"
)

// Judge judges: judge.Judge.
type Judge interface {
	Run(ctx context.Context, p judge.Problem, s judge.Submission, observe judge.Observer) (judge.Run, error)
	Options() judge.Options
}

// Templates makes sure that this host has what a language runs in.
type Templates interface {
	Ready(ctx context.Context, name string) error
}

// Worker judges the runs of the queue on one node.
type Worker struct {
	s         *Service
	judge     Judge
	templates Templates
}

// NewWorker makes the worker of a node.
func (s *Service) NewWorker(j Judge, t Templates) *Worker { return &Worker{s, j, t} }

// Progress is what is published while a run is judged.
type Progress struct {
	Run  string     `json:"run"`
	Step judge.Step `json:"step"`
	// Case is from 1; 0 outside of cases.
	Case  int `json:"case,omitempty"`
	Cases int `json:"cases,omitempty"`
}

func topic(submission string) string { return "submission." + submission }

// Run judges the run that a job is about and keeps what came of it: it is a
// work.Handler. An error is our failure; the job is then tried again.
func (w *Worker) Run(ctx context.Context, j work.Job) error {
	r, sub, err := w.s.runOf(ctx, j.Ref)
	if err != nil {
		return err
	}
	if r.State == Done || r.State == Cancelled {
		return w.s.store.FinishRun(ctx, j, work.End{State: work.Done, At: now()}, r)
	}
	if err := w.s.store.BeginRun(ctx, r.ID, j.Node, j.Tries+1); err != nil {
		return err
	}
	w.s.tell(sub.ID, Progress{Run: r.ID, Step: judge.StepCompiling})
	got, record, err := w.judged(ctx, sub, r)
	if err != nil {
		return err
	}
	r = outcome(r, got)
	r.Node, r.Tries = j.Node, j.Tries+1
	if r.Record, _, err = w.s.blobs.Put(ctx, bytes.NewReader(record), int64(len(record))); err != nil {
		return err
	}
	return w.s.finish(ctx, j, work.End{State: work.Done, At: r.Ended}, sub, r)
}

// GiveUp ends a run whose job has been tried too often: JE, whatever the reason.
func (w *Worker) GiveUp(ctx context.Context, j work.Job) error {
	r, sub, err := w.s.runOf(ctx, j.Ref)
	if err != nil {
		return err
	}
	end := work.End{State: work.Failed, Reason: j.Reason, At: now()}
	if r.State == Done || r.State == Cancelled {
		return w.s.store.FinishRun(ctx, j, end, r)
	}
	got := judge.Run{
		ID: r.ID, Verdict: judge.JudgeError, Reason: fmt.Sprintf("judging failed %d times: %s", j.Tries, j.Reason), StartedAt: end.At, FinishedAt: end.At,
	}
	r = outcome(r, got)
	r.Node, r.Tries = j.Node, j.Tries
	return w.s.finish(ctx, j, end, sub, r)
}

// runOf finds a run and its submission for whoever works on it.
func (s *Service) runOf(ctx context.Context, id string) (Run, Submission, error) {
	r, err := s.store.Run(ctx, id)
	if err != nil {
		return r, Submission{}, err
	}
	sub, err := s.store.Submission(ctx, r.Submission)
	return r, sub, err
}

// judged gives the run and its record as JSON.
func (w *Worker) judged(ctx context.Context, sub Submission, r Run) (judge.Run, []byte, error) {
	version, err := w.s.store.Version(ctx, sub.Problem, r.Version)
	if err != nil {
		return judge.Run{}, nil, err
	}
	files, err := w.s.files(ctx, sub)
	if err != nil {
		return judge.Run{}, nil, err
	}
	pkg, err := w.s.packages.open(ctx, version.Package)
	if err != nil {
		return judge.Run{}, nil, err
	}
	defer pkg.release()
	p := pkg.Problem
	p.ShortName = sub.Problem
	src := judge.Submission{Name: files[0].Name, Language: sub.Language, Entry: sub.Entry, Files: files}
	for _, name := range w.s.languages.Templates(p, []judge.Submission{src}) {
		if err := w.templates.Ready(ctx, name); err != nil {
			return judge.Run{}, nil, fmt.Errorf("template %s: %w", name, err)
		}
	}
	got, err := w.run(ctx, p, src, func(e judge.Event) {
		if e.Step == judge.StepCase || e.Step == judge.StepCompiled {
			w.s.tell(sub.ID, Progress{Run: r.ID, Step: e.Step, Case: e.Case, Cases: e.Cases})
		}
	})
	if fault.Is(err, fault.Invalid) || fault.Is(err, fault.Unsupported) {
		// It makes no sense here and never will: a verdict, and the reason for staff.
		got, err = judge.Run{
			Verdict: judge.JudgeError, Reason: err.Error(), Submission: judge.SubmissionInfo{Name: src.Name, Language: src.Language, Digest: sub.Digest},
			Problem: judge.ProblemInfo{ShortName: sub.Problem, Name: p.Name, Version: p.Version, Cases: len(p.Cases)}, StartedAt: now(), FinishedAt: now(),
		}, nil
	}
	if err != nil {
		return judge.Run{}, nil, err
	}
	got.ID = r.ID
	record, err := json.Marshal(judge.NewRecord(got, src, p, "problem:"+sub.Problem, w.judge.Options()))
	if err != nil {
		return judge.Run{}, nil, fmt.Errorf("write record: %w", err)
	}
	return got, record, nil
}

// run is Judge.Run, but what failed by our failure has no verdict.
func (w *Worker) run(ctx context.Context, p judge.Problem, src judge.Submission, observe judge.Observer) (judge.Run, error) {
	got, err := w.judge.Run(ctx, p, src, observe)
	switch {
	case err != nil || got.Verdict != judge.JudgeError || got.Failure == nil:
		return got, err
	case fault.Is(got.Failure, fault.Exhausted):
		return judge.Run{}, fmt.Errorf("this host is full: %w", got.Failure)
	}
	// Perhaps the submission breaks its machines: that must cost tries, whatever
	// kind it is.
	return judge.Run{}, fault.Errorf(fault.Internal, "judging came to nothing: %w", got.Failure)
}

// outcome puts what came of a judging into its row.
func outcome(r Run, got judge.Run) Run {
	r.State, r.Ended = Done, now()
	r.Verdict, r.Reason, r.FailedCase, r.Score = got.Verdict, got.Reason, got.FailedCase, got.Score
	r.TimeUS, r.Memory, r.Result = got.TimeUS, got.MemoryBytes, &got
	return r
}

// finish keeps a run that has ended and says so.
func (s *Service) finish(ctx context.Context, j work.Job, end work.End, sub Submission, r Run) error {
	if err := s.store.FinishRun(ctx, j, end, r); err != nil {
		return err
	}
	s.tell(sub.ID, Progress{Run: r.ID, Step: judge.StepDone})
	return nil
}

func (s *Service) tell(submission string, p Progress) {
	data, err := json.Marshal(p)
	if err != nil {
		// It has only numbers and words.
		panic(err)
	}
	s.events.Publish(topic(submission), data)
}
