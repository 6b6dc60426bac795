package fake

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
)

// guestd serves session after session until the machine ends.
func (m *machine) guestd() {
	mux := http.NewServeMux()
	for path, h := range map[string]http.HandlerFunc{
		"GET " + guest.PathHello:     m.hello,
		"POST " + guest.PathIdentity: m.identity,
		"POST " + guest.PathQuiesce:  m.quiesce,
		"POST " + guest.PathExec:     m.exec,
		"POST " + guest.PathKill:     m.kill,
		"POST " + guest.PathPort:     m.port,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if !m.awake(r.Context()) {
				return // nobody is there to be told
			}
			h(w, r)
		})
	}
	asked := false
	for {
		s, err := guest.Accept(m.inside, asked)
		if err != nil {
			return
		}
		m.mu.Lock()
		m.session = s
		m.mu.Unlock()
		asked = guest.Serve(s, mux)
	}
}

// awake waits until the machine is not paused; false when the session or the
// machine ended before.
func (m *machine) awake(ctx context.Context) bool {
	stop := context.AfterFunc(ctx, m.wake)
	defer stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.paused && !m.dead && ctx.Err() == nil {
		m.changed.Wait()
	}
	return !m.dead && ctx.Err() == nil
}

func (m *machine) hello(w http.ResponseWriter, _ *http.Request) {
	m.mu.Lock()
	h := guest.Hello{Version: guest.Version, Generation: m.generation, Now: time.Now()}
	m.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(h) // a broken session has nobody to tell
}

func (m *machine) identity(w http.ResponseWriter, r *http.Request) {
	var id guest.Identity
	if err := json.NewDecoder(r.Body).Decode(&id); err != nil {
		guest.WriteFault(w, fault.Errorf(fault.Invalid, "decode identity: %w", err))
		return
	}
	m.mu.Lock()
	m.hostname, m.machineID, m.generation = id.Hostname, id.MachineID, id.Generation
	m.files["/etc/machine-id"] = []byte(id.MachineID + "\n")
	m.files["/run/assay/generation"] = []byte(strconv.FormatInt(id.Generation, 10) + "\n")
	m.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

func (m *machine) quiesce(w http.ResponseWriter, _ *http.Request) {
	m.mu.Lock()
	m.session.EndWhenAsked()
	m.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

func (m *machine) kill(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get("key")
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.commands[key]
	if !ok {
		guest.WriteFault(w, fault.Errorf(fault.NotFound, "no command with key %s", key))
		return
	}
	if !c.finished {
		c.kill(guest.Killed)
	}
	w.WriteHeader(http.StatusNoContent)
}

// exec starts a command or attaches to it.
func (m *machine) exec(w http.ResponseWriter, r *http.Request) {
	in := guest.NewFrameReader(bufio.NewReader(r.Body))
	t, p, err := in.Next()
	var att guest.Attach
	if err == nil && t == guest.FrameSpec {
		err = json.Unmarshal(p, &att)
	}
	if err != nil || t != guest.FrameSpec {
		guest.WriteFault(w, fault.Errorf(fault.Invalid, "exec stream does not begin with its spec"))
		return
	}
	m.mu.Lock()
	c, ok := m.commands[att.Spec.Key]
	if !ok {
		if c, err = m.launch(att); err != nil {
			m.mu.Unlock()
			guest.WriteFault(w, err)
			return
		}
	}
	c.stdin.ended = c.stdin.ended || att.NoInput
	started := guest.Started{PID: c.main, Stdin: c.stdin.total}
	c.feeder++
	turn := c.feeder
	m.mu.Unlock()

	stop := context.AfterFunc(r.Context(), m.wake)
	defer stop()
	out := &frameWriter{w: w, rc: http.NewResponseController(w)}
	if out.json(guest.FrameStarted, started) != nil {
		return
	}
	var sides sync.WaitGroup
	// The feeder ends with the request's body, which ends with this handler.
	go m.feed(r.Context(), in, c, turn)
	for i, s := range []*stream{c.stdout, c.stderr} {
		from, t := att.StdoutFrom, guest.FrameStdout
		if i == 1 {
			from, t = att.StderrFrom, guest.FrameStderr
		}
		sides.Go(func() { m.deliver(r.Context(), out, s, from, t) })
	}
	sides.Wait()
	m.mu.Lock()
	for !c.finished && !m.dead && r.Context().Err() == nil {
		m.changed.Wait()
	}
	res, finished := c.result, c.finished
	m.mu.Unlock()
	if !finished || r.Context().Err() != nil {
		return
	}
	if out.json(guest.FrameResult, res) == nil {
		m.mu.Lock()
		delete(m.commands, c.spec.Key)
		m.mu.Unlock()
	}
}

// feed gives a command its input, as long as no later session does.
func (m *machine) feed(ctx context.Context, in *guest.FrameReader, c *command, turn int) {
	for {
		t, p, err := in.Next()
		if err != nil {
			return
		}
		m.mu.Lock()
		for len(c.stdin.buf) > pipeSize && !c.finished && !m.dead && ctx.Err() == nil {
			m.changed.Wait()
		}
		ok := c.feeder == turn && !c.finished && !m.dead && ctx.Err() == nil
		switch {
		case !ok:
		case t == guest.FrameStdin:
			c.stdin.buf = append(c.stdin.buf, p...)
			c.stdin.total += int64(len(p))
		case t == guest.FrameEOF:
			c.stdin.ended = true
		}
		m.changed.Broadcast()
		m.mu.Unlock()
		if !ok || t == guest.FrameEOF {
			return
		}
	}
}

// deliver sends a stream from an offset to its end.
func (m *machine) deliver(ctx context.Context, out *frameWriter, s *stream, from int64, t guest.FrameType) {
	buf := make([]byte, 64<<10)
	for {
		m.mu.Lock()
		for !m.dead && ctx.Err() == nil && (m.paused || from >= int64(len(s.buf)) && !s.closed) {
			m.changed.Wait()
		}
		n := 0
		if !m.dead && ctx.Err() == nil && from < int64(len(s.buf)) {
			n = copy(buf, s.buf[from:])
			from += int64(n)
			s.sent = max(s.sent, from)
			m.changed.Broadcast()
		}
		m.mu.Unlock()
		if n == 0 || out.frame(t, buf[:n]) != nil {
			return
		}
	}
}

// frameWriter writes frames of several goroutines to one answer.
type frameWriter struct {
	mu sync.Mutex
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (f *frameWriter) frame(t guest.FrameType, p []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := guest.WriteFrame(f.w, t, p); err != nil {
		return err
	}
	return f.rc.Flush()
}

func (f *frameWriter) json(t guest.FrameType, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return f.frame(t, b)
}
