// Package work keeps durable jobs and does them. A job is a row: it is enqueued
// together with what it is about, claimed by one node at a time under a lease, and
// finished exactly once by the holder of that lease, together with its result.
// Start with Job, Store, Worker and Heart.
//
// What a job means is known by its Handler alone. A wake-up only makes a worker
// look earlier: a lost message, a killed node or a database that is gone for a
// while delays jobs and loses none.
package work

import (
	"crypto/rand"
	"strings"
	"time"
)

// Job is one piece of work.
type Job struct {
	ID string
	// Kind chooses the handler, Ref is what the job is about: a run, a grading.
	Kind, Ref string
	// Priority: higher ones are claimed first, then those enqueued first.
	Priority int
	State    State
	// Node has claimed it, until LeaseUntil unless it renews; Token is the proof.
	Node, Token string
	LeaseUntil  time.Time
	// Tries is how often a claim came to nothing by our failure. Giving a job back
	// when a node is stopped costs none.
	Tries int
	// Available is when it may be claimed, Ended when it was finished (zero before).
	Available, Created, Ended time.Time
	// Reason says why it failed, or why the last try did.
	Reason string
}

// State is where a job stands.
type State string

// The states.
const (
	Queued  State = "queued"
	Running State = "running"
	Done    State = "done"
	Failed  State = "failed"
)

// Node is a process that takes part, as it last said.
type Node struct {
	ID      string
	Address string
	// Capacity is how many jobs it does at once; 0 is a node that does none.
	Capacity int
	Roles    []string
	Started  time.Time
	Seen     time.Time
	Load
	// Jobs is how many run there now, by the jobs' own rows: Beat does not take it.
	Jobs int
}

// Load is what a node's sandboxes hold.
type Load struct {
	Sandboxes int
	// Memory is what they may have together, Held what they have, in bytes.
	Memory, Held int64
}

// NewID makes the ID of a job, or the token of a lease: nobody guesses it.
func NewID() string { return strings.ToLower(rand.Text()) }
