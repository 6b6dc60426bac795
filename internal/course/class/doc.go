// Package class keeps what a class is: the people of a course, who works with
// whom, when work is due for whom, what was handed in and what it scored, and
// the gradebook that follows from all of it.
//
// Start with Book, which every command and server uses, and with State.Mark,
// which says how a mark comes about. Marks are never stored: they follow from
// what was recorded, so a new late rule, an extension or a group holds for what
// was handed in before.
//
// The package must not know how things are stored (Store is in deps.go), who
// asks, or how a grade was made.
package class
