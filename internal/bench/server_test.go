package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/fault"
)

// judgeServer answers as a server does that judges each submission at once, but
// the one that is followed: early says whether it ends before somebody asks for
// it, which the bench does when all listeners are there, or at that moment.
type judgeServer struct {
	early bool

	mu      sync.Mutex
	made    int
	reads   int
	follows bool
	all     chan struct{} // closed when the followed one has ended
	ended   time.Time
	limited bool
}

// end ends the followed submission. The caller holds mu.
func (j *judgeServer) end() {
	if j.ended.IsZero() {
		j.ended = time.Now()
		close(j.all)
	}
}

func (j *judgeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	submission := func(id string) map[string]any {
		return map[string]any{"id": id, "run": map[string]any{"state": "done", "verdict": "AC", "ended_at": j.ended}}
	}
	switch {
	case r.Header.Get("Authorization") != "Bearer secret":
		w.WriteHeader(http.StatusUnauthorized)
	case r.Method == "POST" && strings.HasSuffix(r.URL.Path, "/versions"):
		w.WriteHeader(http.StatusCreated)
	case r.Method == "POST":
		j.made++
		answer(submission(fmt.Sprint("s", j.made)))
	case strings.HasSuffix(r.URL.Path, "/events"):
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ":\n\nevent: submission\ndata: {}\n\n")
		w.(http.Flusher).Flush()
		if j.follows = true; j.early {
			j.end()
		}
		j.mu.Unlock()
		<-j.all
		j.mu.Lock()
		fmt.Fprint(w, "event: submission\ndata: {}\n\n")
	case r.URL.Query().Has("wait_seconds"):
		answer(submission("s"))
	default:
		if j.limited {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		j.reads++
		s := submission("s")
		if j.follows && j.ended.IsZero() {
			s["run"] = map[string]any{"state": "running"}
			defer j.end()
		}
		answer(s)
	}
}

func TestServerIsMeasured(t *testing.T) {
	j := &judgeServer{all: make(chan struct{})}
	srv := httptest.NewServer(j)
	defer srv.Close()
	o := ServerOptions{URL: srv.URL, Token: "secret", PID: os.Getpid(), Clients: 3, For: 200 * time.Millisecond, Pause: 20 * time.Millisecond, Listeners: 7, Settle: time.Millisecond}
	r, err := Server(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]Row{}
	reads := 0
	for _, row := range r.Rows {
		rows[row.Name] = row
		if strings.HasPrefix(row.Name, "reads") {
			reads += row.N
		}
	}
	// Two more are the looks at the followed run, before and after its end.
	if reads == 0 || reads+2 != j.reads {
		t.Errorf("%d reads in the rows, the server had %d", reads, j.reads)
	}
	// A client that is slow reads less often, never more often to make up for it.
	if n := rows["reads, 3 clients, each every 20ms"].N; n > 30 {
		t.Errorf("%d reads in 10 pauses of 3 clients", n)
	}
	if m := rows["memory of the idle server"]; m.P50 < 1<<20 || m.Target != idleTarget {
		t.Errorf("memory %+v", m)
	}
	heard := rows["from the end of a run to a listener"]
	if heard.N != 7 || heard.P50 <= 0 || heard.P99 > rows["  until all have it"].P50 {
		t.Errorf("listeners %+v, all %+v", heard, rows["  until all have it"])
	}
	if p99 := rows["  99 of 100 took at most"]; p99.P50 != rows["reads, 3 clients, each every 20ms"].P99 || p99.Units != 0 || p99.Target != readTarget {
		t.Errorf("slowest %+v", p99)
	}
}

func TestRunThatEndsBeforeItsListenersIsNoMeasure(t *testing.T) {
	srv := httptest.NewServer(&judgeServer{early: true, all: make(chan struct{})})
	defer srv.Close()
	_, err := Server(t.Context(), ServerOptions{URL: srv.URL, Token: "secret", Clients: 1, For: time.Millisecond, Listeners: 3})
	if !fault.Is(err, fault.Exhausted) || !strings.Contains(fault.HintOf(err), "fewer listeners") {
		t.Errorf("got %v, hint %q", err, fault.HintOf(err))
	}
}

func TestServerThatRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		token   string
		limited bool
		hint    string
	}{"token": {"wrong", false, "admin"}, "limited": {"secret", true, "--rate 0"}} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(&judgeServer{limited: tt.limited})
			defer srv.Close()
			_, err := Server(t.Context(), ServerOptions{URL: srv.URL, Token: tt.token, Clients: 1, For: time.Second, Pause: time.Millisecond})
			if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.HintOf(err), tt.hint) {
				t.Errorf("got %v, hint %q, want one with %q", err, fault.HintOf(err), tt.hint)
			}
		})
	}
}
