package sqlstore

import (
	"testing"
	"time"

	"assay/internal/course/class"
	"assay/internal/fault"
	"assay/internal/sqlstore/sqltest"
	"assay/internal/testgate"
)

// TestDatabaseGoneAndBack has nobody listen where the database was, and later
// again.
func TestDatabaseGoneAndBack(t *testing.T) {
	t.Parallel()
	d := sqltest.Postgres(t)
	g := testgate.New(t, "unix", d.Socket())
	db, err := OpenURL(t.Context(), d.Through(g.Address()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	s := db.Courses()
	none := func(class.Records) error { return nil }
	for round := range 2 {
		id := string(rune('a' + round))
		if err := s.CreateCourse(t.Context(), class.Course{ID: id}); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		g.Shut()
		begin := time.Now()
		_, listErr := s.Courses(t.Context())
		for what, err := range map[string]error{
			"list": listErr, "ping": db.Ping(t.Context()), "create": s.CreateCourse(t.Context(), class.Course{ID: "x"}),
			"read": s.Read(t.Context(), id, none), "write": s.Write(t.Context(), id, none), "remove": s.RemoveCourse(t.Context(), id),
		} {
			if !fault.Is(err, fault.Unavailable) || fault.HintOf(err) == "" {
				t.Errorf("%s: %v (%s), want it to be unavailable", what, err, fault.KindOf(err))
			}
		}
		if took := time.Since(begin); took > 6*connectTimeout {
			t.Errorf("it took %s to say so", took)
		}
		g.Open(t)
		if err := s.Write(t.Context(), id, none); err != nil {
			t.Errorf("round %d, back again: %v", round, err)
		}
	}
	if courses, err := s.Courses(t.Context()); err != nil || len(courses) != 2 {
		t.Errorf("courses are %v, %v", courses, err)
	}
}
