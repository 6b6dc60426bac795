// Package jobe is a front with the wire format of Jobe, the server that
// Moodle's CodeRunner sends programs to. Start with Handler.
//
// A run is one program in one fresh machine; how that is done is the Runner's.
// The package must not know machines, languages or stores.
package jobe

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"time"

	"assay/internal/fault"
)

// Outcome is how a run ended, by the numbers of the wire format.
type Outcome int

// The outcomes.
const (
	CompileError Outcome = 11
	RunTimeError Outcome = 12
	TimeLimit    Outcome = 13
	Success      Outcome = 15
	MemoryLimit  Outcome = 17
	Internal     Outcome = 20
	Overload     Outcome = 21
)

// Runner runs programs. It is called from many goroutines.
type Runner interface {
	// Languages gives ID and version of each language, sorted.
	Languages() [][2]string
	// Run runs one job. What the program did is in the Result. Exhausted means
	// that there is no room now; NotFound that there is no such language.
	Run(ctx context.Context, j Job) (Result, error)
}

// Job is one program to run.
type Job struct {
	Language string
	// Name is the source's file name, "" for the language's own.
	Name   string
	Source []byte
	Input  []byte
	// Files lie beside the source.
	Files []File

	CPU       time.Duration
	Memory    int64 // bytes; zero is the machine's
	Disk      int64 // bytes
	Output    int64 // bytes of each stream
	Processes int

	CompileArgs, LinkArgs, InterpreterArgs, RunArgs []string
}

// File is a file beside a source. Its name has no folder.
type File struct {
	Name string
	Data []byte
}

// Result is what came of a job.
type Result struct {
	Outcome     Outcome
	CompileInfo string
	// Stdout and Stderr are the program's bytes.
	Stdout, Stderr []byte
}

// Bounds of requests. maxCPU is what a job may ask for.
const (
	maxBody  = 32 << 20
	maxCPU   = 50 * time.Second
	maxFiles = 100
	maxArgs  = 100
)

// What a job has that says nothing else.
const (
	defaultCPU       = 5 * time.Second
	defaultMemory    = 400 << 20
	defaultDisk      = 20 << 20
	defaultOutput    = 2 << 20
	defaultProcesses = 30
)

// Handler gives the front. Its paths begin with /jobe/index.php/restapi or
// /restapi.
func Handler(r Runner, log *slog.Logger) http.Handler {
	s := &server{runner: r, log: log, files: newFiles(maxKept)}
	mux := http.NewServeMux()
	for _, base := range []string{"/jobe/index.php/restapi", "/jobe/restapi", "/restapi"} {
		for _, slash := range []string{"", "/{$}"} {
			mux.HandleFunc("GET "+base+"/languages"+slash, s.languages)
			mux.HandleFunc("POST "+base+"/runs"+slash, s.run)
			mux.HandleFunc("PUT "+base+"/files/{id}"+slash, s.put)
			mux.HandleFunc("HEAD "+base+"/files/{id}"+slash, s.head)
		}
	}
	return mux
}

type server struct {
	runner Runner
	log    *slog.Logger
	files  *files
}

func (s *server) languages(w http.ResponseWriter, _ *http.Request) {
	s.reply(w, http.StatusOK, s.runner.Languages())
}

var fileID = regexp.MustCompile(`^[A-Za-z0-9]{8,128}$`)

func (s *server) put(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Contents *string `json:"file_contents"`
	}
	id := r.PathValue("id")
	if !fileID.MatchString(id) {
		s.refuse(w, http.StatusBadRequest, "the file ID must have 8 to 128 letters and digits")
		return
	}
	if !s.decode(w, r, &body) {
		return
	}
	if body.Contents == nil {
		s.refuse(w, http.StatusBadRequest, "file_contents is not there")
		return
	}
	data, err := base64.StdEncoding.DecodeString(*body.Contents)
	if err != nil {
		s.refuse(w, http.StatusBadRequest, "file_contents is not base64")
		return
	}
	s.files.put(id, data)
	w.WriteHeader(http.StatusNoContent)
}

func (s *server) head(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.files.get(r.PathValue("id")); !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// outcome is a Result on the wire.
type outcome struct {
	RunID   *string `json:"run_id"`
	Outcome Outcome `json:"outcome"`
	Compile string  `json:"cmpinfo"`
	Stdout  string  `json:"stdout"`
	Stderr  string  `json:"stderr"`
}

func (s *server) run(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Spec *spec `json:"run_spec"`
	}
	if !s.decode(w, r, &body) {
		return
	}
	if body.Spec == nil {
		s.refuse(w, http.StatusBadRequest, "run_spec is not there")
		return
	}
	job, err := body.Spec.job()
	if err != nil {
		s.refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	for _, f := range body.Spec.Files {
		data, ok := s.files.get(f.id)
		if !ok {
			s.refuse(w, http.StatusNotFound, fmt.Sprintf("file %s is not kept here; send it first", f.id))
			return
		}
		job.Files = append(job.Files, File{f.name, data})
	}
	res, err := s.runner.Run(r.Context(), job)
	switch {
	case err == nil:
	case r.Context().Err() != nil:
		return // nobody waits any more
	case fault.Is(err, fault.NotFound), fault.Is(err, fault.Invalid):
		s.refuse(w, http.StatusBadRequest, err.Error())
		return
	case fault.Is(err, fault.Exhausted):
		res = Result{Outcome: Overload}
	default:
		s.log.Error("run a job", "language", job.Language, "error", err)
		res = Result{Outcome: Internal}
	}
	s.reply(w, http.StatusOK, outcome{nil, res.Outcome, clean([]byte(res.CompileInfo)), clean(res.Stdout), clean(res.Stderr)})
}

// decode reads one JSON body, or answers why not.
func (s *server) decode(w http.ResponseWriter, r *http.Request, into any) bool {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(into)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		s.refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is larger than %d MiB", maxBody>>20))
		return false
	}
	if err != nil {
		s.refuse(w, http.StatusBadRequest, "the request is not as it must be: "+err.Error())
		return false
	}
	return true
}

func (s *server) refuse(w http.ResponseWriter, status int, text string) { s.reply(w, status, text) }

func (s *server) reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		s.log.Debug("answer a request", "error", err)
	}
}

// clean gives text as it is, and of bytes that are no text each that cannot be
// printed as \xNN: JSON has no other way to carry them.
func clean(b []byte) string {
	text := string(b)
	if strings.ToValidUTF8(text, "") == text {
		return text
	}
	var out strings.Builder
	for _, c := range b {
		if c < 0x20 && c != '\n' && c != '\r' && c != '\t' || c >= 0x7F {
			fmt.Fprintf(&out, `\x%02x`, c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}
