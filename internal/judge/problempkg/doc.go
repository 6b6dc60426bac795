// Package problempkg reads problem packages from a folder or a zip file. Start
// with Load.
//
// Packages come from strangers: names, links, sizes and YAML are checked before
// anything is used, everything is capped, and every refusal names the file (and
// the line). Read are the ICPC/Kattis formats legacy and 2025-09 with the drafts
// of the latter, and packages of Polygon. What a package asks for and Assay does
// not do is refused as Unsupported where it would change a verdict, and is a
// warning elsewhere.
//
// The package must not know machines, the pipeline or any store.
package problempkg
