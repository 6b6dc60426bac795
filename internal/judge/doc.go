// Package judge turns a submission and a problem into a verdict that somebody
// can rely on. Start with Judge.Run, which compiles and runs a submission case
// by case in a throwaway machine, and with Decide, the pure function that all
// verdicts come from.
//
// What is hidden is not there: the expected outputs stay on the host, and the
// input of a case enters the machine only when that case starts. What comes out
// of the machine is a claim; outputs are compared here. A failure of ours gives
// JE and never a verdict against the contestant.
//
// The package must not know drivers, the machine manager, package formats
// (problempkg), comparison rules (checker), SQL or HTTP. It declares what it
// needs in deps.go.
package judge
