// Package classes offers courses as a service: rosters, assignments in versions,
// attempts that are never lost, gradebooks and regrade sets. Start with Service,
// which every door uses, and Worker, which grades and checks what is queued on
// one node.
//
// Rows are the truth. An attempt is stored with its grading and its job before
// anybody is told so; what comes of a grading is recorded once, together with
// the end of its job. What a mark is follows from package class.
//
// The package must not know SQL, HTTP, drivers or how machines are made.
package classes
