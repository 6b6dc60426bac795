// Package course grades what a class hands in. An Assignment is one immutable
// version of a task with its tests; a Submission is the files that one person
// sent; a Grader of one mode (io, call, pytest, harness) runs the tests and
// gives a Report; Decide makes a Grade of it, whose points come from the
// assignment and never from what a machine said. Beside them are a class's own
// things: roster, groups, late rules, attempts, adjustments and the gradebook.
//
// Start with Assignment, Report and Decide. The modes live in folders of their
// own and all implement Grader.
//
// The package must not know any driver, any store or who asks.
package course
