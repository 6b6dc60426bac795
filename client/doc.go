// Package client speaks to an Assay server: the generated calls of
// api/openapi.yaml. Start with NewClientWithResponses.
//
// It must not know how the server works: whoever builds on Assay may import it.
package client
