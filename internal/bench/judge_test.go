package bench

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"assay/internal/fault"
)

func TestMet(t *testing.T) {
	for _, c := range []struct {
		name string
		row  Row
		want bool
	}{
		{"no target", Row{P50: 9}, true},
		{"time within", Row{P50: 150e3, Target: 150e3}, true},
		{"time beyond", Row{P50: 151e3, Target: 150e3}, false},
		{"units decide", Row{P50: 900, Units: 2, Target: 3}, true},
		{"units beyond", Row{P50: 1, Units: 4, Target: 3}, false},
		{"at least, more", Row{P50: 1.4, Target: 1, AtLeast: true}, true},
		{"at least, as much", Row{P50: 0.5, Target: 0.5, AtLeast: true}, true},
		{"at least, less", Row{P50: 0.49, Target: 0.5, AtLeast: true}, false},
	} {
		if got := c.row.Met(); got != c.want {
			t.Errorf("%s: met %v, want %v", c.name, got, c.want)
		}
	}
}

// The rate is of the time in which all were at work, and of nothing else.
func TestCommonRate(t *testing.T) {
	t.Parallel()
	zero := time.Now()
	at := func(who int, seconds float64, done bool) moment {
		return moment{who, zero.Add(time.Duration(seconds * float64(time.Second))), done}
	}
	both := []moment{
		at(0, 1, false), at(0, 2, true), // alone: the other is not compiled yet
		at(1, 3, false), at(0, 4, true), at(1, 5, true), at(0, 6, true), at(1, 7, true), // 0 has no more
		at(1, 8, true), at(1, 9, true),
	}
	for name, c := range map[string]struct {
		moments []moment
		n       int
		want    float64
	}{
		"none":            {nil, 2, 0},
		"one":             {[]moment{at(0, 1, false), at(0, 2, true), at(0, 3, true)}, 1, 1},
		"side_by_side":    {both, 2, 1},
		"never_together":  {[]moment{at(0, 1, false), at(0, 2, true), at(1, 3, false), at(1, 4, true)}, 2, 0},
		"one_never_began": {[]moment{at(0, 1, false), at(0, 2, true)}, 2, 0},
	} {
		if got := commonRate(c.moments, c.n); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestRoundsFor(t *testing.T) {
	for _, c := range []struct {
		name             string
		want, base, long time.Duration
		rounds           int
	}{
		{"as long as the probe", 40 * time.Millisecond, 0, 40 * time.Millisecond, 1000},
		{"the start is taken off", 21 * time.Millisecond, time.Millisecond, 41 * time.Millisecond, 500},
		{"starting takes longer", time.Millisecond, 2 * time.Millisecond, 42 * time.Millisecond, 1},
		{"no difference seen", 2 * time.Nanosecond, time.Nanosecond, time.Nanosecond, 1000},
	} {
		if got := roundsFor(c.want, c.base, c.long, 1000); got != c.rounds {
			t.Errorf("%s: %d, want %d", c.name, got, c.rounds)
		}
	}
}

func TestRight(t *testing.T) {
	answer := []byte("7\n")
	for _, c := range []struct {
		name    string
		results []peerResult
		right   bool
	}{
		{"ran", []peerResult{{Status: "Accepted", Files: map[string]string{"stdout": "7\n"}}}, true},
		{"other output", []peerResult{{Status: "Accepted", Files: map[string]string{"stdout": "8\n"}}}, false},
		{"ended", []peerResult{{Status: "Time Limit Exceeded", Files: map[string]string{"stdout": "7\n"}}}, false},
		{"nothing", nil, false},
		{"too many", make([]peerResult, 2), false},
	} {
		if err := right(c.results, answer); (err == nil) != c.right {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// What the peer is asked, and that its refusals are told.
func TestPeer(t *testing.T) {
	program := filepath.Join(t.TempDir(), "mix")
	if err := os.WriteFile(program, []byte("a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	removed := false
	mux := http.NewServeMux()
	mux.HandleFunc("POST /file", func(w http.ResponseWriter, r *http.Request) {
		f, _, err := r.FormFile("file")
		if err != nil {
			t.Error(err)
			return
		}
		if data, err := io.ReadAll(f); err != nil || string(data) != "a program" {
			t.Errorf("stored %q, %v", data, err)
		}
		_, _ = io.WriteString(w, `"F1"`)
	})
	mux.HandleFunc("DELETE /file/F1", func(http.ResponseWriter, *http.Request) { removed = true })
	mux.HandleFunc("POST /run", func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Cmd []struct {
				Files  []struct{ Content string }
				CopyIn map[string]struct{ FileID string }
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || len(asked.Cmd) != 1 || asked.Cmd[0].CopyIn["mix"].FileID != "F1" {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		out := asked.Cmd[0].Files[0].Content + "!"
		_ = json.NewEncoder(w).Encode([]peerResult{{Status: "Accepted", Files: map[string]string{"stdout": out}}})
	})
	server := httptest.NewServer(mux)
	defer server.Close()

	p, err := newPeer(t.Context(), server.URL+"/", program)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.run(t.Context(), []byte("5"), []byte("5!")); err != nil {
		t.Error(err)
	}
	if err := p.run(t.Context(), []byte("5"), []byte("6!")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("another output: %v", err)
	}
	p.close()
	if !removed {
		t.Error("the program stays in the peer")
	}
	p.file = "gone"
	if err := p.run(t.Context(), []byte("5"), []byte("5!")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("refused: %v", err)
	}
	if _, err := newPeer(t.Context(), "http://127.0.0.1:1", program); !fault.Is(err, fault.Unavailable) {
		t.Errorf("nobody there: %v", err)
	}
}
