package image

// Stage is what a build does at a moment, in this order; not every build has
// every stage.
type Stage string

// The stages of a build.
const (
	StageWait     Stage = "wait"     // another build of the same template is running
	StageFetch    Stage = "fetch"    // look up or pull an OCI image
	StagePackages Stage = "packages" // install packages
	StageSteps    Stage = "steps"    // run the definition's steps
	StageUnpack   Stage = "unpack"   // unpack layers or a tar
	StageFinish   Stage = "finish"   // account, fixed files, clean up
	StageImage    Stage = "image"    // write the EROFS image
)

// Progress is one event of a build.
type Progress struct {
	Stage Stage
	// Text says in a few words what is being done ("setting up g++").
	Text string
	// Done and Total count packages, steps or bytes of the stage; Total is 0
	// when it is not known yet.
	Done, Total int64
}

// Observer is told how a build goes on, from one goroutine at a time. It must
// not block.
type Observer interface {
	Progress(Progress)
}

// silent is the observer of those who gave none.
type silent struct{}

// Progress ignores the event.
func (silent) Progress(Progress) {}
