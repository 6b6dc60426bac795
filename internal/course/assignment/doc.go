// Package assignment reads assignments from folders, makes new ones, and
// describes them. Start with Load and New. A folder holds assignment.yaml, what
// the tests need, and beside it solution, starter and proofs; docs/assignments.md
// is the reference of the file.
//
// The package runs nothing and must not know how an assignment is graded.
package assignment
