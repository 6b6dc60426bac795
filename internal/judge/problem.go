package judge

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"strings"
	"time"

	"assay/internal/fault"
)

// Problem is one immutable version of a problem, as a package reader made it.
// It stays usable until the reader's package is closed.
type Problem struct {
	// ShortName is the package's folder name; Name is the title.
	ShortName string
	Name      string
	// Version is the digest of everything in the package ("sha256:…").
	Version string
	Limits  ProblemLimits
	// Languages are the IDs that may be submitted; none means all.
	Languages []string
	// Scoring says that a run has a score beside its verdict.
	Scoring bool
	// Passes is how often the program may be run on one case, each time with
	// the input that the checker or interactor wrote (2025-09 multi-pass); 0
	// and 1 are an ordinary problem.
	Passes int
	// ReadOnly says that a submission may not write files, not even in its
	// working directory (2025-09, allow_file_writing: false).
	ReadOnly bool
	// Env is added to the environment of the program ("NAME=value").
	Env []string
	// Include are files added to every submission of a language before it is
	// compiled, by language ID; "default" is for languages that have no own. They
	// take the place of submitted files of the same name.
	Include map[string][]SourceFile

	// Groups is the tree of test groups, parents before their children: Groups[0]
	// is the whole problem. Empty is one pass-fail group.
	Groups []Group
	// Cases are in the order of judging, samples first.
	Cases []Case

	// Checker compares on the host; it is the one that decides where Checkers
	// and Interactor are empty.
	Checker Checker
	// Checkers are the jury's own, all of which must accept. Interactor talks
	// with the program while it runs; what it wrote is then judged by Checkers,
	// where there are any.
	Checkers   []Program
	Interactor *Program
	// StaticValidator judges the source, once for each group with a StaticCase.
	StaticValidator *Program
	// InputValidators are run by "assay verify" only.
	InputValidators []Program
	// Inference says how to find Limits.CPU where that is zero, and which margins
	// it has to leave where it is given; nil: the format knows neither.
	Inference *Inference
}

// DescribeChecker names what decides, for people and records.
func (p Problem) DescribeChecker() string {
	var names []string
	if p.Interactor != nil {
		names = append(names, string(p.Interactor.Protocol)+" interactor "+p.Interactor.Name)
	}
	for _, c := range p.Checkers {
		names = append(names, string(c.Protocol)+" checker "+c.Name)
	}
	if len(names) == 0 && p.Checker != nil {
		return p.Checker.Describe()
	}
	return strings.Join(names, ", ")
}

// ProblemLimits are what the problem asks for. Zero is "not given".
type ProblemLimits struct {
	// CPU is the time limit of one case.
	CPU time.Duration
	// Wall is the safety net for programs that wait; zero is 2 x CPU + 1 s.
	Wall time.Duration
	// Memory in bytes; zero is 2048 MiB or what the machine has, if that is less.
	Memory int64
	// Output in bytes; zero is 8 MiB.
	Output int64
	// Processes is the cap of processes and threads; zero is the language's.
	Processes int
	// Code is the size of all sources together, in bytes; zero is 128 KiB.
	Code int64
	// CompileTime is CPU time; zero is 60 s. CompileMemory in bytes; zero is
	// 2048 MiB or what the machine has.
	CompileTime   time.Duration
	CompileMemory int64
	// ValidationTime, ValidationMemory and ValidationOutput bound one call of a
	// checker, interactor or grader; zero is 60 s, 2048 MiB or what the machine
	// has, and 8 MiB. Beyond them is JE.
	ValidationTime                     time.Duration
	ValidationMemory, ValidationOutput int64
}

// Case is one input and what decides its output.
type Case struct {
	// Name is the path of the case without extension ("secret/03-large").
	Name   string
	Sample bool
	// Group is the index in Problem.Groups of the innermost group.
	Group int
	Input Blob
	// Answer never enters a machine that runs the code being judged.
	Answer Blob
	// Args are given to the program, CheckerArgs to the checkers or interactor.
	Args, CheckerArgs []string
	// ValidatorArgs are for the input validators, by the base name of the
	// program; "" is for those that are not named.
	ValidatorArgs map[string][]string
	// Files lie in the program's working directory (2025-09, <case>.files/).
	Files []CaseFile
	// Exit is the exit code that the program must end with. Any other is RE, or
	// WA where Exit is not zero.
	Exit int
	// Outputs are files that the program must leave in its working directory; the
	// checker on the host compares each, as it does the output.
	Outputs []Blob
	// Points is what this case is worth in a group that adds up cases of
	// different worth (Polygon); nil where the group says it.
	Points *Score
}

// CaseFile is a file that the program finds in its working directory. Name may
// have folders, separated by slashes, and never leads out.
type CaseFile struct {
	Name string
	Blob Blob
}

// Protocol is how a jury's program is called and what its exit code means.
type Protocol string

// The protocols.
const (
	// Kattis: input, answer and feedback directory as arguments, the output on
	// standard input; 42 accepts, 43 rejects, all else is JE.
	Kattis Protocol = "kattis"
	// Testlib: input, output and answer file as arguments; 0 accepts, 1, 2, 4
	// and 8 reject, 3 is JE, 7 gives points.
	Testlib Protocol = "testlib"
)

// Program is code of the jury. It runs in a machine of its own, which never
// holds a submission, except that a StaticValidator is given its source.
type Program struct {
	// Name is the path in the package, for people.
	Name     string
	Protocol Protocol
	// Files are the sources; names may have folders. One named "build" is run to
	// make one named "run", which is the program.
	Files []SourceFile
	// Language is an ID; empty: found by the extensions.
	Language string
}

// Blob is a file of a problem, known by its digest.
type Blob struct {
	name   string
	size   int64
	sha256 string
	open   func() (io.ReadCloser, error)
}

// NewBlob describes a file. size is in bytes and sum is the SHA-256 in hex;
// open must give the same bytes at each call.
func NewBlob(name string, size int64, sum string, open func() (io.ReadCloser, error)) Blob {
	return Blob{name: name, size: size, sha256: sum, open: open}
}

// BytesBlob is a file that is in memory.
func BytesBlob(name string, data []byte) Blob {
	sum := sha256.Sum256(data)
	return NewBlob(name, int64(len(data)), hex.EncodeToString(sum[:]), func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	})
}

// Name is the path inside the package, Size is in bytes, SHA256 in hex.
func (b Blob) Name() string   { return b.name }
func (b Blob) Size() int64    { return b.size }
func (b Blob) SHA256() string { return b.sha256 }

// Open gives the bytes. Reading to the end fails with a Conflict when they are
// not those the digest was taken of: a verdict must not rest on them.
func (b Blob) Open() (io.ReadCloser, error) {
	if b.open == nil {
		return nil, fault.Errorf(fault.Invalid, "case file %q has no content", b.name)
	}
	r, err := b.open()
	if err != nil {
		return nil, err
	}
	return &provenReader{blob: b, r: r, sum: sha256.New()}, nil
}

type provenReader struct {
	blob Blob
	r    io.ReadCloser
	sum  hash.Hash
	n    int64
}

func (p *provenReader) Read(buf []byte) (int, error) {
	n, err := p.r.Read(buf)
	p.sum.Write(buf[:n])
	p.n += int64(n)
	if p.n > p.blob.size || err == io.EOF && hex.EncodeToString(p.sum.Sum(nil)) != p.blob.sha256 {
		return n, fault.Errorf(fault.Conflict, "%s changed after the package was read", p.blob.name).
			WithHint("leave the package alone while it is judged, or load it again")
	}
	return n, err
}

func (p *provenReader) Close() error { return p.r.Close() }
