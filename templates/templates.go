// Package templates holds the template definitions that ship inside the
// program. Start with FS; package image reads it. It knows nothing else.
package templates

import "embed"

// FS has one file NAME.yaml for each template.
//
//go:embed *.yaml
var FS embed.FS
