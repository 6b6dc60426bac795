package httpapi

import (
	"bytes"
	"net/http"

	"assay/internal/course/gradepage"
)

// reportPath is where the page of a grade is.
func reportPath(course, attempt string) string {
	return "/courses/" + course + "/attempts/" + attempt + "/report"
}

// coursePages are the pages that people read, print and keep. Each is one file
// whose style is in it; nothing in it may run, and it may fetch nothing.
func (s *server) coursePages(mux *http.ServeMux) {
	page := func(pattern string, write func(b *bytes.Buffer, r *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			var b bytes.Buffer
			if err := write(&b, r); err != nil {
				Fail(s.Log, w, r, err)
				return
			}
			h := w.Header()
			h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox allow-top-navigation-by-user-activation")
			h.Set("Content-Type", "text/html; charset=utf-8")
			h.Set("Cache-Control", "no-store")
			// A caller that went away is no failure.
			_, _ = w.Write(b.Bytes())
		})
	}
	page("GET /courses/{course}/attempts/{attempt}/report", func(b *bytes.Buffer, r *http.Request) error {
		g, err := s.Classes.StudentGrade(r.Context(), r.PathValue("course"), r.PathValue("attempt"))
		if err != nil {
			return err
		}
		return gradepage.Student(b, g)
	})
	page("GET /courses/{course}/assignments/{assignment}/page", func(b *bytes.Buffer, r *http.Request) error {
		course := r.PathValue("course")
		return s.Classes.ClassPage(r.Context(), b, course, r.PathValue("assignment"), func(attempt string) string { return reportPath(course, attempt) })
	})
	page("GET /courses/{course}/assignments/{assignment}/similarity", func(b *bytes.Buffer, r *http.Request) error {
		assignment := r.PathValue("assignment")
		found, err := s.Classes.Similarity(r.Context(), r.PathValue("course"), assignment, defaultSimilarity)
		if err != nil {
			return err
		}
		return gradepage.Similar(b, assignment, found)
	})
}
