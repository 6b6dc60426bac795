package account

import "assay/internal/fault"

// Action is what somebody wants to do to a thing.
type Action string

// The actions. Every door asks May before it does one.
const (
	// List is to see that there are things of a kind, those that Read allows.
	List   Action = "list"
	Read   Action = "read"
	Create Action = "create"
	// Use is to work with a thing: exec in a sandbox, submit to a problem, hand
	// in to an assignment.
	Use    Action = "use"
	Change Action = "change"
	Delete Action = "delete"
	// ReadHidden is to see what is kept from contestants and students: hidden
	// tests, staff notes, names of anonymous work.
	ReadHidden Action = "read_hidden"
)

// Actions are all of them.
func Actions() []Action {
	return []Action{List, Read, Create, Use, Change, Delete, ReadHidden}
}

// Kind is what sort of thing is asked for.
type Kind string

// The kinds of things.
const (
	SandboxThing    Kind = "sandbox"
	SnapshotThing   Kind = "snapshot"
	TemplateThing   Kind = "template"
	ProblemThing    Kind = "problem"
	SubmissionThing Kind = "submission"
	RejudgeThing    Kind = "rejudge"
	CourseThing     Kind = "course"
	AssignmentThing Kind = "assignment"
	AttemptThing    Kind = "attempt"
	GradebookThing  Kind = "gradebook"
	UserThing       Kind = "user"
	TokenThing      Kind = "token"
	AuditThing      Kind = "audit"
	NodeThing       Kind = "node"
	UsageThing      Kind = "usage"
)

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{
		SandboxThing, SnapshotThing, TemplateThing, ProblemThing, SubmissionThing, RejudgeThing,
		CourseThing, AssignmentThing, AttemptThing, GradebookThing,
		UserThing, TokenThing, AuditThing, NodeThing, UsageThing,
	}
}

// Thing is what is asked for.
type Thing struct {
	Kind Kind
	// ID names it in the refusal; "" is the kind as a whole.
	ID string
	// Owner is the ID of the user whose it is; "" is the server's.
	Owner string
	// Open says that whoever is signed in may see and use it: a problem that is
	// published, a template.
	Open bool
	// Member says that the actor belongs to it: is on the course's roster.
	Member bool
	// Leads says that the actor runs it, whatever they are on this server: is
	// staff on the course's roster.
	Leads bool
}

// scopeOf is the part of the product that a kind belongs to.
var scopeOf = map[Kind]Scope{
	SandboxThing: ScopeSandboxes, SnapshotThing: ScopeSandboxes, TemplateThing: ScopeSandboxes, UsageThing: ScopeSandboxes,
	ProblemThing: ScopeJudge, SubmissionThing: ScopeJudge, RejudgeThing: ScopeJudge,
	CourseThing: ScopeClass, AssignmentThing: ScopeClass, AttemptThing: ScopeClass, GradebookThing: ScopeClass,
	UserThing: ScopeAccounts, TokenThing: ScopeAccounts, AuditThing: ScopeAccounts, NodeThing: ScopeAccounts,
}

// May decides whether an actor may do something: nil is yes. A refusal is
// fault.Denied; where even the thing's existence is none of the actor's
// business it is fault.NotFound, as for a thing that is not there. Nobody gets
// fault.Unauthenticated.
func May(a Actor, do Action, t Thing) error {
	switch {
	case a.System:
		return nil
	case !a.Known():
		return fault.Errorf(fault.Unauthenticated, "sign in to %s %s", verbs[do], t.words()).WithHint(`run "assay login", or send a token`)
	case t.Kind == UserThing && do == Read && t.Owner == a.User:
		// Whoever holds a token may ask whose it is.
		return nil
	case !a.Has(scopeOf[t.Kind]):
		return fault.Errorf(fault.Denied, "this token does not reach %s", t.words()).
			WithHint("make one with the scope %q", scopeOf[t.Kind])
	case allowed(a, do, t):
		return nil
	case t.ID != "" && do != Read && allowed(a, Read, t):
		return fault.Errorf(fault.Denied, "you may not %s %s", verbs[do], t.words())
	case t.ID != "":
		return fault.Errorf(fault.NotFound, "there is no %s", t.words())
	}
	return fault.Errorf(fault.Denied, "you may not %s %s", verbs[do], t.words())
}

var verbs = map[Action]string{
	List: "list", Read: "see", Create: "make", Use: "use", Change: "change", Delete: "remove", ReadHidden: "see what is hidden of",
}

func (t Thing) words() string {
	if t.ID == "" {
		return string(t.Kind) + "s"
	}
	return string(t.Kind) + " " + t.ID
}

// allowed holds for who is signed in with the right scope.
func allowed(a Actor, do Action, t Thing) bool {
	if never(do, t.Kind) {
		return false
	}
	own := t.Owner != "" && t.Owner == a.User
	switch a.Role {
	case Admin:
		return true
	case Staff:
		return staffMay(own, do, t)
	case Member:
		return memberMay(own, do, t)
	}
	return false
}

// never is what nobody may, because results and answers rest on it: the log is
// written by Assay alone, and what was handed in stays as it was.
func never(do Action, k Kind) bool {
	switch k {
	case AuditThing:
		return do != List && do != Read
	case SubmissionThing, AttemptThing:
		return do == Change
	}
	return false
}

// staffMay: staff run contests and courses, and see all of them; people,
// nodes and the audit log are for admins.
func staffMay(own bool, do Action, t Thing) bool {
	switch t.Kind {
	case SubmissionThing, AttemptThing:
		// To take away what somebody handed in is for admins.
		return do != Delete
	case ProblemThing, RejudgeThing, CourseThing, AssignmentThing, GradebookThing:
		return true
	case UserThing:
		return do == List || do == Read || own && do == Change
	case NodeThing, UsageThing:
		return do == List || do == Read
	case TemplateThing:
		return do == List || do == Read || do == Use
	}
	// Sandboxes, snapshots and tokens are theirs alone, as for members: they may
	// hold what is nobody else's business.
	return memberMay(own, do, t)
}

// memberMay: members use what is open to them and what is theirs, and run the
// courses that they lead.
func memberMay(own bool, do Action, t Thing) bool {
	switch t.Kind {
	case SandboxThing, SnapshotThing, TokenThing:
		return own && do != ReadHidden || t.ID == "" && (do == List || do == Create)
	case SubmissionThing:
		return do == List || do == Create || own && do == Read
	case ProblemThing, TemplateThing:
		return do == List || t.Open && (do == Read || do == Use)
	case AttemptThing:
		return do == List || t.Leads && do != Delete || t.Member && do == Create || own && do == Read
	case CourseThing:
		// A course is made and ended by the server's staff.
		return do == List || t.Leads && do != Create && do != Delete || t.Member && (do == Read || do == Use)
	case AssignmentThing:
		return do == List || t.Leads || t.Member && (do == Read || do == Use)
	case GradebookThing:
		// One's own line of it.
		return t.Leads || own && do == Read
	case UserThing:
		return own && (do == Read || do == Change)
	case UsageThing:
		return do == List || own && do == Read
	}
	return false
}
