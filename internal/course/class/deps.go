package class

import (
	"context"
	"time"

	"assay/internal/course"
	"assay/internal/judge"
)

// Store keeps courses. It may be used from many goroutines and by many
// processes at once.
type Store interface {
	// Courses are all, by ID.
	Courses(ctx context.Context) ([]Course, error)
	// CreateCourse refuses an ID that is taken: Conflict.
	CreateCourse(ctx context.Context, c Course) error
	// RemoveCourse takes away a course with all that is in it: NotFound if there
	// is none.
	RemoveCourse(ctx context.Context, id string) error
	// Read runs fn on one state of a course; NotFound if there is none. fn may run
	// more than once.
	Read(ctx context.Context, course string, fn func(Records) error) error
	// Write runs fn while nobody else writes to the course. What fn put is kept,
	// all of it, if it returns nil, and nothing of it otherwise. fn may run more
	// than once; only what the last time put is kept.
	Write(ctx context.Context, course string, fn func(Records) error) error
}

// Records are the things of one course within Read or Write; they are not valid
// after it. Put replaces what has the same key. In Read each Put fails.
type Records interface {
	// State is everything but grades. With an assignment named, members,
	// extensions, adjustments and attempts are its only.
	State(ctx context.Context, assignment string) (State, error)
	PutPerson(ctx context.Context, p Person) error
	PutAssignment(ctx context.Context, a Assignment) error
	// PutMember puts a person into the group of an assignment, or out of any if
	// the group is "".
	PutMember(ctx context.Context, m Member) error
	PutExtension(ctx context.Context, e Extension) error
	PutAdjustment(ctx context.Context, a Adjustment) error
	// PutAttempt writes the attempt and which run of it counts; Attempt.Run must
	// have been put or be put before Write ends.
	PutAttempt(ctx context.Context, a Attempt) error
	// PutRun adds a run; it is never changed.
	PutRun(ctx context.Context, r Run, grade []byte) error
	// Runs are all runs of an assignment's attempts, oldest first.
	Runs(ctx context.Context, assignment string) ([]Run, error)
	// Grade is the grade of a run as JSON (course.Grade): NotFound if there is
	// none.
	Grade(ctx context.Context, run string) ([]byte, error)
}

// State is what a course is made of at one moment. Lists are in the order of
// time, attempts in the order in which they were received.
type State struct {
	Course      Course
	People      []Person
	Assignments []Assignment
	Members     []Member
	Extensions  []Extension
	Adjustments []Adjustment
	Attempts    []Attempt
}

// Member says that a person hands in with a group.
type Member struct {
	Assignment string `json:"assignment"`
	Person     string `json:"person"`
	Group      string `json:"group"`
}

// Note says who did something, when and why.
type Note struct {
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
}

// Extension moves the due time of one assignment for a person or a group.
type Extension struct {
	ID         string `json:"id"`
	Assignment string `json:"assignment"`
	// Person or Group is set.
	Person string `json:"person,omitempty"`
	Group  string `json:"group,omitempty"`
	// Due is the new time; if it is zero, Days are added to the old one.
	Due  course.LocalTime `json:"due,omitzero"`
	Days int              `json:"days,omitempty"`
	Note
	// Revoked is when and why it was taken back; nil is never.
	Revoked *Note `json:"revoked,omitempty"`
}

// Adjustment changes one person's mark by hand.
type Adjustment struct {
	ID         string `json:"id"`
	Assignment string `json:"assignment"`
	Person     string `json:"person"`
	// Set replaces the mark by Points; otherwise Points are added.
	Set    bool        `json:"set,omitempty"`
	Points judge.Score `json:"points"`
	Note
	Revoked *Note `json:"revoked,omitempty"`
}

// Attempt is one hand-in.
type Attempt struct {
	ID         string `json:"id"`
	Assignment string `json:"assignment"`
	// Person handed it in; "" if only the group is known.
	Person string `json:"person,omitempty"`
	// Group is that of the person at that time; "" is none.
	Group    string    `json:"group,omitempty"`
	Digest   string    `json:"digest"`
	Received time.Time `json:"received"`
	// Run is the grading that counts.
	Run Run `json:"run"`
}

// Run is one grading of an attempt, without the grade itself.
type Run struct {
	ID      string      `json:"id"`
	Attempt string      `json:"attempt"`
	Version string      `json:"version"`
	Score   judge.Score `json:"score"`
	Points  judge.Score `json:"points"`
	// Failed says that we failed: the run costs no attempt and scores nothing.
	Failed     bool `json:"failed,omitempty"`
	Suspicious bool `json:"suspicious,omitempty"`
	Note
}
