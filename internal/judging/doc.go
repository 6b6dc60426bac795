// Package judging is the judge as a service: problems in versions, submissions
// that are never lost, their runs, and rejudge sets. Start with Service, which
// every door uses, and Worker, which judges what is queued on one node.
//
// Rows are the truth. A submission is stored with its run and its job before
// anybody is told so; a run's verdict is stored once, together with the end of
// its job; messages only wake and show.
//
// The package must not know SQL, HTTP, drivers or how machines are made.
package judging
