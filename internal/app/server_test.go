package app

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/client"
	"assay/internal/account"
)

// contest is a server with the problem "sum" and people of all roles.
type contest struct {
	*rig
	dir               string
	staff, alice, bob *client.ClientWithResponses
}

// TestServer has people use a server with machines, on all stores.
func TestServer(t *testing.T) {
	onAllStores(t, func(t *testing.T, b *backing) {
		dir := testData(t)
		r := start(t, dir, b.config())
		c := &contest{
			rig: r, dir: dir, staff: r.as(t, "staff", account.Staff), alice: r.as(t, "alice", account.Member), bob: r.as(t, "bob", account.Member),
		}
		upload(t, c.staff, "sum", sum(t, secretAnswer))
		for _, tt := range []struct {
			name string
			run  func(t *testing.T, c *contest)
		}{
			{"SubmissionsGetVerdicts", submissionsGetVerdicts},
			{"EventsAreLive", eventsAreLive},
			{"SameKeyIsOneSubmission", sameKeyIsOneSubmission},
			{"MembersSeeTheirOwn", membersSeeTheirOwn},
			{"RejudgeShowsBeforeItChanges", rejudgeShowsBeforeItChanges},
			{"BadPackagesLeaveNothing", badPackagesLeaveNothing},
			{"BadSubmissionsLeaveNothing", badSubmissionsLeaveNothing},
		} {
			t.Run(tt.name, func(t *testing.T) { tt.run(t, c) })
		}
	})
}

func submissionsGetVerdicts(t *testing.T, c *contest) {
	want := map[string]client.Verdict{}
	for program, v := range map[string]client.Verdict{rightSum: "AC", wrongSum: "WA", "print(": "CE", "raise SystemExit(3)\n": "RE"} {
		want[submit(t, c.alice, program).ID] = v
	}
	for id, v := range want {
		if got := verdict(t, c.alice, id).Run; got.Verdict != v {
			t.Errorf("got %s (%s), want %s", got.Verdict, got.Reason, v)
		}
	}
}

func eventsAreLive(t *testing.T, c *contest) {
	sub := submit(t, c.alice, slowSum)
	resp, err := c.alice.FollowSubmission(t.Context(), sub.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("%d, content type %q", resp.StatusCode, got)
	}
	progress := 0
	var last client.Submission
	for e, err := range client.Events(resp.Body) {
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Name == "progress":
			progress++
		default:
			if err := json.Unmarshal(e.Data, &last); err != nil {
				t.Fatal(err)
			}
		}
	}
	if progress == 0 {
		t.Error("no case was shown while it was judged")
	}
	if last.Run.State != client.RunStateDone || last.Run.Verdict != "AC" {
		t.Errorf("the stream ended with %+v", last.Run)
	}
}

func sameKeyIsOneSubmission(t *testing.T, c *contest) {
	send := func(who *client.ClientWithResponses, program string) (*client.SubmitResponse, *client.Failure) {
		r, err := who.SubmitWithResponse(t.Context(), &client.SubmitParams{IdempotencyKey: "k1"}, python("sum", program))
		if err != nil {
			t.Fatal(err)
		}
		return r, failure(t, r, r.HTTPResponse, err)
	}
	first, f := send(c.alice, rightSum)
	if f != nil {
		t.Fatal(f)
	}
	if again, f := send(c.alice, rightSum); f != nil || again.JSON201.ID != first.JSON201.ID {
		t.Errorf("the same again is %s, %v, want %s", again.Body, f, first.JSON201.ID)
	}
	if _, f := send(c.alice, wrongSum); f == nil || f.Status != 409 && f.Status != 422 || f.Hint == "" {
		t.Errorf("the key for something else: %+v", f)
	}
	if other, f := send(c.bob, rightSum); f != nil || other.JSON201.ID == first.JSON201.ID {
		t.Errorf("somebody else's key: %s, %v", other.Body, f)
	}
	verdict(t, c.alice, first.JSON201.ID)
	runs, err := c.staff.ListRunsWithResponse(t.Context(), first.JSON201.ID)
	must(t, runs, err)
	if n := len(runs.JSON200.Items); n != 1 {
		t.Errorf("it has %d runs", n)
	}
}

func membersSeeTheirOwn(t *testing.T, c *contest) {
	sub := submit(t, c.alice, wrongSum)
	verdict(t, c.alice, sub.ID)
	staffSees, err := c.staff.GetSubmissionWithResponse(t.Context(), sub.ID, nil)
	must(t, staffSees, err)
	if staffSees.JSON200.Run.Node == "" {
		t.Error("staff do not see where it was judged: the check sees nothing")
	}
	record, err := c.staff.GetRunRecordWithResponse(t.Context(), sub.Run.ID)
	must(t, record, err)
	if !json.Valid(record.Body) {
		t.Errorf("the record is %.100s", record.Body)
	}
	own, err := c.alice.GetSubmissionWithResponse(t.Context(), sub.ID, nil)
	must(t, own, err)
	if strings.Contains(string(own.Body), secretAnswer) || own.JSON200.Run.Node != "" {
		t.Errorf("a contestant sees what is hidden: %s", own.Body)
	}
	for name, who := range map[string]*client.ClientWithResponses{"the contestant": c.alice, "another one": c.bob} {
		runs, err := who.ListRunsWithResponse(t.Context(), sub.ID)
		wantRefused(t, name+" lists runs", failure(t, runs, runs.HTTPResponse, err))
		rec, err := who.GetRunRecordWithResponse(t.Context(), sub.Run.ID)
		wantRefused(t, name+" reads the record", failure(t, rec, rec.HTTPResponse, err))
	}
	one, err := c.bob.GetSubmissionWithResponse(t.Context(), sub.ID, nil)
	wantRefused(t, "another one reads it", failure(t, one, one.HTTPResponse, err))
	files, err := c.bob.GetSubmissionFilesWithResponse(t.Context(), sub.ID)
	wantRefused(t, "another one reads its files", failure(t, files, files.HTTPResponse, err))
	list, err := c.bob.ListSubmissionsWithResponse(t.Context(), &client.ListSubmissionsParams{})
	must(t, list, err)
	for _, s := range list.JSON200.Items {
		if s.User != "bob" {
			t.Errorf("bob's list has a submission of %s", s.User)
		}
	}
}

// wantRefused wants an answer that does not say whether the thing is there.
func wantRefused(t *testing.T, what string, f *client.Failure) {
	t.Helper()
	if f == nil || f.Status != 403 && f.Status != 404 || f.Code == "" || f.RequestID == "" {
		t.Errorf("%s: got %+v, want it to be refused", what, f)
	}
}

func rejudgeShowsBeforeItChanges(t *testing.T, c *contest) {
	upload(t, c.staff, "moved", sum(t, secretAnswer))
	send := func(program string) string {
		r, err := c.alice.SubmitWithResponse(t.Context(), &client.SubmitParams{}, python("moved", program))
		must(t, r, err)
		return r.JSON201.ID
	}
	right, wrong := send(rightSum), send(wrongSum)
	verdict(t, c.alice, right)
	verdict(t, c.alice, wrong)
	// The new tests want what the wrong program prints.
	upload(t, c.staff, "moved", sum(t, "3"))
	made, err := c.staff.CreateRejudgeWithResponse(t.Context(), client.NewRejudge{Problem: "moved", Reason: "the answer was wrong"})
	must(t, made, err)
	var set client.Rejudge
	eventually(t, "the set is ready", func() bool {
		r, err := c.staff.GetRejudgeWithResponse(t.Context(), made.JSON201.ID)
		must(t, r, err)
		set = *r.JSON200
		return set.State == client.RejudgeStateReady
	})
	got := map[string][]client.Verdict{}
	for _, change := range set.Changes {
		got[change.Submission] = []client.Verdict{change.Before.Verdict, change.After.Verdict}
	}
	if diff := cmp.Diff(map[string][]client.Verdict{right: {"AC", "WA"}, wrong: {"WA", "AC"}}, got); diff != "" {
		t.Errorf("the preview: %s", diff)
	}
	now := func() []client.Verdict {
		return []client.Verdict{verdict(t, c.alice, right).Run.Verdict, verdict(t, c.alice, wrong).Run.Verdict}
	}
	if v := now(); !slices.Equal(v, []client.Verdict{"AC", "WA"}) {
		t.Errorf("before it is applied the verdicts are %v", v)
	}
	refused, err := c.alice.ApplyRejudgeWithResponse(t.Context(), set.ID)
	wantRefused(t, "a contestant applies it", failure(t, refused, refused.HTTPResponse, err))
	applied, err := c.staff.ApplyRejudgeWithResponse(t.Context(), set.ID)
	must(t, applied, err)
	if v := now(); !slices.Equal(v, []client.Verdict{"WA", "AC"}) {
		t.Errorf("after it was applied the verdicts are %v", v)
	}
	twice, err := c.staff.ApplyRejudgeWithResponse(t.Context(), set.ID)
	if f := failure(t, twice, twice.HTTPResponse, err); f == nil || f.Status != 409 {
		t.Errorf("applied twice: %+v", f)
	}
}

// kept are the blobs and the packages in use that a server has.
func (c *contest) kept(t *testing.T) (list []string) {
	t.Helper()
	blobs, err := c.blobs.List(t.Context(), "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blobs {
		list = append(list, b.Digest)
	}
	return append(list, filesBelow(t, filepath.Join(c.dir, "packages"))...)
}

func badPackagesLeaveNothing(t *testing.T, c *contest) {
	before := c.kept(t)
	for name, pkg := range map[string][]byte{
		"empty":         {},
		"no_zip":        []byte("PK but no zip"),
		"cut":           sum(t, secretAnswer)[:300],
		"outside":       pack(t, map[string]string{"../problem.yaml": "name: X\n"}),
		"no_problem":    pack(t, map[string]string{"readme.txt": "hello"}),
		"broken_yaml":   pack(t, map[string]string{"problem.yaml": "name: [\n", "data/secret/1.in": "1\n", "data/secret/1.ans": "1\n"}),
		"no_time_limit": pack(t, map[string]string{"problem.yaml": "name: X\n", "data/secret/1.in": "1\n", "data/secret/1.ans": "1\n"}),
	} {
		r, err := c.staff.UploadProblemWithBodyWithResponse(t.Context(), "bad", "application/zip", bytes.NewReader(pkg))
		if f := failure(t, r, r.HTTPResponse, err); f == nil || f.Status < 400 || f.Status > 499 || f.Code == "" || strings.Contains(f.Text, c.dir) {
			t.Errorf("%s: got %+v, want a plain refusal", name, f)
		}
	}
	r, err := c.staff.GetProblemWithResponse(t.Context(), "bad")
	if f := failure(t, r, r.HTTPResponse, err); f == nil || f.Status != 404 {
		t.Errorf("the problem: %+v", f)
	}
	if diff := cmp.Diff(before, c.kept(t)); diff != "" {
		t.Errorf("they left something: %s", diff)
	}
}

func badSubmissionsLeaveNothing(t *testing.T, c *contest) {
	before := c.kept(t)
	file := func(name, text string) []client.SourceFile { return []client.SourceFile{{Name: name, Text: text}} }
	for name, n := range map[string]client.NewSubmission{
		"no_problem":  python("nothing", rightSum),
		"no_files":    {Problem: "sum", Files: []client.SourceFile{}},
		"outside":     {Problem: "sum", Language: "python3", Files: file("../a.py", rightSum)},
		"language":    {Problem: "sum", Language: "cobol", Files: file("a.cob", "x")},
		"large":       {Problem: "sum", Language: "python3", Files: file("a.py", strings.Repeat("#", 5<<20))},
		"old_version": {Problem: "sum", Version: "sha256:" + strings.Repeat("0", 64), Language: "python3", Files: file("a.py", rightSum)},
	} {
		r, err := c.alice.SubmitWithResponse(t.Context(), &client.SubmitParams{}, n)
		if f := failure(t, r, r.HTTPResponse, err); f == nil || f.Status < 400 || f.Status > 499 || f.Code == "" {
			t.Errorf("%s: got %+v, want a plain refusal", name, f)
		}
	}
	if diff := cmp.Diff(before, c.kept(t)); diff != "" {
		t.Errorf("they left something: %s", diff)
	}
}
