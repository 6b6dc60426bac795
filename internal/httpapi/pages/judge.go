package pages

import "time"

// Start is the body of "start".
type Start struct {
	Problems    []Problem
	Submissions []Submission
	// Nodes are shown to staff.
	Nodes []Node
	// Public says that nobody is signed in.
	Public bool
}

// Node is one line of the hosts.
type Node struct {
	Name, State           string
	Processors, Sandboxes int
	Seen                  time.Time
}

// Problem is the body of "problem", and one line of a list.
type Problem struct {
	ID, Title, Format, Version string
	Open                       bool
	TimeLimit, Memory          string
	Cases                      int
	Languages                  []string
	Submissions                []Submission
	// Languages that may be chosen in the form.
	Choices []Choice
	// Form is what the reader sent that was refused.
	FormLanguage, FormFile, FormText string
}

// Choice is one option of a form.
type Choice struct{ ID, Name string }

// Submission is the body of "submission", and one line of a list.
type Submission struct {
	ID, Problem, User, Language string
	State, Verdict, InWords     string
	// Kind is good, bad, ours or wait: how the verdict looks.
	Kind                string
	Reason              string
	Time, Memory, Score string
	FailedCase          int
	Received            time.Time
	Expected            string
	Compiler            string
	Cases               []Case
	// Words says that a case has a reason or a message.
	Words  bool
	Groups []Group
	Files  []File
	// Refresh has the page ask again by itself: the run has not ended.
	Refresh bool
}

// Case is one line of a submission's cases.
type Case struct {
	Number                        int
	Name, Verdict, Kind           string
	Reason, Message, Time, Memory string
}

// Group is one line of a submission's groups.
type Group struct{ Name, Verdict, Kind, Score string }

// File is a source.
type File struct{ Name, Text string }
