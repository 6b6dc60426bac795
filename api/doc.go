// Package api is the contract of Assay's server as Go: models, the strict server
// interface and the specification itself, all generated from openapi.yaml.
// Start with openapi.yaml, and run tools/generate after a change of it.
//
// It must not know how anything is done: package httpapi implements it.
package api
