package judging

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/judge"
)

// State is how far a run is.
type State string

// The states of a run.
const (
	Queued    State = "queued"
	Running   State = "running"
	Done      State = "done"
	Cancelled State = "cancelled"
)

// Submission is what one person submitted for one problem. It never changes,
// but for the run that counts.
type Submission struct {
	ID      string
	Problem string
	Version string
	// User is the ID of who submitted, Login what they are called.
	User, Login string
	Language    string
	Entry       string
	// Digest is over names and contents, Files the blob that holds them.
	Digest, Files string
	Labels        map[string]string
	Received      time.Time
	// Run is the one that counts.
	Run Run
	// Idempotency is the caller's key and IdempotencyBody the digest of what was
	// asked with it; "" is none.
	Idempotency, IdempotencyBody string
}

func (s Submission) thing() account.Thing {
	return account.Thing{Kind: account.SubmissionThing, ID: s.ID, Owner: s.User}
}

// Run is one judging of a submission.
type Run struct {
	ID         string
	Submission string
	Version    string
	State      State
	Verdict    judge.Verdict
	Reason     string
	FailedCase int
	Score      *judge.Score
	TimeUS     int64
	Memory     int64
	Node       string
	Tries      int
	// Rejudge is the set that it belongs to, or "".
	Rejudge string
	Created time.Time
	Ended   time.Time
	// Record is the blob of the judge.Record.
	Record string
	// Result is all of the run. It is there only where one run is asked for.
	Result *judge.Run
}

// NewSubmission is what somebody submits.
type NewSubmission struct {
	Problem string
	// Version is a version's digest; empty is the current one.
	Version         string
	Language, Entry string
	Files           []judge.SourceFile
	Labels          map[string]string
	// Idempotency is the caller's key, or "".
	Idempotency string
}

// maxLabels and maxLabel bound labels: how many, and the bytes of each.
const (
	maxLabels = 32
	maxLabel  = 200
)

// NewID makes an ID that nobody can guess.
func NewID() string { return strings.ToLower(rand.Text()) }

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Submit stores a submission with its run in the queue. When it returns, a
// verdict will follow. Kinds of error: Invalid for files that make no
// submission, NotFound for a problem or version, Denied, Conflict for a key that
// was used for something else.
func (s *Service) Submit(ctx context.Context, n NewSubmission) (Submission, error) {
	actor := account.ActorOf(ctx)
	if err := account.May(actor, account.Create, account.Thing{Kind: account.SubmissionThing}); err != nil {
		return Submission{}, err
	}
	asked := ""
	if n.Idempotency != "" {
		asked = n.digest()
		// Who asks again gets what came of the first time, whatever has changed since.
		made, err := s.store.SubmissionByKey(ctx, actor.User, n.Idempotency)
		if err == nil {
			return s.again(ctx, made, asked)
		}
		if !fault.Is(err, fault.NotFound) {
			return Submission{}, err
		}
	}
	p, err := s.problem(ctx, n.Problem, account.Use)
	if err != nil {
		return Submission{}, err
	}
	version := p.Current
	if n.Version != "" && n.Version != version.Digest {
		if err := account.May(actor, account.ReadHidden, p.thing()); err != nil {
			return Submission{}, err
		}
		if version, err = s.store.Version(ctx, p.ID, n.Version); err != nil {
			return Submission{}, err
		}
	}
	language, err := s.language(n, version)
	if err != nil {
		return Submission{}, err
	}
	if err := s.hold(ctx, actor, p); err != nil {
		return Submission{}, err
	}
	src := judge.Submission{Name: n.Files[0].Name, Language: language.ID, Entry: n.Entry, Files: n.Files}
	files, err := json.Marshal(src.Files)
	if err != nil {
		return Submission{}, fmt.Errorf("keep submission: %w", err)
	}
	sub := Submission{
		ID: NewID(), Problem: p.ID, Version: version.Digest, User: actor.User, Login: actor.Name, Language: language.ID, Entry: n.Entry,
		Digest: src.Digest(), Labels: n.Labels, Received: now(), Idempotency: n.Idempotency, IdempotencyBody: asked,
	}
	if sub.Files, _, err = s.blobs.Put(ctx, bytes.NewReader(files), int64(len(files))); err != nil {
		return Submission{}, err
	}
	sub.Run = Run{ID: NewID(), Submission: sub.ID, Version: sub.Version, State: Queued, Created: sub.Received}
	kept, err := s.store.AddSubmission(ctx, sub)
	if err != nil {
		return Submission{}, err
	}
	if kept.ID != sub.ID {
		return s.again(ctx, kept, asked)
	}
	s.queue.Wake(JobKind)
	return kept, nil
}

// again gives what was made with a key, if the same is asked with it.
func (s *Service) again(ctx context.Context, made Submission, asked string) (Submission, error) {
	if made.IdempotencyBody != asked {
		return Submission{}, fault.Errorf(fault.Conflict, "the idempotency key was used for another submission").WithHint("use a new key for each submission")
	}
	return s.store.Submission(ctx, made.ID)
}

// hold refuses who has sent too much in the last minute. Requests side by side
// may pass together: it keeps the queue fair, and is no wall.
func (s *Service) hold(ctx context.Context, actor account.Actor, p Problem) error {
	if s.perMinute == 0 || account.May(actor, account.Change, p.thing()) == nil {
		return nil
	}
	last, err := s.store.Submissions(ctx, SubmissionQuery{User: actor.User, Limit: s.perMinute})
	if err != nil || len(last) < s.perMinute {
		return err
	}
	if wait := time.Until(last[len(last)-1].Received.Add(time.Minute)); wait > 0 {
		return fault.Errorf(fault.Limited, "you have sent %d submissions within a minute", s.perMinute).WithHint("wait a moment").TryAfter(wait)
	}
	return nil
}

// digest is the same for the same request.
func (n NewSubmission) digest() string {
	n.Idempotency = ""
	b, err := json.Marshal(n)
	if err != nil {
		// Strings and bytes always can be written.
		panic(err)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(b))
}

// language checks what is submitted, as far as that needs no machine, and finds
// its language.
func (s *Service) language(n NewSubmission, v Version) (judge.Language, error) {
	if len(n.Files) == 0 || len(n.Files) > judge.MaxSourceFiles {
		return judge.Language{}, fault.Errorf(fault.Invalid, "%d files: 1 to %d make a submission", len(n.Files), judge.MaxSourceFiles)
	}
	size := 0
	for _, f := range n.Files {
		if !goodName(f.Name) {
			return judge.Language{}, fault.Errorf(fault.Invalid, "file name %.100q", f.Name).WithHint("names have 1 to %d bytes of text, and no folders", maxFileName)
		}
		size += len(f.Data)
	}
	if size > maxSource {
		return judge.Language{}, fault.Errorf(fault.Invalid, "the files have %d bytes together, %d are allowed", size, maxSource)
	}
	if len(n.Labels) > maxLabels {
		return judge.Language{}, fault.Errorf(fault.Invalid, "%d labels, %d are allowed", len(n.Labels), maxLabels)
	}
	for k, value := range n.Labels {
		if len(k) > maxLabel || len(value) > maxLabel {
			return judge.Language{}, fault.Errorf(fault.Invalid, "label %.40q: at most %d bytes", k, maxLabel)
		}
	}
	var l judge.Language
	var err error
	if n.Language != "" {
		l, err = s.languages.ByID(n.Language)
	} else {
		l, err = s.languages.Detect(n.Files)
	}
	if err != nil {
		return l, err
	}
	if len(v.Languages) > 0 && !contains(v.Languages, l.ID) {
		return l, fault.Errorf(fault.Invalid, "problem %s does not take %s", v.Problem, l.Name).WithHint("it takes %s", strings.Join(v.Languages, ", "))
	}
	return l, nil
}

// maxFileName bounds a file's name, in bytes.
const maxFileName = 200

func goodName(name string) bool {
	strange := func(r rune) bool { return r == '/' || r == '\\' || !unicode.IsPrint(r) }
	return name != "" && name != "." && name != ".." && len(name) <= maxFileName && utf8.ValidString(name) && !strings.ContainsFunc(name, strange)
}

// maxSource bounds the files of a submission together, in bytes; the problem's
// own limit, which is usually less, is the judge's to keep.
const maxSource = 4 << 20

func contains(list []string, s string) bool {
	for _, have := range list {
		if have == s {
			return true
		}
	}
	return false
}

// Submission gives a submission, with all of its run, that the actor may see.
func (s *Service) Submission(ctx context.Context, id string) (Submission, error) {
	sub, err := s.submission(ctx, id, account.Read)
	if err != nil {
		return sub, err
	}
	return s.seen(account.ActorOf(ctx), sub), nil
}

func (s *Service) submission(ctx context.Context, id string, do account.Action) (Submission, error) {
	actor := account.ActorOf(ctx)
	if err := account.May(actor, account.List, account.Thing{Kind: account.SubmissionThing}); err != nil {
		return Submission{}, err
	}
	sub, err := s.store.Submission(ctx, id)
	if err != nil {
		return Submission{}, err
	}
	return sub, account.May(actor, do, sub.thing())
}

// seen takes out what is for staff.
func (s *Service) seen(actor account.Actor, sub Submission) Submission {
	if account.May(actor, account.ReadHidden, sub.thing()) == nil {
		return sub
	}
	sub.Run.Node, sub.Run.Record = "", ""
	if sub.Run.Result != nil {
		r := sub.Run.Result.ForContestant()
		sub.Run.Result, sub.Run.Reason = &r, r.Reason
	} else if sub.Run.Verdict != judge.CompileError {
		sub.Run.Reason = ""
	}
	return sub
}

// Submissions are those that the actor may see, newest first. Members see their
// own.
func (s *Service) Submissions(ctx context.Context, q SubmissionQuery) ([]Submission, error) {
	actor := account.ActorOf(ctx)
	if err := account.May(actor, account.List, account.Thing{Kind: account.SubmissionThing}); err != nil {
		return nil, err
	}
	if account.May(actor, account.Read, account.Thing{Kind: account.SubmissionThing}) != nil {
		if q.User != "" && q.User != actor.User {
			return nil, nil
		}
		q.User = actor.User
	}
	list, err := s.store.Submissions(ctx, q)
	for i := range list {
		list[i] = s.seen(actor, list[i])
	}
	return list, err
}

// Files are those that were submitted.
func (s *Service) Files(ctx context.Context, id string) ([]judge.SourceFile, error) {
	sub, err := s.submission(ctx, id, account.Read)
	if err != nil {
		return nil, err
	}
	return s.files(ctx, sub)
}

func (s *Service) files(ctx context.Context, sub Submission) (files []judge.SourceFile, err error) {
	r, err := s.blobs.Open(ctx, sub.Files)
	if err != nil {
		return nil, fmt.Errorf("files of submission %s: %w", sub.ID, err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("files of submission %s: %w", sub.ID, err)
	}
	if err := json.Unmarshal(data, &files); err != nil {
		return nil, fmt.Errorf("files of submission %s: %w", sub.ID, err)
	}
	return files, nil
}

// Runs are all runs of a submission, oldest first; for staff.
func (s *Service) Runs(ctx context.Context, id string) ([]Run, error) {
	if _, err := s.submission(ctx, id, account.ReadHidden); err != nil {
		return nil, err
	}
	return s.store.Runs(ctx, id)
}

// Record gives the record of a run, as judge.ReadRecord reads it; for staff. The
// caller closes it.
func (s *Service) Record(ctx context.Context, run string) (io.ReadCloser, error) {
	if err := account.May(account.ActorOf(ctx), account.List, account.Thing{Kind: account.SubmissionThing}); err != nil {
		return nil, err
	}
	r, err := s.store.Run(ctx, run)
	if err != nil {
		return nil, err
	}
	if _, err := s.submission(ctx, r.Submission, account.ReadHidden); err != nil {
		return nil, err
	}
	if r.Record == "" {
		return nil, fault.Errorf(fault.Conflict, "run %s has no record: it is %s", run, r.State)
	}
	return s.blobs.Open(ctx, r.Record)
}

// Page is where the page after this submission begins.
func (s Submission) Page() string { return pageKey(s.Received, s.ID) }

// Page is where the page after this set begins.
func (r Rejudge) Page() string { return pageKey(r.Created, r.ID) }

func pageKey(t time.Time, id string) string { return fmt.Sprintf("%d %s", t.UnixMicro(), id) }

// ParsePage reads a Page; "" is the beginning, which is after all.
func ParsePage(page string) (t time.Time, id string, err error) {
	if page == "" {
		return time.UnixMicro(1 << 62), "", nil
	}
	var micros int64
	if n, err := fmt.Sscanf(page, "%d %s", &micros, &id); err != nil || n != 2 {
		return t, "", fault.Errorf(fault.Invalid, "cursor: not one that this server gave")
	}
	return time.UnixMicro(micros), id, nil
}
