package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"assay/client"
	"assay/internal/account"
	"assay/internal/blob/blobtest"
	"assay/internal/bus/bustest"
	"assay/internal/judging"
	"assay/internal/require"
	"assay/internal/sqlstore/sqltest"
	"assay/internal/testgate"
	"assay/internal/work"
)

// outage is how long things are gone: ASSAY_TEST_OUTAGE, or longer than a lease.
func outage(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("ASSAY_TEST_OUTAGE")
	if text == "" {
		return 5 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("ASSAY_TEST_OUTAGE: %v", err)
	}
	return d
}

// outageRig is a server that something is taken away from while it judges.
type outageRig struct {
	*rig
	alice, staff *client.ClientWithResponses
	waiting      []client.Submission
}

// startOutage has a server judge some submissions.
func startOutage(t *testing.T, dir string, b *backing) *outageRig {
	t.Helper()
	c := b.config()
	c.Lease = 3 * time.Second
	r := start(t, dir, c)
	o := &outageRig{rig: r, alice: r.as(t, "alice", account.Member), staff: r.as(t, "staff", account.Staff)}
	upload(t, o.staff, "sum", sum(t, secretAnswer))
	if v := verdict(t, o.alice, submit(t, o.alice, rightSum).ID).Run.Verdict; v != "AC" {
		t.Fatalf("the first submission is %s", v)
	}
	for range 5 {
		o.waiting = append(o.waiting, submit(t, o.alice, slowSum))
	}
	eventually(t, "they are judged", func() bool { return states(t, o.db.Work())[work.Running] > 0 })
	return o
}

// trySubmit submits once, with a key.
func (o *outageRig) trySubmit(t *testing.T, key string) (*client.Submission, *client.Failure) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	r, err := o.alice.SubmitWithResponse(ctx, &client.SubmitParams{IdempotencyKey: key}, python("sum", rightSum))
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	return r.JSON201, failure(t, r, r.HTTPResponse, err)
}

// wantUnavailable wants an answer that says to come back.
func wantUnavailable(t *testing.T, what string, f *client.Failure) {
	t.Helper()
	if f == nil || f.Status != 503 || f.After <= 0 || f.Code == "" || f.Hint == "" || f.RequestID == "" {
		t.Errorf("%s: got %+v, want 503 with a code, a hint and Retry-After", what, f)
		return
	}
	for _, inside := range []string{"127.0.0.1", "postgres", "/tmp"} {
		if strings.Contains(f.Text, inside) {
			t.Errorf("%s: %q tells how the server is made", what, f.Text)
		}
	}
}

// wantNotReady wants GET /readyz to name the part that is missing, and no other.
func (o *outageRig) wantNotReady(t *testing.T, part string) {
	t.Helper()
	eventually(t, "/readyz says that something is missing: "+part, func() bool {
		status, text := ready(t, o.base)
		return status == 503 && strings.Contains(text, part+": ")
	})
	_, text := ready(t, o.base)
	for _, other := range []string{"database", "events", "blobs", "disk"} {
		if other != part && strings.Contains(text, other+": ") {
			t.Errorf("/readyz says %q, but only %s is missing", text, part)
		}
	}
}

// wantRecovered wants all to work again by itself, and each submission to have
// one run with its verdict.
func (o *outageRig) wantRecovered(t *testing.T, more ...client.Submission) {
	t.Helper()
	eventually(t, "/readyz says that all is well", func() bool {
		status, _ := ready(t, o.base)
		return status == 200
	})
	for _, sub := range append(append(o.waiting, more...), submit(t, o.alice, slowSum)) {
		if got := verdict(t, o.alice, sub.ID).Run; got.Verdict != "AC" {
			t.Errorf("submission %s is %s (%s) at try %d", sub.ID, got.Verdict, got.Reason, got.Tries)
		}
		runs, err := o.db.Judging().Runs(t.Context(), sub.ID)
		if err != nil || len(runs) != 1 {
			t.Errorf("submission %s has %d runs, %v", sub.ID, len(runs), err)
		}
	}
	eventually(t, "nothing waits", func() bool {
		got := states(t, o.db.Work())
		return got[work.Queued]+got[work.Running] == 0
	})
	if got := states(t, o.db.Work()); got[work.Failed] != 0 {
		t.Errorf("jobs are %v", got)
	}
}

// kept says how many submissions there are.
func (o *outageRig) kept(t *testing.T) int {
	t.Helper()
	list, err := o.db.Judging().Submissions(t.Context(), judging.SubmissionQuery{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestDatabaseGone(t *testing.T) {
	t.Parallel()
	d := sqltest.Postgres(t)
	gate := testgate.New(t, "unix", d.Socket())
	o := startOutage(t, testData(t), &backing{d.Through(gate.Address()), bustest.NATS(t), blobtest.S3(t)})
	before := o.kept(t)
	gate.Shut()
	begin := time.Now()
	for time.Since(begin) < outage(t) {
		sub, f := o.trySubmit(t, "in the outage")
		if sub != nil {
			t.Fatalf("a submission was accepted without a database: %+v", sub)
		}
		wantUnavailable(t, "submit", f)
		<-time.After(200 * time.Millisecond)
	}
	o.wantNotReady(t, "database")
	gate.Open(t)
	var late *client.Submission
	eventually(t, "submissions are accepted again", func() bool {
		late, _ = o.trySubmit(t, "in the outage")
		return late != nil
	})
	t.Logf("accepted again %s after the outage of %s", time.Since(begin).Round(time.Millisecond)-outage(t), outage(t))
	o.wantRecovered(t, *late)
	if n := o.kept(t); n != before+2 {
		t.Errorf("%d submissions are kept, want %d", n, before+2)
	}
}

// TestEventsGone: rows are the truth, so a server without events goes on.
func TestEventsGone(t *testing.T) {
	t.Parallel()
	b := elsewhere(t)
	o := startOutage(t, testData(t), b)
	b.nats.Stop()
	begin := time.Now()
	o.wantNotReady(t, "events")
	// Nobody is told, but all is judged and a stream shows it.
	sub, f := o.trySubmit(t, "without events")
	if f != nil {
		t.Fatal(f)
	}
	if got := o.followed(t, sub.ID); got.Verdict != "AC" {
		t.Errorf("without events the stream ended with %+v", got)
	}
	<-time.After(outage(t) - time.Since(begin))
	b.nats.Start(t, true)
	o.wantRecovered(t, *sub)
}

// followed follows a submission to its end.
func (o *outageRig) followed(t *testing.T, id string) client.Run {
	t.Helper()
	r, err := o.alice.FollowSubmissionWithResponse(t.Context(), id)
	must(t, r, err)
	var last client.Run
	for e, err := range client.Events(bytes.NewReader(r.Body)) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Name == "submission" {
			var sub client.Submission
			if err := json.Unmarshal(e.Data, &sub); err != nil {
				t.Fatal(err)
			}
			last = sub.Run
		}
	}
	return last
}

func TestBlobsGone(t *testing.T) {
	t.Parallel()
	b := elsewhere(t)
	u, err := url.Parse(b.s3.URL)
	if err != nil {
		t.Fatal(err)
	}
	gate := testgate.New(t, "tcp", u.Host)
	u.Host = gate.Address()
	c := *b
	c.s3 = &blobtest.Server{URL: u.String()}
	o := startOutage(t, testData(t), &c)
	before := o.kept(t)
	gate.Shut()
	begin := time.Now()
	o.wantNotReady(t, "blobs")
	for time.Since(begin) < outage(t) {
		sub, f := o.trySubmit(t, "in the outage")
		if sub != nil {
			t.Fatalf("a submission was accepted without its files: %+v", sub)
		}
		wantUnavailable(t, "submit", f)
	}
	gate.Open(t)
	o.wantRecovered(t)
	if n := o.kept(t); n != before+1 {
		t.Errorf("%d submissions are kept, want %d", n, before+1)
	}
}

// TestDiskFull fills the disk of the data directory, and makes room again.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	onAllStores(t, diskFull)
}

func diskFull(t *testing.T, b *backing) {
	templates := filepath.Join(testData(t), "templates")
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1g"); err != nil {
		require.Thing(t, "mount", false, "this root may not mount: "+err.Error())
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	if err := os.Symlink(templates, filepath.Join(dir, "templates")); err != nil {
		t.Fatal(err)
	}
	o := startOutage(t, dir, b)
	before := o.kept(t)
	ballast := filepath.Join(dir, "ballast")
	fill(t, ballast)
	begin := time.Now()
	o.wantNotReady(t, "disk")
	accepted, refused := 0, 0
	for i := 0; time.Since(begin) < outage(t); i++ {
		<-time.After(300 * time.Millisecond)
		fill(t, ballast) // whatever was freed meanwhile
		if sub, f := o.trySubmit(t, fmt.Sprint("full ", i)); sub == nil {
			refused++
			wantUnavailable(t, "submit", f)
		} else if accepted++; accepted <= 10 {
			o.waiting = append(o.waiting, *sub)
		}
		r, err := o.staff.UploadProblemWithBodyWithResponse(t.Context(), "large", "application/zip", bytes.NewReader(large(t)))
		if err != nil {
			t.Fatal(err)
		}
		wantUnavailable(t, "upload", failure(t, r, r.HTTPResponse, err))
	}
	// Rows and files that are elsewhere have room.
	if b.shared() != (refused == 0) {
		t.Errorf("%d submissions were accepted and %d refused", accepted, refused)
	}
	if n := o.kept(t); n != before+accepted {
		t.Errorf("%d submissions are kept, want %d and %d that were accepted", n, before, accepted)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	o.wantRecovered(t)
	for _, folder := range []string{"blobs/tmp", "packages"} {
		if folder == "blobs/tmp" && b.shared() {
			continue
		}
		for _, f := range filesBelow(t, filepath.Join(dir, folder)) {
			if folder == "blobs/tmp" || strings.Contains(f, ".part") {
				t.Errorf("half-written: %s%s", folder, f)
			}
		}
	}
	r, err := o.staff.GetProblemWithResponse(t.Context(), "large")
	if f := failure(t, r, r.HTTPResponse, err); f == nil || f.Status != 404 {
		t.Errorf("the problem that did not fit: %+v", f)
	}
	// Events are live again too.
	eventually(t, "progress is shown", func() bool {
		f, err := o.alice.FollowSubmissionWithResponse(t.Context(), submit(t, o.alice, slowSum).ID)
		must(t, f, err)
		return bytes.Contains(f.Body, []byte("event: progress"))
	})
}

// fill writes to the end of a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	chunk := make([]byte, 1<<20)
	for len(chunk) > 0 {
		if _, err := f.Write(chunk); err != nil {
			chunk = chunk[:len(chunk)/2]
		}
	}
}

// large is a package that does not compress.
func large(t *testing.T) []byte {
	t.Helper()
	var b strings.Builder
	if _, err := io.CopyN(&b, rand.NewChaCha8([32]byte{}), 1<<20); err != nil {
		t.Fatal(err)
	}
	return pack(t, map[string]string{
		"problem.yaml": "name: Large\n", ".timelimit": "1\n", "data/secret/1.in": b.String(), "data/secret/1.ans": "1\n",
	})
}
