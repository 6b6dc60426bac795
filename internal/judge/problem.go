package judge

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
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
	// Cases are in the order of judging, samples first.
	Cases   []Case
	Checker Checker
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
	// Code is the size of all sources together, in bytes; zero is 128 KiB.
	Code int64
	// CompileTime is CPU time; zero is 60 s. CompileMemory in bytes; zero is
	// 2048 MiB or what the machine has.
	CompileTime   time.Duration
	CompileMemory int64
}

// Case is one input and what decides its output.
type Case struct {
	// Name is the path of the case without extension ("secret/03-large").
	Name   string
	Sample bool
	Input  Blob
	// Answer never enters a machine that runs the code being judged.
	Answer Blob
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
