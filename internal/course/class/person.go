package class

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"assay/internal/fault"
)

// Role is what a person is in a course.
type Role string

// The roles. Only students have marks.
const (
	Student Role = "student"
	Staff   Role = "staff"
)

// Person is somebody on the roster of a course.
type Person struct {
	// ID is ours and stays when all else changes.
	ID        string `json:"id"`
	StudentID string `json:"student_id,omitempty"`
	Email     string `json:"email,omitempty"`
	Login     string `json:"login,omitempty"`
	// CanvasID is the number that Canvas has for the person.
	CanvasID string `json:"canvas_id,omitempty"`
	Name     string `json:"name,omitempty"`
	Section  string `json:"section,omitempty"`
	Role     Role   `json:"role"`
	// Removed is when the person left the roster. What was handed in stays, and
	// comes back with the person.
	Removed time.Time `json:"removed,omitzero"`
}

// Label is what people call the person: the name, else what there is.
func (p Person) Label() string {
	return cmp.Or(p.Name, p.StudentID, p.Email, p.Login, p.CanvasID)
}

// Find gives the one person on the roster whom who means: by student ID,
// e-mail address, login, ID, Canvas ID, else by name, else by the part of the
// address before the @.
func Find(people []Person, who string) (Person, error) {
	who = strings.TrimSpace(who)
	ways := []func(p Person) bool{
		func(p Person) bool {
			return p.StudentID == who || p.ID == who || p.CanvasID == who || strings.EqualFold(p.Email, who) || strings.EqualFold(p.Login, who)
		},
		func(p Person) bool { return strings.EqualFold(p.Name, who) },
		func(p Person) bool {
			local, _, _ := strings.Cut(p.Email, "@")
			return strings.EqualFold(local, who)
		},
	}
	for _, meant := range ways {
		if who == "" {
			break
		}
		found := slices.Collect(func(yield func(Person) bool) {
			for _, p := range people {
				if p.Removed.IsZero() && meant(p) && !yield(p) {
					return
				}
			}
		})
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			var names []string
			for _, p := range found {
				names = append(names, cmp.Or(p.StudentID, p.Email, p.ID))
			}
			return Person{}, fault.Errorf(fault.Conflict, "%q may be %d people: %s", who, len(found), strings.Join(names, ", ")).
				WithHint("give a student ID or an e-mail address")
		}
	}
	return Person{}, fault.Errorf(fault.NotFound, "nobody on the roster is %q", who).
		WithHint("see \"assay roster show\"; give a student ID or an e-mail address")
}

// students are those who are on the roster and have marks, by name.
func students(people []Person) []Person {
	var list []Person
	for _, p := range people {
		if p.Role == Student && p.Removed.IsZero() {
			list = append(list, p)
		}
	}
	SortPeople(list)
	return list
}

// SortPeople puts people in the order of names.
func SortPeople(people []Person) {
	slices.SortFunc(people, func(a, b Person) int {
		return cmp.Or(
			strings.Compare(strings.ToLower(a.Label()), strings.ToLower(b.Label())),
			strings.Compare(a.StudentID, b.StudentID), strings.Compare(a.ID, b.ID))
	})
}
