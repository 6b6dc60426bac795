package app

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"assay/client"
	"assay/internal/account"
	"assay/internal/judge"
	"assay/internal/judging"
	"assay/internal/require"
	"assay/internal/sqlstore"
	"assay/internal/work"
)

// lostSubmissions is how many submissions are posted unless ASSAY_TEST_LOST_N
// says otherwise; lostPause is between two of them, but all are posted within
// lostWithin.
const (
	lostSubmissions = 60
	lostPause       = 150 * time.Millisecond
	lostWithin      = 20 * time.Second
	lostKills       = 3
)

// TestNothingIsLost has many people submit while the server is killed again and
// again, and, where several nodes share the work, another node is killed too.
func TestNothingIsLost(t *testing.T) {
	onAllStores(t, nothingIsLost)
}

func nothingIsLost(t *testing.T, b *backing) {
	bin := require.Binaries(t)
	dir, nodeDir := testData(t), testData(t)
	before := map[string]bool{}
	for _, d := range []string{dir, nodeDir} {
		for _, l := range leftovers(t, d) {
			before[l] = true
		}
	}
	db := openDB(t, b, dir)
	accounts, err := account.New(db.Accounts(), account.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	front := &process{program: filepath.Join(bin, "assay"), dir: dir, listen: freeAddress(t), b: b}
	front.start(t)
	t.Cleanup(front.kill)
	base := "http://" + front.listen
	staff := as(t, accounts, base, "staff", account.Staff)
	alice := as(t, accounts, base, "alice", account.Member)
	eventually(t, "the server answers", func() bool { return answers(t, base) })
	upload(t, staff, "sum", sum(t, secretAnswer))
	node := &process{program: front.program, dir: nodeDir, listen: freeAddress(t), b: b, more: []string{"--role", "node", "--node", "two"}}
	if b.shared() {
		node.start(t)
		t.Cleanup(node.kill)
	}

	p := &posting{n: number(t), c: alice, db: db}
	begin := time.Now()
	var posting sync.WaitGroup
	posting.Go(func() { p.run(t.Context()) })
	for k := range lostKills {
		atWork := func() bool {
			return int(p.accepted.Load()) >= p.n*(k+1)/(lostKills+1) && runningOn(t, db, "one") > 0
		}
		eventually(t, fmt.Sprintf("submissions are judged before kill %d", k+1), atWork)
		// A random point of whatever it is doing.
		<-time.After(rand.N(300 * time.Millisecond))
		eventually(t, fmt.Sprintf("something is judged at kill %d", k+1), func() bool { return runningOn(t, db, "one") > 0 })
		front.kill()
		if k == 1 && b.shared() {
			node.kill() // for good
		}
		t.Logf("%s: kill %d, %d accepted", time.Since(begin).Round(time.Millisecond), k+1, p.accepted.Load())
		front.start(t)
	}
	posting.Wait()
	t.Logf("%s: all %d are accepted, after %d tries that failed", time.Since(begin).Round(time.Millisecond), p.accepted.Load(), p.failed.Load())
	// However slow the host is: as long as verdicts come, the rest will.
	for left, came := p.left(t), time.Now(); left > 0; {
		<-time.After(200 * time.Millisecond)
		if now := p.left(t); now < left {
			left, came = now, time.Now()
		}
		if time.Since(came) > patience {
			t.Fatalf("no verdict came for %s, %d submissions have none", patience, left)
		}
	}
	t.Logf("%s: all have a verdict", time.Since(begin).Round(time.Millisecond))
	p.check(t)
	front.end(t)
	if b.shared() {
		// A node that is started again reclaims what it left.
		node.start(t)
		eventually(t, "the other node is back", func() bool { return answers(t, "http://"+node.listen) })
		node.end(t)
	}
	for _, d := range []string{dir, nodeDir} {
		for _, l := range leftovers(t, d) {
			if !before[l] {
				t.Errorf("left behind: %s", l)
			}
		}
	}
}

func number(t *testing.T) int {
	t.Helper()
	text := os.Getenv("ASSAY_TEST_LOST_N")
	if text == "" {
		return lostSubmissions
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("ASSAY_TEST_LOST_N: %v", err)
	}
	return n
}

// openDB opens the database of servers that run elsewhere.
func openDB(t *testing.T, b *backing, dir string) *sqlstore.DB {
	t.Helper()
	var db *sqlstore.DB
	var err error
	if b.shared() {
		db, err = sqlstore.OpenURL(t.Context(), b.databaseURL)
	} else {
		db, err = sqlstore.Open(t.Context(), filepath.Join(dir, "assay.db"))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// runningOn says how many jobs a node holds.
func runningOn(t *testing.T, db *sqlstore.DB, node string) int {
	t.Helper()
	nodes, err := db.Work().Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if n.ID == node {
			return n.Jobs
		}
	}
	return 0
}

// freeAddress is one that nobody listens on now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func answers(t *testing.T, base string) bool {
	t.Helper()
	conn, err := net.DialTimeout("tcp", base[len("http://"):], time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	status, _ := ready(t, base)
	return status == 200
}

// process is "assay serve" as a child, which can be killed.
type process struct {
	program, dir, listen string
	b                    *backing
	more                 []string

	mu  sync.Mutex
	cmd *exec.Cmd
}

func (p *process) start(t *testing.T) {
	t.Helper()
	c := p.b.config()
	args := append([]string{
		"--data-dir", p.dir, "serve", "--listen", p.listen, "--node", "one", "--jobs", "2", "--pool", "1", "--lease", "3s", "--rate", "0",
		"--quota-submissions-per-minute", "0", "--log-level", "error",
	}, p.more...)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd = exec.Command(p.program, args...)
	p.cmd.Env = append(os.Environ(), "ASSAY_DATABASE_URL="+c.DatabaseURL.Reveal(), "ASSAY_NATS_URL="+c.NATSURL.Reveal(), "ASSAY_BLOB_URL="+c.BlobURL.Reveal())
	if testing.Verbose() {
		p.cmd.Stderr = os.Stderr
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// kill ends it with no warning, if it runs.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait() // it was killed
	}
}

// end asks it to end and wants it to do so well.
func (p *process) end(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%v ended with %v", p.more, err)
	}
}

// posting is n submissions, each posted again with its key until it is accepted.
type posting struct {
	n  int
	c  *client.ClientWithResponses
	db *sqlstore.DB

	accepted, failed atomic.Int64
	mu               sync.Mutex
	ids              map[int]string
	// ended are the runs of submissions that were seen to have ended.
	ended map[string]judging.Run
}

func (p *posting) run(ctx context.Context) {
	p.ids, p.ended = map[int]string{}, map[string]judging.Run{}
	var all sync.WaitGroup
	defer all.Wait()
	begin, pause := time.Now(), min(lostPause, lostWithin/time.Duration(p.n))
	for i := range p.n {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(begin.Add(pause * time.Duration(i)))):
		}
		all.Go(func() { p.post(ctx, i) })
	}
}

// program of each submission is another one, so that none is taken for another;
// every third is wrong.
func (p *posting) program(i int) (source string, want judge.Verdict) {
	if i%3 == 2 {
		return fmt.Sprintf("# %d\n%s", i, wrongSum), judge.WrongAnswer
	}
	return fmt.Sprintf("# %d\n%s", i, rightSum), judge.Accepted
}

func (p *posting) post(ctx context.Context, i int) {
	source, _ := p.program(i)
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		r, err := p.c.SubmitWithResponse(try, &client.SubmitParams{IdempotencyKey: fmt.Sprintf("key-%d", i)}, python("sum", source))
		cancel()
		if err == nil && r.JSON201 != nil {
			p.mu.Lock()
			p.ids[i] = r.JSON201.ID
			p.mu.Unlock()
			p.accepted.Add(1)
			return
		}
		p.failed.Add(1)
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// left says how many submissions have no verdict yet.
func (p *posting) left(t *testing.T) (n int) {
	t.Helper()
	for _, id := range p.ids {
		if _, ok := p.ended[id]; ok {
			continue
		}
		r := p.counts(t, id)
		if r.State != judging.Done {
			n++
			continue
		}
		p.ended[id] = r
	}
	return n
}

// counts is the run of a submission that counts.
func (p *posting) counts(t *testing.T, submission string) judging.Run {
	t.Helper()
	sub, err := p.db.Judging().Submission(t.Context(), submission)
	if err != nil {
		t.Fatal(err)
	}
	sub.Run.Result = nil
	return sub.Run
}

// check wants one submission for each key, one run and one job for each
// submission, and the right verdict.
func (p *posting) check(t *testing.T) {
	t.Helper()
	all := 0
	for q := (judging.SubmissionQuery{Limit: 100}); ; {
		page, err := p.db.Judging().Submissions(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		all += len(page)
		if len(page) < q.Limit {
			break
		}
		q.After = page[len(page)-1].Page()
	}
	if all != p.n || len(p.ids) != p.n {
		t.Errorf("%d keys were accepted and %d submissions are kept, want %d", len(p.ids), all, p.n)
	}
	again := 0
	seen := map[string]bool{}
	for i, id := range p.ids {
		_, want := p.program(i)
		runs, err := p.db.Judging().Runs(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if seen[id] || len(runs) != 1 || runs[0].Verdict != want || runs[0].Record == "" {
			t.Errorf("submission %s of key %d has the runs %+v, want one with %s", id, i, runs, want)
			continue
		}
		seen[id] = true
		j, err := p.db.Work().Job(t.Context(), runs[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		if j.State != work.Done {
			t.Errorf("job of submission %s: %+v", id, j)
		}
		if was, now := p.ended[id], p.counts(t, id); was != now {
			t.Errorf("submission %s ended twice: %+v, then %+v", id, was, now)
		}
		if runs[0].Tries > 1 {
			again++
		}
	}
	jobs := 0
	counts, err := p.db.Work().Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		jobs += c.Jobs
	}
	if jobs != p.n {
		t.Errorf("there are %d jobs, want %d", jobs, p.n)
	}
	if again == 0 {
		t.Error("no run was interrupted: the check sees nothing")
	}
	t.Logf("%d runs were interrupted and begun again", again)
}
