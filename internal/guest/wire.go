package guest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"time"

	"assay/internal/fault"
)

// The paths of guestd's requests. Those not listed here are in the file of
// their client calls.
const (
	PathHello    = "/v1/hello"
	PathIdentity = "/v1/identity"
	PathQuiesce  = "/v1/quiesce"
	PathExec     = "/v1/exec"
	PathKill     = "/v1/exec/kill"
)

// Hello is guestd's answer to the first request of a session.
type Hello struct {
	Version int `json:"version"`
	// Generation is the Identity's generation last set, 0 after a cold boot.
	Generation int64 `json:"generation"`
	// Now is the guest's wall clock.
	Now time.Time `json:"now"`
}

// Identity is what must be new in every machine before it is handed out: a
// restored machine is otherwise a twin of its siblings.
type Identity struct {
	Hostname  string `json:"hostname"`
	MachineID string `json:"machine_id"` // 32 hex digits
	// Now is the host's wall clock; guestd sets the guest's to it where the
	// guest keeps its own.
	Now time.Time `json:"now"`
	// Entropy is mixed into the guest kernel's pool.
	Entropy []byte `json:"entropy"`
	// Generation grows with each restore; guestd publishes it at
	// /run/assay/generation so that warm programs know to reseed.
	Generation int64 `json:"generation"`
	// Interface is what the guest's one network interface is to be, where guestd
	// has to set it up: in a virtual machine that has one.
	Interface *Interface `json:"interface,omitempty"`
}

// Interface is how a guest's network is set up. Names are not resolved.
type Interface struct {
	Address netip.Prefix `json:"address"`
	// Gateway is where everything goes.
	Gateway netip.Addr `json:"gateway"`
}

// Attach is the first frame of an exec stream: start the command of Spec, or
// go on reading one with the same key from the given offsets.
type Attach struct {
	Spec ExecSpec `json:"spec"`
	// Only says that the command must exist already (after a broken session).
	Only bool `json:"only,omitempty"`
	// Tell asks for FrameStarted and FrameEnded at the moment that they speak of.
	// Else the one comes with the first bytes that follow, and the other not at all:
	// each wakes the host.
	Tell bool `json:"tell,omitempty"`
	// NoInput says that stdin is empty: nothing of it will be sent.
	NoInput bool `json:"no_input,omitempty"`
	// StdoutFrom and StderrFrom are the bytes the caller already has.
	StdoutFrom int64 `json:"stdout_from,omitempty"`
	StderrFrom int64 `json:"stderr_from,omitempty"`
}

// Started is the first frame of an exec's answer.
type Started struct {
	PID int `json:"pid"`
	// Stdin is how many bytes of stdin the program's pipe has taken: where a
	// caller that attaches again goes on.
	Stdin int64 `json:"stdin"`
}

// WireFault is a fault on its way from guestd to the host.
type WireFault struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
}

// ToWire makes a WireFault of any error.
func ToWire(err error) WireFault {
	return WireFault{Kind: fault.KindOf(err).String(), Text: err.Error(), Hint: fault.HintOf(err)}
}

// Fault makes the fault again on the host.
func (w WireFault) Fault() *fault.Error {
	return &fault.Error{Kind: fault.ParseKind(w.Kind), Text: "guestd: " + w.Text, Hint: w.Hint}
}

var kindStatus = map[fault.Kind]int{
	fault.Invalid: http.StatusBadRequest, fault.NotFound: http.StatusNotFound, fault.Conflict: http.StatusConflict,
	fault.Exhausted: http.StatusInsufficientStorage, fault.Unavailable: http.StatusServiceUnavailable,
	fault.Unsupported: http.StatusNotImplemented, fault.Denied: http.StatusForbidden,
}

// WriteFault answers a request with a fault, before anything else was written.
func WriteFault(w http.ResponseWriter, err error) {
	status, ok := kindStatus[fault.KindOf(err)]
	if !ok {
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(ToWire(err)) // a broken session has nobody to tell
}

// maxReply bounds a JSON answer of guestd, in bytes.
const maxReply = 64 << 20

// decodeReply reads a JSON answer, or the fault in its place.
func decodeReply(resp *http.Response, out any) error {
	defer resp.Body.Close()
	body := io.LimitReader(resp.Body, maxReply)
	if resp.StatusCode/100 != 2 {
		var w WireFault
		if err := json.NewDecoder(body).Decode(&w); err != nil {
			return fault.Errorf(fault.Unavailable, "guestd answered %s without a reason", resp.Status)
		}
		return w.Fault()
	}
	if out == nil {
		_, err := io.Copy(io.Discard, body)
		return err
	}
	return json.NewDecoder(body).Decode(out)
}
