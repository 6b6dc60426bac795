package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"assay/internal/fault"
)

// peer is a go-judge with a program in its store, called by its REST API.
type peer struct {
	url, file string
	client    *http.Client
}

// peerWait is how long one answer may take, and maxPeerAnswer how long it may be.
const (
	peerWait      = 30 * time.Second
	maxPeerAnswer = 1 << 20
)

// newPeer stores a program in the peer. Close it.
func newPeer(ctx context.Context, url, program string) (*peer, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", path.Base(program))
	if err != nil {
		return nil, err
	}
	if _, err := part.Write(data); err != nil {
		return nil, err
	}
	if err := form.Close(); err != nil {
		return nil, err
	}
	p := &peer{url: strings.TrimSuffix(url, "/"), client: &http.Client{Timeout: peerWait}}
	return p, p.call(ctx, http.MethodPost, "/file", form.FormDataContentType(), &body, &p.file)
}

// close removes the program. A peer that keeps it has lost nothing.
func (p *peer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), peerWait)
	defer cancel()
	_ = p.call(ctx, http.MethodDelete, "/file/"+p.file, "", nil, nil)
	p.client.CloseIdleConnections()
}

type peerCommand struct {
	Args        []string            `json:"args"`
	Env         []string            `json:"env"`
	Files       []any               `json:"files"`
	CPULimit    int64               `json:"cpuLimit"`    // ns
	ClockLimit  int64               `json:"clockLimit"`  // ns
	MemoryLimit int64               `json:"memoryLimit"` // bytes
	ProcLimit   int                 `json:"procLimit"`
	CopyIn      map[string]peerFile `json:"copyIn"`
}

type peerFile struct {
	FileID string `json:"fileId"`
}

type peerInput struct {
	Content string `json:"content"`
}

type peerOutput struct {
	Name string `json:"name"`
	Max  int64  `json:"max"`
}

type peerResult struct {
	Status string            `json:"status"`
	Error  string            `json:"error"`
	Files  map[string]string `json:"files"`
}

// run runs the program once and compares what it printed.
func (p *peer) run(ctx context.Context, input, answer []byte) error {
	request := map[string]any{"cmd": []peerCommand{{
		Args: []string{"mix"}, Env: []string{"PATH=/usr/bin:/bin"},
		Files:    []any{peerInput{string(input)}, peerOutput{"stdout", 1 << 20}, peerOutput{"stderr", 1 << 14}},
		CPULimit: 2e9, ClockLimit: 5e9, MemoryLimit: 256 << 20, ProcLimit: 50,
		CopyIn: map[string]peerFile{"mix": {p.file}},
	}}}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	var results []peerResult
	if err := p.call(ctx, http.MethodPost, "/run", "application/json", bytes.NewReader(body), &results); err != nil {
		return err
	}
	return right(results, answer)
}

// right is an error unless the peer ran the program to its end.
func right(results []peerResult, answer []byte) error {
	if len(results) != 1 {
		return fault.Errorf(fault.Unavailable, "the peer gave %d results for one command", len(results))
	}
	r := results[0]
	if r.Status != "Accepted" || r.Files["stdout"] != string(answer) {
		return fault.Errorf(fault.Unavailable, "the peer's run ended %q %s with output %q, not %q", r.Status, r.Error, r.Files["stdout"], answer)
	}
	return nil
}

func (p *peer) call(ctx context.Context, method, at, kind string, body io.Reader, to any) error {
	req, err := http.NewRequestWithContext(ctx, method, p.url+at, body)
	if err != nil {
		return fault.Errorf(fault.Invalid, "address of the peer: %w", err).WithHint("like http://127.0.0.1:5050")
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	res, err := p.client.Do(req)
	if err != nil {
		return fault.Errorf(fault.Unavailable, "call the peer: %w", err).WithHint("start it, or leave --peer out")
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxPeerAnswer))
	if err != nil {
		return fault.Errorf(fault.Unavailable, "read the peer's answer: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return fault.Errorf(fault.Unavailable, "the peer answers %s to %s %s: %s", res.Status, method, at, bytes.TrimSpace(data))
	}
	if to == nil {
		return nil
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fault.Errorf(fault.Unavailable, "the peer's answer to %s %s: %w", method, at, err)
	}
	return nil
}
