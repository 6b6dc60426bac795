package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"assay/internal/fault"
)

// ServerOptions say which server is measured, and how much.
type ServerOptions struct {
	// URL is the server's address, Token that of an admin without limits.
	URL, Token string
	// PID is the server's process if its memory is to be measured; 0 is not.
	PID int
	// Clients read at the same time for For; each begins a read every Pause, or
	// when the one before has ended if that is later.
	Clients    int
	For, Pause time.Duration
	// Listeners follow one submission.
	Listeners int
	// Settle is how long a server that was used is left alone before it counts as
	// idle; zero is five seconds.
	Settle time.Duration
	// Stage is told what is measured now, and may be nil.
	Stage func(name string)
}

const (
	// serverSubmissions are made before anything is read.
	serverSubmissions = 20
	// serverProblem is the ID of the problem that they are for.
	serverProblem = "assay-bench"
	// sleeps is how long the program runs that is followed: all listeners must be
	// there before it ends.
	sleeps = 20 * time.Second
	// readTarget is what 99 of 100 reads should not exceed, in microseconds, and
	// idleTarget what the idle server's memory should not, in bytes.
	readTarget = 50e3
	idleTarget = 150 << 20
)

// Server measures a running server: its memory while nobody asks, how long reads
// take while many clients make them, and how long it takes until many listeners
// have an event. It leaves a closed problem and its submissions there.
func Server(ctx context.Context, o ServerOptions) (Report, error) {
	b := &serverBench{ctx: ctx, o: o, client: &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: max(o.Clients, o.Listeners), MaxConnsPerHost: 0, DisableCompression: true,
	}}}
	defer b.client.CloseIdleConnections()
	r, err := measureAll(ctx, o.Stage, []step{
		{"submissions", b.prepare},
		{"idle memory", b.idle},
		{"reads", b.reads},
		{"reads without a pause", b.flood},
		{"listeners", b.listen},
	})
	for i := range r.Rows {
		// Targets of this bench are in time and bytes.
		if r.Rows[i].Unit == "us" && r.Rows[i].Target == 0 {
			r.Rows[i].Units = r.Rows[i].P50 / r.UnitUS
		}
	}
	return r, err
}

type serverBench struct {
	ctx         context.Context // of one run of the benchmark, which is one call
	o           ServerOptions
	client      *http.Client
	submissions []string
}

// ask makes a request, wants it to succeed and reads the answer into v.
func (b *serverBench) ask(method, path, kind string, body []byte, v any) error {
	r, err := http.NewRequestWithContext(b.ctx, method, b.o.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	res, err := b.send(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || v == nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// send makes a request that has to succeed.
func (b *serverBench) send(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+b.o.Token)
	res, err := b.client.Do(r)
	if err != nil {
		return nil, fault.Errorf(fault.Unavailable, "ask the server: %w", err)
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 2000))
	if err != nil {
		return nil, err
	}
	hint := "is the token an admin's?"
	if res.StatusCode == http.StatusTooManyRequests {
		hint = "start the server with --rate 0: it is to be measured, not its limit"
	}
	return nil, fault.Errorf(fault.Unavailable, "%s %s: %s %s", r.Method, r.URL.Path, res.Status, bytes.TrimSpace(text)).WithHint("%s", hint)
}

type benchSubmission struct {
	ID  string
	Run struct {
		State, Verdict, Reason string
		EndedAt                time.Time `json:"ended_at"`
	}
}

// submit hands a Python program in.
func (b *serverBench) submit(program string) (s benchSubmission, err error) {
	body, err := json.Marshal(map[string]any{"problem": serverProblem, "language": "python3", "files": []any{map[string]string{"name": "main.py", "text": program}}})
	if err != nil {
		return s, err
	}
	return s, b.ask("POST", "/api/v1/submissions", "application/json", body, &s)
}

// prepare puts a problem and judged submissions on the server.
func (b *serverBench) prepare() ([]Row, error) {
	zip, err := serverPackage()
	if err != nil {
		return nil, err
	}
	if err := b.ask("POST", "/api/v1/problems/"+serverProblem+"/versions", "application/zip", zip, nil); err != nil {
		return nil, err
	}
	for range serverSubmissions {
		s, err := b.submit("print(sum(map(int, input().split())))")
		if err != nil {
			return nil, err
		}
		b.submissions = append(b.submissions, s.ID)
	}
	for _, id := range b.submissions {
		for {
			var s benchSubmission
			if err := b.ask("GET", "/api/v1/submissions/"+id+"?wait_seconds=10", "", nil, &s); err != nil {
				return nil, err
			}
			if s.Run.State != "done" {
				continue
			}
			if s.Run.Verdict != "AC" {
				return nil, fault.Errorf(fault.Internal, "the bench's own program is judged %s: %s", s.Run.Verdict, s.Run.Reason)
			}
			break
		}
	}
	return nil, nil
}

// idle reads the memory of a server that has judged and is asked for nothing.
func (b *serverBench) idle() ([]Row, error) {
	if b.o.PID == 0 {
		return nil, nil
	}
	select {
	case <-time.After(cmp.Or(b.o.Settle, 5*time.Second)):
	case <-b.ctx.Done():
		return nil, context.Cause(b.ctx)
	}
	n, err := residentBytes(b.o.PID)
	return []Row{row("memory of the idle server", "bytes", []float64{n}, idleTarget)}, err
}

// residentBytes is how much memory a process has.
func residentBytes(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == "VmRSS:" {
			n, err := strconv.ParseFloat(words[1], 64)
			return n * 1024, err
		}
	}
	return 0, fault.Errorf(fault.Unsupported, "the host does not tell how much memory process %d has", pid)
}

// paths are what clients read: as people look at problems and their own work.
func (b *serverBench) paths() []string {
	id := b.submissions[rand.IntN(len(b.submissions))]
	return []string{
		"/api/v1/submissions/" + id, "/api/v1/submissions/" + id, "/api/v1/submissions?limit=20", "/api/v1/problems", "/api/v1/problems/" + serverProblem,
	}
}

// reads has all clients read at their pace.
func (b *serverBench) reads() ([]Row, error) {
	values, took, err := b.load(b.o.Pause)
	if err != nil {
		return nil, err
	}
	all := row(fmt.Sprintf("reads, %d clients, each every %v", b.o.Clients, b.o.Pause), "us", values, 0)
	slowest := Row{Name: "  99 of 100 took at most", N: all.N, P50: all.P99, P95: all.P99, P99: all.P99, Unit: "us", Target: readTarget}
	return []Row{all, slowest, row("  rate", "rate", []float64{ratio(float64(len(values)), took.Seconds())}, 0)}, nil
}

// flood has all clients read without a pause: the server is busy all the time.
func (b *serverBench) flood() ([]Row, error) {
	values, took, err := b.load(0)
	if err != nil {
		return nil, err
	}
	return []Row{
		row(fmt.Sprintf("reads, %d clients without a pause", b.o.Clients), "us", values, 0),
		row("  rate", "rate", []float64{ratio(float64(len(values)), took.Seconds())}, 0),
	}, nil
}

// load gives how long each read took, in microseconds.
func (b *serverBench) load(pause time.Duration) (values []float64, took time.Duration, err error) {
	var mu sync.Mutex
	var clients sync.WaitGroup
	begin := time.Now()
	for range b.o.Clients {
		clients.Go(func() {
			mine, cerr := b.readFor(pause)
			mu.Lock()
			defer mu.Unlock()
			values = append(values, mine...)
			if err == nil {
				err = cerr
			}
		})
	}
	clients.Wait()
	return values, time.Since(begin), err
}

func (b *serverBench) readFor(pause time.Duration) (values []float64, err error) {
	began := time.Now()
	// The clients do not all begin in the same moment.
	next := began.Add(time.Duration(rand.Float64() * float64(pause)))
	for end := began.Add(b.o.For); next.Before(end) && time.Now().Before(end); {
		select {
		case <-time.After(time.Until(next)):
		case <-b.ctx.Done():
			return nil, context.Cause(b.ctx)
		}
		paths := b.paths()
		at := time.Now()
		if err := b.ask("GET", paths[rand.IntN(len(paths))], "", nil, nil); err != nil {
			return nil, err
		}
		values = append(values, float64(time.Since(at).Nanoseconds())/1e3)
		if next = next.Add(pause); next.Before(time.Now()) {
			next = time.Now()
		}
	}
	return values, nil
}

// listen has all listeners follow a submission, and looks when each of them
// hears of its end.
func (b *serverBench) listen() ([]Row, error) {
	if b.o.Listeners == 0 {
		return nil, nil
	}
	s, err := b.submit(fmt.Sprintf("import time\nn = sum(map(int, input().split()))\ntime.sleep(%g)\nprint(n)", sleeps.Seconds()))
	if err != nil {
		return nil, err
	}
	heard := make([]time.Time, b.o.Listeners)
	errs := make([]error, b.o.Listeners)
	var there, all sync.WaitGroup
	there.Add(b.o.Listeners)
	began := time.Now()
	for i := range heard {
		all.Go(func() { heard[i], errs[i] = b.follow(s.ID, there.Done) })
	}
	there.Wait()
	connected := time.Now()
	// The server says whether they came before the end: it may have another clock.
	var early benchSubmission
	askErr := b.ask("GET", "/api/v1/submissions/"+s.ID, "", nil, &early)
	var rows []Row
	if b.o.PID != 0 {
		n, err := residentBytes(b.o.PID)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row(fmt.Sprintf("memory with %d listeners", b.o.Listeners), "bytes", []float64{n}, 0))
	}
	all.Wait()
	if err := errors.Join(append(errs, askErr)...); err != nil {
		return nil, err
	}
	if err := b.ask("GET", "/api/v1/submissions/"+s.ID, "", nil, &s); err != nil {
		return nil, err
	}
	if early.Run.State == "done" {
		return nil, fault.Errorf(fault.Exhausted, "it took %v until all listeners were there, and the run had ended", connected.Sub(began).Round(time.Millisecond)).
			WithHint("measure with fewer listeners, or a calmer host")
	}
	values := make([]float64, len(heard))
	for i, at := range heard {
		values[i] = float64(at.Sub(s.Run.EndedAt).Nanoseconds()) / 1e3
	}
	last := slices.Max(values)
	return append(rows,
		row(fmt.Sprintf("%d listeners connect", b.o.Listeners), "us", []float64{float64(connected.Sub(began).Microseconds())}, 0),
		row("from the end of a run to a listener", "us", values, 0),
		row("  until all have it", "us", []float64{last}, 0)), nil
}

// follow listens to a submission's events, tells when the first has come, and
// gives when the last came.
func (b *serverBench) follow(id string, there func()) (last time.Time, err error) {
	tell := sync.OnceFunc(there)
	defer tell() // nobody waits for one that failed
	r, err := http.NewRequestWithContext(b.ctx, "GET", b.o.URL+"/api/v1/submissions/"+id+"/events", nil)
	if err != nil {
		return last, err
	}
	res, err := b.send(r)
	if err != nil {
		return last, err
	}
	defer res.Body.Close()
	buf := make([]byte, 16<<10)
	for {
		n, err := res.Body.Read(buf)
		// Comments keep the connection; they are no events.
		if bytes.Contains(buf[:n], []byte("event: ")) {
			last = time.Now()
			tell()
		}
		if err == io.EOF { //nolint:errorlint // a reader gives io.EOF itself, see io.Reader
			if last.IsZero() {
				err = fault.Errorf(fault.Internal, "a stream ended without an event")
			} else {
				err = nil
			}
			return last, err
		}
		if err != nil {
			return last, fault.Errorf(fault.Unavailable, "follow a submission: %w", err)
		}
	}
}
