// Package call is the grading mode call: functions of the student's program are
// called with arguments that the teacher wrote, and the host compares what they
// return, raise, change or print. Start with Grader and ParseTest.
//
// A submission has a machine with the student's files and a small caller of ours
// for the language. The caller has no tests and no expected values; it gets the
// arguments of one test at a time. Whatever comes from the machine is a claim
// about a value, so there is nothing in it to forge: a program that takes the
// caller over can only say what the function returned, as it always could.
//
//   - Python: one process has loaded the module and forks for each test.
//   - C++, Java, JavaScript: a process of its own for each test. A C++ caller is
//     compiled with the student's sources, and finds out the types itself.
//
// Tests that students may see run first, so that a program that keeps what it was
// given cannot show it in the output of a later one.
//
// The package must not know drivers, stores or who asks.
package call
