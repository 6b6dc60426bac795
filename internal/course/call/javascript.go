package call

import (
	_ "embed"

	"assay/internal/course"
)

//go:embed caller.js
var javascriptCaller []byte

func javascriptRunner(x *session) runner {
	return &single{
		x: x, entry: "caller.js",
		caller: func(*session) []course.File { return []course.File{{Name: "caller.js", Data: javascriptCaller}} },
	}
}
