package classes_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"assay/internal/account"
	"assay/internal/classes"
	"assay/internal/course"
	"assay/internal/course/class"
	"assay/internal/fault"
	"assay/internal/judge"
)

func TestCoursesAreSeenByThoseOnThem(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.newCourse(t)
	must(s.NewCourse(staff(t), class.Course{ID: "other", Zone: "UTC"}))(t)
	_, err := s.NewCourse(member(t, "ada"), class.Course{ID: "mine", Zone: "UTC"})
	wantKind(t, err, fault.Denied)
	_, err = s.NewCourse(t.Context(), class.Course{ID: "mine", Zone: "UTC"})
	wantKind(t, err, fault.Unauthenticated)
	for who, want := range map[string]string{"ada": "c", "eve": "", "tea": "c"} {
		var got []string
		for _, c := range must(s.Courses(member(t, who), classes.CourseQuery{Limit: 10}))(t) {
			got = append(got, c.ID)
			if c.Leads != (who == "tea") {
				t.Errorf("%s leads %s: %t", who, c.ID, c.Leads)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s sees %v, want %q", who, got, want)
		}
	}
	if got := must(s.Courses(staff(t), classes.CourseQuery{Limit: 10, After: "c"}))(t); len(got) != 1 || got[0].ID != "other" {
		t.Errorf("staff see %+v after c", got)
	}
	_, err = s.Course(member(t, "eve"), "c")
	wantKind(t, err, fault.NotFound)
	_, err = s.Roster(member(t, "ada"), "c")
	wantKind(t, err, fault.Denied)
	if list := must(s.Roster(member(t, "tea"), "c"))(t); len(list) != 3 {
		t.Errorf("a teacher of the course sees %+v", list)
	}
	wantKind(t, s.RemoveCourse(member(t, "tea"), "c"), fault.Denied)
	wantKind(t, s.RemoveCourse(staff(t), "c"), fault.Conflict)
	must(s.ArchiveCourse(staff(t), "c", true))(t)
	if got := must(s.Courses(staff(t), classes.CourseQuery{Limit: 10}))(t); len(got) != 1 {
		t.Errorf("an archived course is listed: %+v", got)
	}
	if err := s.RemoveCourse(staff(t), "c"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Course(staff(t), "c")
	wantKind(t, err, fault.NotFound)
}

func TestRosterIsImportedAsShown(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.newCourse(t)
	next := []byte("email,name\nada@example.org,Ada L.\n")
	plan, digest, err := s.PlanRoster(staff(t), "c", "people.csv", next)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Changed) != 1 || len(plan.Removed) != 1 || plan.Removed[0].Name != "Bo" {
		t.Fatalf("the plan is %+v", plan)
	}
	if again := must(s.Roster(staff(t), "c"))(t); len(again) != 3 || !again[1].Removed.IsZero() {
		t.Fatalf("the preview has changed something: %+v", again)
	}
	_, err = s.ImportRoster(staff(t), "c", "people.csv", append(next, "x@example.org,X\n"...), digest)
	wantKind(t, err, fault.Conflict)
	must(s.ImportRoster(staff(t), "c", "people.csv", next, digest))(t)
	_, err = s.Course(member(t, "bo"), "c")
	wantKind(t, err, fault.NotFound)
	_, _, err = s.PlanRoster(staff(t), "c", "people.csv", []byte("nonsense"))
	wantKind(t, err, fault.Invalid)
}

func TestVersionIsCheckedBeforeItOpens(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.newCourse(t)
	folder := map[string]string{"assignment.yaml": task, "solution/total.py": "open"}
	v := must(s.Upload(member(t, "tea"), "c", "lab1", packed(t, folder)))(t)
	if v.Number != 1 || v.State != classes.Checking || v.Mode != course.IO || v.Class.Points.String() != "10" {
		t.Fatalf("got %+v", v)
	}
	_, err := s.Open(staff(t), "c", "lab1", 1, classes.Opening{})
	wantKind(t, err, fault.Conflict)
	if list := must(s.Tasks(member(t, "ada"), "c"))(t); len(list) != 0 {
		t.Errorf("a student sees what was never opened: %+v", list)
	}
	s.work(t)
	v = must(s.Version(staff(t), "c", "lab1", 1))(t)
	if v.State != classes.Failed || len(v.Checks) != 1 || v.Checks[0].OK {
		t.Fatalf("got %+v", v)
	}
	_, err = s.Open(staff(t), "c", "lab1", 1, classes.Opening{})
	wantKind(t, err, fault.Conflict)
	if !strings.Contains(err.Error(), "want 10, got 4") {
		t.Errorf("the refusal does not say what failed: %v", err)
	}
	opened := must(s.Open(staff(t), "c", "lab1", 1, classes.Opening{Despite: "the second test comes next week"}))(t)
	if !opened.Open || opened.Current.Despite != "the second test comes next week" {
		t.Errorf("got %+v", opened)
	}
	_, err = s.Versions(member(t, "ada"), "c", "lab1")
	wantKind(t, err, fault.Denied)
	seen := must(s.Task(member(t, "ada"), "c", "lab1"))(t)
	if seen.Current.Checks != nil || seen.Current.Tests != 0 || seen.Current.Despite != "" || seen.Newest != 0 || seen.Left != -1 {
		t.Errorf("a student sees %+v", seen)
	}
	// A folder inside of the zip, and a later version.
	second := must(s.Upload(staff(t), "c", "lab1", packed(t, map[string]string{"lab1/assignment.yaml": task, "lab1/solution/total.py": "open secret"})))(t)
	s.work(t)
	if got := must(s.Version(staff(t), "c", "lab1", second.Number))(t); got.Number != 2 || got.State != classes.Passed {
		t.Errorf("got %+v", got)
	}
}

// TestVersionThatWeBrokeIsCheckedAgain has the host without its template until
// the check is given up.
func TestVersionThatWeBrokeIsCheckedAgain(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.newCourse(t)
	whole := s.worker
	s.worker = s.NewWorker(grader{}, noTemplates{})
	if v := s.upload(t, "template: base\n", "open secret"); v.State != classes.Broken || !strings.Contains(v.Why, "our failure") {
		t.Fatalf("got %s: %s", v.State, v.Why)
	}
	_, err := s.Open(staff(t), "c", "lab1", 1, classes.Opening{})
	wantKind(t, err, fault.Conflict)
	s.worker = whole
	if v := s.upload(t, "template: base\n", "open secret"); v.Number != 1 || v.State != classes.Passed || v.Why != "" {
		t.Errorf("after the same upload again version %d is %s: %s", v.Number, v.State, v.Why)
	}
	// One that has passed is left alone.
	again := must(s.Upload(staff(t), "c", "lab1", packed(t, map[string]string{"assignment.yaml": task + "template: base\n", "solution/total.py": "open secret"})))(t)
	if again.Number != 1 || again.State != classes.Passed {
		t.Errorf("a third upload gives version %d, %s", again.Number, again.State)
	}
}

// TestLostPackageIsNotTheAssignmentsFault: it is tried again, and nobody is told
// that something is wrong with what they wrote.
func TestLostPackageIsNotTheAssignmentsFault(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.newCourse(t)
	must(s.Upload(staff(t), "c", "lab1", packed(t, map[string]string{"assignment.yaml": task, "solution/total.py": "open"})))(t)
	if err := os.RemoveAll(s.blobs); err != nil {
		t.Fatal(err)
	}
	j, ok := s.claim(t)
	if !ok {
		t.Fatal("nothing is checked")
	}
	wantKind(t, s.worker.Run(t.Context(), j), fault.Internal)
	if v := must(s.Version(staff(t), "c", "lab1", 1))(t); v.State != classes.Checking || v.Why != "" {
		t.Errorf("the version is %s: %s", v.State, v.Why)
	}
}

func TestBadPackagesAreRefused(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.newCourse(t)
	for _, tt := range []struct {
		name, assignment string
		files            map[string]string
		kind             fault.Kind
		want             string
	}{
		{"no_assignment", "lab1", map[string]string{"x/y.txt": "", "z": ""}, fault.NotFound, "assignment.yaml"},
		{"bad_yaml", "lab1", map[string]string{"assignment.yaml": "title: [", "solution/total.py": ""}, fault.Invalid, "assignment.yaml"},
		{"climbs_out", "lab1", map[string]string{"assignment.yaml": task, "../../etc/passwd": "x"}, fault.Invalid, `"../../etc/passwd"`},
		{"bad_name", "a b", map[string]string{"assignment.yaml": task}, fault.Invalid, `"a b"`},
		{"no_solution", "lab1", map[string]string{"assignment.yaml": task}, fault.Invalid, "solution"},
		{"bomb", "lab1", map[string]string{"assignment.yaml": task, "solution/total.py": "", "zeros": strings.Repeat("\x00", 40<<20)}, fault.Invalid, `"zeros"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.Upload(staff(t), "c", tt.assignment, packed(t, tt.files))
			wantKind(t, err, tt.kind)
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "/tmp") {
				t.Errorf("got %v, want %q in it and no path of this host", err, tt.want)
			}
		})
	}
	_, err := s.Upload(staff(t), "c", "lab1", strings.NewReader("no zip"))
	if !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v", err)
	}
	if list := must(s.Tasks(staff(t), "c"))(t); len(list) != 0 {
		t.Errorf("something was kept: %+v", list)
	}
}

func TestHostileHandInsAreRefusedByName(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.open(t, "attempts: {max: 1}\n", classes.Opening{})
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"climbs_out", map[string]string{"total.py": "", "../x": ""}, `"../x"`},
		{"absolute", map[string]string{"total.py": "", "/etc/x": ""}, `"/etc/x"`},
		{"twins", map[string]string{"total.py": "", "TOTAL.py": ""}, "total.py"},
		{"bomb", map[string]string{"total.py": strings.Repeat("\x00", 40<<20)}, `"total.py"`},
		{"missing", map[string]string{"totl.py": ""}, "total.py"},
		{"empty", map[string]string{}, "there is no file in it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.HandIn(member(t, "ada"), classes.NewAttempt{Course: "c", Assignment: "lab1", Name: "work.zip", Archive: packed(t, tt.files)})
			wantKind(t, err, fault.Invalid)
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "/tmp") {
				t.Errorf("got %v, want %s in it and no path of this host", err, tt.want)
			}
		})
	}
	// None of them has cost the one attempt.
	a := must(s.HandIn(member(t, "ada"), classes.NewAttempt{
		Course: "c", Assignment: "lab1", Name: "work.zip", Archive: packed(t, map[string]string{"work/total.py": "open", "work/.DS_Store": "x"}),
	}))(t)
	if len(a.Notes) == 0 {
		t.Error("nothing is said of what was dropped")
	}
	files := must(s.Files(member(t, "ada"), "c", a.ID))(t)
	if len(files) != 1 || files[0].Name != "total.py" || string(files[0].Data) != "open" {
		t.Errorf("got %+v", files)
	}
}

func TestStudentsSeeWhatIsReleased(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.open(t, "", classes.Opening{})
	a := must(s.HandIn(member(t, "ada"), handIn("open")))(t)
	if _, woken := s.wakes.Load(classes.GradeJob); !woken {
		t.Error("nobody was woken")
	}
	if seen := must(s.Attempt(member(t, "ada"), "c", a.ID))(t); seen.Graded || seen.Grading.State != classes.Queued {
		t.Errorf("got %+v before it is graded", seen)
	}
	_, err := s.StudentGrade(member(t, "ada"), "c", a.ID)
	wantKind(t, err, fault.Conflict)
	s.work(t)
	seen := must(s.Attempt(member(t, "ada"), "c", a.ID))(t)
	if !seen.Graded || seen.Scored || seen.Grade != nil || !seen.Student.HiddenRemain || seen.Student.Score != nil || len(seen.Student.Tests) != 1 || seen.Grading.Node != "" {
		t.Errorf("a student sees %+v", seen)
	}
	book := must(s.Gradebook(member(t, "ada"), "c"))(t)
	if len(book.Rows) != 1 || !book.Rows[0].Marks[0].Hidden || book.Rows[0].Marks[0].Score.Sign() != 0 || book.Rows[0].Marks[0].Attempts != 1 || book.Points.Sign() != 0 {
		t.Errorf("a student's gradebook is %+v", book)
	}
	all := must(s.Attempt(member(t, "tea"), "c", a.ID))(t)
	if all.Grade == nil || all.Run.Score.String() != "4" || len(all.Grade.Tests) != 2 || all.Who != "Ada" {
		t.Errorf("a teacher sees %+v", all)
	}
	for _, who := range []string{"bo", "eve"} {
		_, err = s.Attempt(member(t, who), "c", a.ID)
		wantKind(t, err, fault.NotFound)
		_, err = s.Files(member(t, who), "c", a.ID)
		wantKind(t, err, fault.NotFound)
	}
	_, err = s.Attempt(staff(t), "elsewhere", a.ID)
	wantKind(t, err, fault.NotFound)
	if list := must(s.Attempts(member(t, "bo"), "c", classes.AttemptsQuery{Limit: 10}))(t); len(list) != 0 {
		t.Errorf("another student lists %+v", list)
	}
	if list := must(s.Attempts(member(t, "ada"), "c", classes.AttemptsQuery{Limit: 10}))(t); len(list) != 1 {
		t.Errorf("got %+v", list)
	}
	must(s.Adjust(staff(t), "c", "ada@example.org", class.Adjustment{Assignment: "lab1", Points: judge.IntScore(1), Note: class.Note{Reason: "well said"}}))(t)
	_, err = s.Adjust(member(t, "ada"), "c", "ada@example.org", class.Adjustment{Assignment: "lab1", Points: judge.IntScore(1), Note: class.Note{Reason: "please"}})
	wantKind(t, err, fault.Denied)
	must(s.Publish(staff(t), "c", "lab1"))(t)
	seen = must(s.Attempt(member(t, "ada"), "c", a.ID))(t)
	if !seen.Scored || seen.Run.Score.String() != "4" || len(seen.Student.Tests) != 2 {
		t.Errorf("after publishing a student sees %+v", seen)
	}
	book = must(s.Gradebook(member(t, "ada"), "c"))(t)
	if m := book.Rows[0].Marks[0]; m.Score.String() != "5" || book.Rows[0].Total.String() != "5" || book.Points.String() != "10" {
		t.Errorf("after publishing the gradebook is %+v", book)
	}
	if book := must(s.Gradebook(staff(t), "c"))(t); len(book.Rows) != 2 {
		t.Errorf("staff see %+v", book.Rows)
	}
	_, err = s.Gradebook(member(t, "eve"), "c")
	wantKind(t, err, fault.NotFound)
}

func TestAttemptsAreLimitedWhenTheyAreHandedIn(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.open(t, "attempts: {max: 2}\n", classes.Opening{})
	must(s.HandIn(member(t, "ada"), handIn("our failure")))(t)
	must(s.HandIn(member(t, "ada"), handIn("open")))(t)
	// Both wait: they count until it is known that we failed.
	_, err := s.HandIn(member(t, "ada"), handIn("secret"))
	wantKind(t, err, fault.Limited)
	if !strings.Contains(err.Error(), "all 2 attempts are used") {
		t.Errorf("the refusal is %v", err)
	}
	must(s.HandIn(member(t, "bo"), handIn("open")))(t)
	s.work(t)
	seen := must(s.Task(member(t, "ada"), "c", "lab1"))(t)
	if seen.Used != 1 || seen.Left != 1 || seen.Why != "" {
		t.Errorf("after our failure %d are used and %d left: %q", seen.Used, seen.Left, seen.Why)
	}
	must(s.HandIn(member(t, "ada"), handIn("open secret")))(t)
	s.work(t)
	book := must(s.Gradebook(staff(t), "c"))(t)
	if m := book.Rows[0].Marks[0]; m.Score.String() != "10" || m.Failed != 1 || m.Attempts != 2 {
		t.Errorf("the mark is %+v", m)
	}
	_, err = s.HandIn(member(t, "tea"), handIn("open"))
	wantKind(t, err, fault.Conflict)
	_, err = s.HandIn(member(t, "eve"), handIn("open"))
	wantKind(t, err, fault.NotFound)
	_, err = s.HandIn(staff(t), handIn("open"))
	wantKind(t, err, fault.Conflict)
	n := handIn("open")
	n.For = "bo@example.org"
	if a := must(s.HandIn(staff(t), n))(t); a.Login != "prof" {
		t.Errorf("got %+v", a)
	}
}

func TestWhoHandsInTooFastWaits(t *testing.T) {
	t.Parallel()
	s := setupWith(t, 2)
	s.open(t, "", classes.Opening{})
	must(s.HandIn(member(t, "ada"), handIn("open")))(t)
	must(s.HandIn(member(t, "ada"), handIn("open secret")))(t)
	_, err := s.HandIn(member(t, "ada"), handIn("secret"))
	wantKind(t, err, fault.Limited)
	if wait := fault.AfterOf(err); wait <= 0 || wait > time.Minute {
		t.Errorf("it says to wait for %s", wait)
	}
	must(s.HandIn(member(t, "bo"), handIn("open")))(t)
	for range 3 {
		n := handIn("open")
		n.For = "bo@example.org"
		must(s.HandIn(staff(t), n))(t)
	}
}

func TestOurFailureIsMarkedAsOurs(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.open(t, "", classes.Opening{})
	a := must(s.HandIn(member(t, "ada"), handIn("our failure")))(t)
	s.work(t)
	seen := must(s.Attempt(member(t, "ada"), "c", a.ID))(t)
	if !seen.OurFailure || seen.Scored || seen.Student.Message == "" || seen.Grading.Reason != "" {
		t.Errorf("a student sees %+v", seen)
	}
	all := must(s.Attempt(staff(t), "c", a.ID))(t)
	if !all.OurFailure || all.Scored || !strings.Contains(all.Grading.Reason, "the machine broke") {
		t.Errorf("staff see %+v", all)
	}
}

func TestLateAndClosed(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.open(t, "due: 2020-01-01T12:00\n", classes.Opening{})
	_, err := s.HandIn(member(t, "ada"), handIn("open"))
	wantKind(t, err, fault.Conflict)
	if !strings.Contains(err.Error(), "too late") {
		t.Errorf("the refusal is %v", err)
	}
	must(s.Extend(staff(t), "c", "ada@example.org", class.Extension{Assignment: "lab1", Due: local(t, "2090-01-01T12:00"), Note: class.Note{Reason: "ill"}}))(t)
	must(s.HandIn(member(t, "ada"), handIn("open")))(t)
	_, err = s.HandIn(member(t, "bo"), handIn("open"))
	wantKind(t, err, fault.Conflict)
	if seen := must(s.Task(member(t, "ada"), "c", "lab1"))(t); seen.Due.Year() != 2090 {
		t.Errorf("due %s", seen.Due)
	}
	must(s.Close(staff(t), "c", "lab1"))(t)
	_, err = s.HandIn(member(t, "ada"), handIn("open"))
	wantKind(t, err, fault.Conflict)
	must(s.Reopen(staff(t), "c", "lab1"))(t)
	must(s.ArchiveCourse(staff(t), "c", true))(t)
	_, err = s.HandIn(member(t, "ada"), handIn("open"))
	wantKind(t, err, fault.Conflict)
}

func local(t *testing.T, text string) course.LocalTime {
	t.Helper()
	return must(course.ParseLocalTime(text))(t)
}

func TestKeyIsOneAttempt(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.open(t, "attempts: {max: 1}\n", classes.Opening{})
	n := handIn("open")
	n.Idempotency = "key"
	first := must(s.HandIn(member(t, "ada"), n))(t)
	if again := must(s.HandIn(member(t, "ada"), n))(t); again.ID != first.ID {
		t.Errorf("the same key gave another attempt")
	}
	other := handIn("secret")
	other.Idempotency = "key"
	_, err := s.HandIn(member(t, "ada"), other)
	wantKind(t, err, fault.Conflict)
	other = n
	other.Assignment = "lab2"
	_, err = s.HandIn(member(t, "ada"), other)
	wantKind(t, err, fault.Conflict)
	// Whatever has changed since: it is the answer that may have been lost.
	must(s.Close(staff(t), "c", "lab1"))(t)
	must(s.ArchiveCourse(staff(t), "c", true))(t)
	if again := must(s.HandIn(member(t, "ada"), n))(t); again.ID != first.ID {
		t.Errorf("the same key gave %s when the course was archived", again.ID)
	}
}

func TestGroupsShareAttempts(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.open(t, "attempts: {max: 1}\n", classes.Opening{})
	must(s.SetGroups(staff(t), "c", "lab1", []class.GroupLine{{Who: "ada@example.org", Group: "red"}, {Who: "bo@example.org", Group: "red"}}))(t)
	a := must(s.HandIn(member(t, "ada"), handIn("open")))(t)
	_, err := s.HandIn(member(t, "bo"), handIn("secret"))
	wantKind(t, err, fault.Limited)
	s.work(t)
	if seen := must(s.Attempt(member(t, "bo"), "c", a.ID))(t); !seen.Graded || seen.Group != "red" {
		t.Errorf("got %+v", seen)
	}
	if list := must(s.Attempts(member(t, "bo"), "c", classes.AttemptsQuery{Limit: 5}))(t); len(list) != 1 {
		t.Errorf("got %+v", list)
	}
	if list := must(s.Attempts(staff(t), "c", classes.AttemptsQuery{Limit: 5, Who: "bo@example.org"}))(t); len(list) != 1 {
		t.Errorf("got %+v", list)
	}
}

func TestNamesAreHidden(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.open(t, "", classes.Opening{Anonymous: true})
	a := must(s.HandIn(member(t, "ada"), handIn("open")))(t)
	s.work(t)
	for _, seen := range append(must(s.Attempts(staff(t), "c", classes.AttemptsQuery{Limit: 5}))(t), must(s.Attempt(staff(t), "c", a.ID))(t)) {
		if seen.Who == "Ada" || seen.Login != "" || seen.User != "" || seen.Person != "" {
			t.Errorf("staff see %+v", seen)
		}
	}
	_, err := s.Attempts(staff(t), "c", classes.AttemptsQuery{Limit: 5, Who: "ada@example.org"})
	wantKind(t, err, fault.Denied)
	pseudonym := must(s.Attempt(staff(t), "c", a.ID))(t).Who
	if list := must(s.Attempts(staff(t), "c", classes.AttemptsQuery{Limit: 5, Who: pseudonym}))(t); len(list) != 1 {
		t.Errorf("got %+v", list)
	}
	if seen := must(s.Attempt(member(t, "ada"), "c", a.ID))(t); seen.Who != "Ada" {
		t.Errorf("the student is called %q", seen.Who)
	}
	var page bytes.Buffer
	if err := s.ClassPage(staff(t), &page, "c", "lab1", func(id string) string { return "/" + id }); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(page.String(), "Ada") || !strings.Contains(page.String(), pseudonym) {
		t.Error("the page of the class shows a name, or nobody")
	}
	must(s.Publish(staff(t), "c", "lab1"))(t)
	if seen := must(s.Attempt(staff(t), "c", a.ID))(t); seen.Who != "Ada" || seen.Login != "ada" {
		t.Errorf("got %+v after publishing", seen)
	}
}

func TestRegradeIsShownThenApplied(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.open(t, "", classes.Opening{})
	a := must(s.HandIn(member(t, "ada"), handIn("open")))(t)
	b := must(s.HandIn(member(t, "bo"), handIn("open secret")))(t)
	s.work(t)
	must(s.Publish(staff(t), "c", "lab1"))(t)
	mended := strings.Replace(task, "points: 4", "points: 9", 1)
	v := must(s.Upload(staff(t), "c", "lab1", packed(t, map[string]string{"assignment.yaml": mended, "solution/total.py": "open secret"})))(t)
	_, err := s.NewRegrade(staff(t), classes.NewRegrade{Course: "c", Assignment: "lab1", Version: v.Number, Reason: "too few points"})
	wantKind(t, err, fault.Conflict)
	s.work(t)
	for _, n := range []classes.NewRegrade{
		{Course: "c", Assignment: "lab1", Version: 2},
		{Course: "c", Assignment: "lab1", Version: 2, Reason: "x", Attempts: []string{"nothing"}},
		{Course: "c", Assignment: "lab1", Version: 7, Reason: "x"},
	} {
		if _, err := s.NewRegrade(staff(t), n); !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.NotFound) {
			t.Errorf("%+v: got %v", n, err)
		}
	}
	_, err = s.NewRegrade(member(t, "ada"), classes.NewRegrade{Course: "c", Assignment: "lab1", Reason: "x"})
	wantKind(t, err, fault.Denied)
	set := must(s.NewRegrade(staff(t), classes.NewRegrade{Course: "c", Assignment: "lab1", Version: 2, Reason: "too few points"}))(t)
	if got := must(s.Regrade(staff(t), "c", set.ID))(t); got.State != classes.RegradeRunning || got.Plan != nil || got.Total != 2 {
		t.Fatalf("got %+v", got)
	}
	_, err = s.ApplyRegrade(staff(t), "c", set.ID, "")
	wantKind(t, err, fault.Conflict)
	s.work(t)
	set = must(s.Regrade(staff(t), "c", set.ID))(t)
	if set.State != classes.RegradeReady || len(set.Plan.Marks) != 2 || set.Plan.Marks[0].After.String() != "9" {
		t.Fatalf("got %+v", set)
	}
	if m := must(s.Gradebook(staff(t), "c"))(t).Rows[0].Marks[0]; m.Score.String() != "4" {
		t.Fatalf("a mark has changed before the set is applied: %+v", m)
	}
	// Somebody changes a mark meanwhile: what was shown is not what would be done.
	must(s.Adjust(staff(t), "c", "bo@example.org", class.Adjustment{Assignment: "lab1", Points: judge.IntScore(-1), Note: class.Note{Reason: "late words"}}))(t)
	_, err = s.ApplyRegrade(staff(t), "c", set.ID, set.PlanDigest)
	wantKind(t, err, fault.Conflict)
	set = must(s.Regrade(staff(t), "c", set.ID))(t)
	done := must(s.ApplyRegrade(staff(t), "c", set.ID, set.PlanDigest))(t)
	if done.State != classes.RegradeApplied {
		t.Errorf("got %+v", done)
	}
	book := must(s.Gradebook(staff(t), "c"))(t)
	if x, y := book.Rows[0].Marks[0], book.Rows[1].Marks[0]; x.Score.String() != "9" || y.Score.String() != "14" || x.Outdated {
		t.Errorf("got %+v and %+v", x, y)
	}
	if seen := must(s.Attempt(member(t, "ada"), "c", a.ID))(t); seen.Run.Score.String() != "9" {
		t.Errorf("got %+v", seen)
	}
	_, events, err := s.History(staff(t), "c", "lab1", "ada@example.org")
	if err != nil {
		t.Fatal(err)
	}
	grades := 0
	for _, e := range events {
		if e.Kind == "grade" {
			grades++
		}
	}
	if grades != 2 {
		t.Errorf("the history has %d grades, want the old one and the new one", grades)
	}
	wait := must(s.NewRegrade(staff(t), classes.NewRegrade{Course: "c", Assignment: "lab1", Reason: "again", Attempts: []string{b.ID}}))(t)
	if got := must(s.CancelRegrade(staff(t), "c", wait.ID))(t); got.State != classes.RegradeCancelled || got.Total != 1 {
		t.Errorf("got %+v", got)
	}
	if list := must(s.Regrades(staff(t), "c", "", 10))(t); len(list) != 2 || list[0].ID != wait.ID {
		t.Errorf("got %+v", list)
	}
}

func TestFollowEndsWithTheGrade(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.open(t, "", classes.Opening{})
	a := must(s.HandIn(member(t, "ada"), handIn("open")))(t)
	var states []classes.State
	first := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- s.Follow(member(t, "ada"), "c", a.ID, func(seen classes.Seen) error {
			if len(states) == 0 {
				close(first)
			}
			states = append(states, seen.Grading.State)
			return nil
		})
	}()
	<-first
	s.work(t)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if states[0] != classes.Queued || states[len(states)-1] != classes.Done {
		t.Errorf("got %v", states)
	}
	if seen := must(s.Wait(member(t, "ada"), "c", a.ID, time.Minute))(t); !seen.Graded {
		t.Errorf("got %+v", seen)
	}
	if err := s.Follow(member(t, "bo"), "c", a.ID, nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("another one follows: %v", err)
	}
}

func TestExports(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.open(t, "", classes.Opening{})
	must(s.HandIn(member(t, "ada"), handIn("open secret")))(t)
	s.work(t)
	for _, tt := range []struct {
		name string
		form classes.Export
		only string
		fill string
		want string
	}{
		{"csv", classes.CSV, "", "", "ada@example.org"},
		{"moodle", classes.Moodle, "lab1", "", "ada@example.org"},
		{"canvas", classes.Canvas, "", "Student,ID,SIS User ID,SIS Login ID,Section,Total (1)\nAda,1,,ada@example.org,s,\n", "10"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data, _, err := s.Export(staff(t), "c", tt.form, tt.only, []byte(tt.fill))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(data), tt.want) {
				t.Errorf("got %s", data)
			}
		})
	}
	_, _, err := s.Export(member(t, "ada"), "c", classes.CSV, "", nil)
	wantKind(t, err, fault.Denied)
	_, _, err = s.Export(staff(t), "c", "xlsx", "", nil)
	wantKind(t, err, fault.Unsupported)
}

func TestSimilarityIsForStaff(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.open(t, "", classes.Opening{})
	program := "def total(numbers):\n    result = 0\n    for n in numbers:\n        if n > 0:\n            result += n * 2 - 1\n        else:\n            result -= n\n    return result\n\n\nprint(total([int(x) for x in input().split()]))\n"
	must(s.HandIn(member(t, "ada"), handIn(program)))(t)
	must(s.HandIn(member(t, "bo"), handIn(strings.ReplaceAll(program, "result", "sum"))))(t)
	got := must(s.Similarity(staff(t), "c", "lab1", 0.5))(t)
	if got.Compared != 2 {
		t.Errorf("got %+v", got)
	}
	_, err := s.Similarity(member(t, "ada"), "c", "lab1", 0.5)
	wantKind(t, err, fault.Denied)
}

func TestTokenWithoutTheScopeReachesNothing(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.open(t, "", classes.Opening{})
	ctx := account.WithActor(t.Context(), account.Actor{User: "u-ada", Name: "ada", Role: account.Member, Token: "t", Scopes: []account.Scope{account.ScopeJudge}})
	_, err := s.Courses(ctx, classes.CourseQuery{Limit: 1})
	wantKind(t, err, fault.Denied)
	_, err = s.HandIn(ctx, handIn("open"))
	wantKind(t, err, fault.Denied)
}
