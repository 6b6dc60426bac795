package class

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"assay/internal/fault"
)

var groupName = regexp.MustCompile(`^[\pL\pN][\pL\pN ._-]{0,63}$`)

// GroupLine is one line of a file of groups: who is in which group.
type GroupLine struct {
	Line  int
	Who   string
	Group string
}

// ReadGroups reads groups from CSV: a column group and one that tells people
// apart (student id, email, login, or who). It is all or nothing. name is for
// messages.
func ReadGroups(name string, data []byte) ([]GroupLine, error) {
	s, err := readSheet(name, data)
	if err != nil {
		return nil, err
	}
	column := func(names ...string) int {
		return slices.IndexFunc(s.header, func(h string) bool { return slices.Contains(names, bare(plain(h))) })
	}
	group, who := column("group", "groupname", "team"), -1
	for _, field := range append([]rosterColumn{{"who", []string{"who", "person"}}}, rosterColumns[:3]...) {
		for _, n := range field.names {
			if i := column(n); i >= 0 && who < 0 {
				who = i
			}
		}
	}
	if group < 0 || who < 0 {
		return nil, fault.Errorf(fault.Invalid, "%s lacks a column", name).WithHint("the first line must name a column group and one of email, student id, login")
	}
	var lines []GroupLine
	bad := troubles{name: name}
	for _, row := range s.rows {
		l := GroupLine{row.line, plain(row.cell(who)), plain(row.cell(group))}
		switch {
		case l.Who == "":
			bad.add(fmt.Sprintf("line %d: nobody is named", l.Line))
		case l.Group == "": // in no group
		case !groupName.MatchString(l.Group):
			bad.add(fmt.Sprintf("line %d: %q cannot name a group", l.Line, clip(l.Group)))
		default:
			lines = append(lines, l)
		}
	}
	return lines, bad.fault()
}

// SetGroups puts people into groups of an assignment: all of them or none. Who
// is in another group of it already is refused, and so is a name on the roster
// that does not stand for one student.
func (b *Book) SetGroups(ctx context.Context, courseID, assignment string, lines []GroupLine) error {
	return b.write(ctx, courseID, assignment, func(rec Records, s State, a Assignment) error {
		in := s.groups(a.Name)
		bad := troubles{name: "the groups"}
		for _, l := range lines {
			where := ""
			if l.Line > 0 {
				where = fmt.Sprintf("line %d: ", l.Line)
			}
			p, err := Find(s.People, l.Who)
			switch {
			case err != nil:
				bad.add(where + err.Error())
			case !groupName.MatchString(l.Group):
				bad.add(fmt.Sprintf("%s%q cannot name a group", where, clip(l.Group)))
			case p.Role != Student:
				bad.add(where + p.Label() + " is staff")
			case in[p.ID] != "" && in[p.ID] != l.Group:
				bad.add(fmt.Sprintf("%s%s is in the group %q already", where, p.Label(), in[p.ID]))
			case in[p.ID] == "":
				in[p.ID] = l.Group
				if err := rec.PutMember(ctx, Member{a.Name, p.ID, l.Group}); err != nil {
					return err
				}
			}
		}
		return bad.fault()
	})
}

// LeaveGroup takes people out of the groups of an assignment. What they handed
// in with a group stays the group's.
func (b *Book) LeaveGroup(ctx context.Context, courseID, assignment string, who []string) error {
	return b.write(ctx, courseID, assignment, func(rec Records, s State, a Assignment) error {
		for _, w := range who {
			p, err := Find(s.People, w)
			if err != nil {
				return err
			}
			if err := rec.PutMember(ctx, Member{a.Name, p.ID, ""}); err != nil {
				return err
			}
		}
		return nil
	})
}

// Group is one group of an assignment.
type Group struct {
	Name   string   `json:"name"`
	People []Person `json:"people"`
}

// Groups are the groups of an assignment, by name.
func (b *Book) Groups(ctx context.Context, courseID, assignment string) ([]Group, error) {
	s, err := b.State(ctx, courseID)
	if err != nil {
		return nil, err
	}
	if _, err := s.assignment(assignment); err != nil {
		return nil, err
	}
	people := map[string]Person{}
	for _, p := range s.People {
		people[p.ID] = p
	}
	byName := map[string][]Person{}
	for person, group := range s.groups(assignment) {
		byName[group] = append(byName[group], people[person])
	}
	list := []Group{}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		SortPeople(byName[name])
		list = append(list, Group{name, byName[name]})
	}
	return list, nil
}

// groups are the groups of an assignment by person.
func (s State) groups(assignment string) map[string]string {
	in := map[string]string{}
	for _, m := range s.Members {
		if m.Assignment == assignment {
			in[m.Person] = m.Group
		}
	}
	return in
}

// findGroup gives a group of an assignment as it is written.
func (s State) findGroup(assignment, name string) (string, error) {
	var all []string
	for _, m := range s.Members {
		if m.Assignment == assignment && !slices.Contains(all, m.Group) {
			all = append(all, m.Group)
		}
		if m.Assignment == assignment && m.Group == name {
			return name, nil
		}
	}
	err := fault.Errorf(fault.NotFound, "%s has no group %q", assignment, name)
	if len(all) == 0 {
		return "", err
	}
	slices.Sort(all)
	return "", err.WithHint("its groups are %s", strings.Join(all, ", "))
}
