package sandbox

import (
	"testing"

	"assay/internal/fault"
)

func mustReserve(t *testing.T, a *admission, c claim) *reservation {
	t.Helper()
	list, err := a.reserve(t.Context(), c, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

// TestBesideNeverWaits: what is made beside another takes what was set aside,
// then what is free, whoever waits in the queue, and else is refused at once.
func TestBesideNeverWaits(t *testing.T) {
	t.Parallel()
	a := newAdmission(2, []int{0, 1}, 100, 64)
	main := mustReserve(t, a, claim{shape: vcpus(1, 40), dedicated: true, beside: 20})
	if len(main.cores) != 1 || main.cores[0] != 1 || a.memory != 40 || a.cpus != 1000 {
		t.Fatalf("cores %v, free %d, %d", main.cores, a.memory, a.cpus)
	}
	first, err := a.reserveBeside(main, vcpus(2, 15), 1)
	if err != nil || a.memory != 40 || a.cpus != 1000 || main.beside != 5 {
		t.Fatalf("from what was set aside: %v; free %d, aside %d", err, a.memory, main.beside)
	}
	second, err := a.reserveBeside(main, vcpus(2, 15), 1)
	if err != nil || a.memory != 30 || main.beside != 0 {
		t.Fatalf("from both: %v; free %d, aside %d", err, a.memory, main.beside)
	}
	if _, err := a.reserveBeside(main, vcpus(2, 16), 2); !fault.Is(err, fault.Exhausted) || fault.HintOf(err) == "" {
		t.Errorf("no room: %v", err)
	}
	second[0].release()
	second[0].release()
	if a.memory != 40 || main.beside != 5 {
		t.Errorf("given back: free %d, aside %d", a.memory, main.beside)
	}
	main.release() // before the one beside it
	if a.memory != 85 || a.cpus != 2000 || len(a.cores) != 2 {
		t.Errorf("the main one given back: free %d, %d, cores %v", a.memory, a.cpus, a.cores)
	}
	first[0].release()
	if a.memory != 100 {
		t.Errorf("all given back: free %d", a.memory)
	}
}

// TestClaims are what each kind of machine takes.
func TestClaims(t *testing.T) {
	t.Parallel()
	a := newAdmission(4, []int{0, 1, 2, 3}, 100, 4)
	for _, tt := range []struct {
		name         string
		claim        claim
		cpus, memory int64
		cores        int
	}{
		{"shared", claim{shape: vcpus(2, 10)}, 500, 10, 0},
		{"dedicated", claim{shape: vcpus(2, 10), dedicated: true}, 2000, 10, 2},
		{"dedicated-with-fewer", claim{shape: vcpus(2, 10), dedicated: true, cores: 1}, 1000, 10, 1},
		{"with-others-beside", claim{shape: vcpus(1, 10), dedicated: true, beside: 7}, 1000, 17, 1},
	} {
		cpus, memory, cores := a.need(tt.claim)
		if cpus != tt.cpus || memory != tt.memory || cores != tt.cores {
			t.Errorf("%s: %d, %d, %d", tt.name, cpus, memory, cores)
		}
	}
	few := newAdmission(4, []int{5}, 100, 4) // fewer cores than processors to give out
	if _, err := few.reserve(t.Context(), claim{shape: vcpus(2, 10), dedicated: true}, 1, nil); !fault.Is(err, fault.Exhausted) {
		t.Errorf("more cores than there are: %v", err)
	}
}
