package course

import (
	"strings"

	"assay/internal/fault"
	"assay/internal/judge"
)

// Pin sets the tests to those that a run of the solution gave. What the
// assignment itself says of a test (Tests before the call, by ID, where a "*"
// stands for any text) goes before. A rule that no test matches is Invalid.
func (a *Assignment) Pin(tests []Test) error {
	rules := a.Tests
	used := make([]bool, len(rules))
	pinned := make([]Test, 0, len(tests))
	names := map[string]bool{}
	for _, t := range tests {
		if t.Visibility == "" {
			t.Visibility = a.Visibility
		}
		if t.Points.Sign() == 0 && a.Mode == Pytest {
			t.Points = a.Pytest.Points
		}
		t.Details = t.Details || a.Mode == Harness
		for i, r := range rules {
			if !matchesID(r.ID, t.ID) {
				continue
			}
			used[i] = true
			t = r.over(t)
			break
		}
		if names[t.Name] {
			t.Name = t.ID
		}
		names[t.Name] = true
		pinned = append(pinned, t)
	}
	for i, r := range rules {
		if !used[i] {
			return fault.Errorf(fault.Invalid, "assignment %s speaks of the test %q, and a run of the solution has no such test", a.Name, r.ID).
				WithHint("tests of the run begin with %s", firstIDs(tests))
		}
	}
	a.Tests = pinned
	a.Points = judge.Score{}
	for _, t := range pinned {
		if !t.Bonus {
			a.Points = a.Points.Add(t.Points)
		}
	}
	return nil
}

// over puts what a rule says over what a run said.
func (r Test) over(t Test) Test {
	if r.Name != "" && r.Name != r.ID {
		t.Name = r.Name
	}
	if r.Points.Sign() != 0 || r.Bonus {
		t.Points = r.Points
	}
	t.Bonus = t.Bonus || r.Bonus
	if r.Visibility != "" {
		t.Visibility = r.Visibility
	}
	if r.Message != "" {
		t.Message = r.Message
	}
	t.Details = r.Details
	return t
}

// matchesID compares a test's ID with a pattern in which "*" is any text.
func matchesID(pattern, id string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == id
	}
	if !strings.HasPrefix(id, parts[0]) {
		return false
	}
	id = id[len(parts[0]):]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(id, p)
		if i < 0 {
			return false
		}
		id = id[i+len(p):]
	}
	return strings.HasSuffix(id, parts[len(parts)-1])
}

func firstIDs(tests []Test) string {
	var ids []string
	for i, t := range tests {
		if i == 3 {
			ids = append(ids, "…")
			break
		}
		ids = append(ids, t.ID)
	}
	return strings.Join(ids, ", ")
}
