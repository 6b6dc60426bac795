package judge

// Step names a moment in a run.
type Step string

// The steps, in the order they come. Retrying may come at any time.
const (
	StepCompiling Step = "compiling"
	StepCompiled  Step = "compiled"
	StepCase      Step = "case"
	StepCaseDone  Step = "case_done"
	StepRetrying  Step = "retrying"
	StepDone      Step = "done"
)

// Event tells an observer how far a run is.
type Event struct {
	Step Step
	// Case is from 1 and Cases is how many there are; 0 outside of cases.
	Case, Cases int
	// Result is set for StepCaseDone.
	Result *CaseResult
	// Text says more for StepRetrying, and is the verdict for StepDone.
	Text string
}

// Observer gets the events of one run, one at a time, on the goroutine that
// called Run; it must be quick. Nil is allowed where an Observer is asked for.
type Observer func(Event)

func (o Observer) tell(e Event) {
	if o != nil {
		o(e)
	}
}
