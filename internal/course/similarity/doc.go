// Package similarity finds submissions that share code. It turns programs into
// tokens without names, literals, comments and spaces, takes fingerprints of
// them by winnowing (Schleimer, Wilkerson and Aiken, "Winnowing: Local
// Algorithms for Document Fingerprinting", SIGMOD 2003), leaves out what the
// teacher gave and what half of the class has, and scores every pair in both
// directions. Start with Detector.
//
// A result is a lead for a person who then reads both programs. It is no proof
// and never changes a mark; the package must not know about grades.
package similarity
