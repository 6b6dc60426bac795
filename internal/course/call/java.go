package call

import (
	_ "embed"

	"assay/internal/course"
)

//go:embed AssayCaller.java
var javaCaller []byte

func javaRunner(x *session) runner {
	return &single{
		x: x, build: javaSources, entry: "AssayCaller.java",
		caller: func(*session) []course.File { return []course.File{{Name: "AssayCaller.java", Data: javaCaller}} },
	}
}

func javaSources(x *session) []string {
	var list []string
	for _, f := range x.files {
		if x.lang.Compiles(f.Name) {
			list = append(list, f.Name)
		}
	}
	return list
}
