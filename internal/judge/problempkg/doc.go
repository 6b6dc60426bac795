// Package problempkg reads problem packages from a folder or a zip file. Start
// with Load.
//
// Packages come from strangers: names, links, sizes and YAML are checked before
// anything is used, everything is capped, and every refusal names the file (and
// the line). Read today is the ICPC/Kattis legacy format with the default
// checker; what a package asks for beyond that is refused as Unsupported, never
// ignored.
//
// The package must not know machines, the pipeline or any store.
package problempkg
