// Package handin reads what students hand in: a file, a folder, or a zip or
// tar of one, told apart by content. What it reads is hostile. It follows no
// link, writes nothing, holds no more in memory than the caps allow, and
// refuses by name whatever could mean something else on another system. Start
// with Read; ReadClass finds the submissions of a whole class.
//
// The package must not know how a submission is graded.
package handin
