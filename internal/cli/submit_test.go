package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"assay/client"
	"assay/internal/fault"
)

// TestFollowOutlivesARestart has a server whose first stream ends before the
// verdict, then one that cannot answer, and then one that knows it.
func TestFollowOutlivesARestart(t *testing.T) {
	t.Parallel()
	const (
		queued = "event: submission\ndata: {\"id\":\"s\",\"run\":{\"state\":\"queued\"}}\n\n"
		done   = "event: progress\ndata: {\"step\":\"run\",\"case\":1,\"cases\":2}\n\n" +
			"event: submission\ndata: {\"id\":\"s\",\"run\":{\"state\":\"done\",\"verdict\":\"AC\"}}\n\n"
	)
	for _, tt := range []struct {
		name    string
		streams []string // "" is 503
		want    []string
		fails   bool
		err     fault.Kind
		asked   int
	}{
		{name: "restarted", streams: []string{queued, "", done}, want: []string{"submission", "progress", "submission"}, asked: 3},
		{name: "never_there", streams: []string{""}, fails: true, err: fault.Unavailable, asked: 1},
		{name: "says_nothing", streams: []string{": hello\n\n"}, fails: true, err: fault.Unavailable, asked: 1},
		{name: "other_program", streams: []string{"event: submission\ndata: 7\n\n"}, fails: true, err: fault.Internal, asked: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				stream := tt.streams[min(int(asked.Add(1)), len(tt.streams))-1]
				if stream == "" {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, stream)
			}))
			defer srv.Close()
			api, err := client.Connect(srv.URL, "")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			env := &Env{Stdout: io.Discard, Stderr: io.Discard}
			env.UI = newUI(env, globals{Color: "never"})
			sub, err := follow(t.Context(), env, api, "s", func(e client.Event, _ client.Submission) { got = append(got, e.Name) })
			if !slices.Equal(got, tt.want) || int(asked.Load()) != tt.asked {
				t.Errorf("heard %v after asking %d times, want %v after %d", got, asked.Load(), tt.want, tt.asked)
			}
			switch {
			case !tt.fails && (err != nil || sub.Run.Verdict != "AC"):
				t.Errorf("got %+v, %v", sub.Run, err)
			case tt.fails && (!fault.Is(err, tt.err) || fault.HintOf(err) == ""):
				t.Errorf("got %v (hint %q), want %s with a hint", err, fault.HintOf(err), tt.err)
			}
		})
	}
}
