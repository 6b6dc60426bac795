package course

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// File is one file of a submission or of an assignment. Name is relative, clean
// and has slashes; it never leads out of its folder.
type File struct {
	Name       string
	Data       []byte
	Executable bool
}

// Submission is the files that one person or group handed in. It never changes.
type Submission struct {
	// ID names it in reports and orders: a student's ID, a folder's name.
	ID string
	// Files are sorted by name.
	Files []File
	// Notes say what was dropped or unpacked while reading it ("dropped .git").
	Notes []string
	// Received is when it was handed in; every rule about time uses it, never the
	// time of grading. Zero is unknown.
	Received time.Time
}

// Digest is the SHA-256 over names, sizes and contents ("sha256:…"). The time
// and the ID are not in it.
func (s Submission) Digest() string { return DigestFiles(s.Files) }

// DigestFiles is the digest of files in the order given.
func DigestFiles(files []File) string {
	sum := sha256.New()
	for _, f := range files {
		fmt.Fprintf(sum, "%q %t %d\n", f.Name, f.Executable, len(f.Data))
		sum.Write(f.Data)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// Grader runs the tests of one mode. It may be used from many goroutines.
type Grader interface {
	// Grade runs a submission's tests in fresh machines. What the submission did
	// is in the Report, whatever it did; an error is our failure, and the caller
	// tries again. It never costs an attempt.
	//
	// observe, which may be nil, hears the names of tests as they begin; calls
	// come one after another.
	Grade(ctx context.Context, a *Assignment, s Submission, observe func(test string)) (Report, error)
}
