// Package checker decides from the output of a case whether it is right. Start
// with Compare, the default comparison of the ICPC and Kattis formats as a pure
// function over two streams, and Default, the same as a judge.Checker.
//
// The package runs on the host on what hostile programs wrote: it works byte by
// byte in constant memory, whatever the length of a line or a word. It must not
// know machines, packages or verdicts' precedence.
package checker
