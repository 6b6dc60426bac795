package account

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"assay/internal/fault"
)

// Device is a program that waits for somebody to approve it in a browser (RFC
// 8628).
type Device struct {
	// Hash is that of the device code, UserHash that of the user code.
	Hash, UserHash string
	// Client is what the program calls itself; nothing follows from it.
	Client string
	// From is the address that it asks from.
	From   string
	Scopes []Scope
	State  DeviceState
	// User approved or denied it.
	User    string
	Created time.Time
	Expires time.Time
	// Interval is how long the program must wait between two questions, Polled
	// when it asked last.
	Interval time.Duration
	Polled   time.Time
}

// DeviceState is how far an approval is.
type DeviceState string

// The states. Taken is approved, and the token was handed out.
const (
	DevicePending  DeviceState = "pending"
	DeviceApproved DeviceState = "approved"
	DeviceDenied   DeviceState = "denied"
	DeviceTaken    DeviceState = "taken"
)

// What a program is told that asks for its token; the names are those of RFC
// 8628.
var (
	ErrDevicePending  error = fault.Errorf(fault.Conflict, "nobody has approved this yet").WithHint("open the link and approve it, or wait")
	ErrDeviceSlowDown error = fault.Errorf(fault.Conflict, "asked too soon").WithHint("wait five seconds longer between two questions")
	ErrDeviceDenied   error = fault.Errorf(fault.Conflict, "the sign-in was denied")
	ErrDeviceExpired  error = fault.Errorf(fault.Conflict, "the sign-in was not approved in time").WithHint("begin again")
)

// userCodeLetters are consonants, so that no code is a word.
const userCodeLetters = "BCDFGHJKLMNPQRSTVWXZ"

const (
	userCodeLength = 8
	// slowDown is added to the interval of who asks too soon.
	slowDown = 5 * time.Second
	// maxDevices bounds those that wait, since anybody can begin one.
	maxDevices = 10_000
)

func newUserCode() string {
	var b strings.Builder
	buf := make([]byte, 1)
	for b.Len() < userCodeLength {
		rand.Read(buf)
		// 240 is a multiple of the number of letters: each is as likely.
		if buf[0] < 240 {
			b.WriteByte(userCodeLetters[int(buf[0])%len(userCodeLetters)])
		}
	}
	return b.String()
}

// cleanUserCode takes a code as somebody typed it.
func cleanUserCode(code string) string {
	if len(code) > 64 {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(userCodeLetters, r) {
			return r
		}
		return -1
	}, strings.ToUpper(code))
}

// ShowUserCode gives a code as somebody typed it in two halves.
func ShowUserCode(typed string) string {
	code := cleanUserCode(typed)
	if len(code) != userCodeLength {
		return code
	}
	return code[:userCodeLength/2] + "-" + code[userCodeLength/2:]
}

// StartedDevice is what the program is told, once.
type StartedDevice struct {
	DeviceCode string
	// UserCode is in two halves: "BCDF-GHJK".
	UserCode string
	Expires  time.Duration
	Interval time.Duration
}

// StartDevice begins a sign-in of a program; no scope is all.
func (s *Service) StartDevice(ctx context.Context, client string, scopes []Scope, from Caller) (StartedDevice, error) {
	if err := s.addresses.allow(from.Address); err != nil {
		return StartedDevice{}, err
	}
	if len(scopes) == 0 {
		scopes = Scopes()
	}
	scopes, err := checkScopes(scopes)
	if err != nil {
		return StartedDevice{}, err
	}
	client = cutText(strings.TrimSpace(client), maxTokenName)
	if client == "" {
		client = "a program without a name"
	}
	at := now()
	for range 3 {
		code, user := newSecret(""), newUserCode()
		err = s.store.CreateDevice(ctx, Device{
			Hash: hashSecret(code), UserHash: hashSecret(user), Client: client, From: from.Address, Scopes: scopes,
			State: DevicePending, Created: at, Expires: at.Add(s.cfg.DeviceLife), Interval: s.cfg.DevicePoll,
		}, maxDevices)
		if err == nil {
			return StartedDevice{DeviceCode: code, UserCode: ShowUserCode(user), Expires: s.cfg.DeviceLife, Interval: s.cfg.DevicePoll}, nil
		}
		if !fault.Is(err, fault.Conflict) {
			break
		}
	}
	return StartedDevice{}, err
}

// approver is the actor, who must have a session: a token must not make others
// for itself by approving.
func approver(ctx context.Context) (Actor, error) {
	actor := ActorOf(ctx)
	if err := May(actor, Create, Thing{Kind: TokenThing}); err != nil {
		return actor, err
	}
	if actor.Token != "" || actor.User == "" {
		return actor, fault.Errorf(fault.Denied, "a token cannot approve a sign-in").WithHint("sign in with a browser")
	}
	return actor, nil
}

// WaitingDevice shows the actor what a user code asks for. A code that is not
// waiting is NotFound; guessing them is slowed down.
func (s *Service) WaitingDevice(ctx context.Context, userCode string) (Device, error) {
	actor, err := approver(ctx)
	if err != nil {
		return Device{}, err
	}
	key := "code of " + actor.User
	if err := s.guess(ctx, key, nearGuesses); err != nil {
		return Device{}, err
	}
	d, err := s.store.DeviceByUserCode(ctx, hashSecret(cleanUserCode(userCode)))
	if fault.Is(err, fault.NotFound) || err == nil && (d.State != DevicePending || !now().Before(d.Expires)) {
		return Device{}, fault.Errorf(fault.NotFound, "no program waits with the code %.20q", userCode).WithHint("is it typed right? a code works for %s", s.cfg.DeviceLife)
	}
	if err != nil {
		return Device{}, err
	}
	return d, s.takeBack(ctx, key)
}

// DecideDevice approves or denies what waits with a user code. The token is
// made when the program asks for it.
func (s *Service) DecideDevice(ctx context.Context, userCode string, approve bool) (Device, error) {
	d, err := s.WaitingDevice(ctx, userCode)
	if err != nil {
		return Device{}, err
	}
	actor, word, state := ActorOf(ctx), "deny", DeviceDenied
	if approve {
		word, state = "approve", DeviceApproved
	}
	NoteOf(ctx).On(TokenThing, "", word+" sign-in of "+d.Client+" from "+d.From)
	err = s.store.UpdateDevice(ctx, d.Hash, func(w *Device) (*Token, error) {
		if w.State != DevicePending || !now().Before(w.Expires) {
			return nil, fault.Errorf(fault.Conflict, "somebody has answered already")
		}
		w.State, w.User = state, actor.User
		d = *w
		return nil, nil
	})
	return d, err
}

// TakeDeviceToken gives a waiting program its token, once it is approved; until
// then one of the ErrDevice errors, which are no failures.
func (s *Service) TakeDeviceToken(ctx context.Context, deviceCode string) (Token, string, error) {
	var t Token
	var secret string
	var answer error
	err := s.store.UpdateDevice(ctx, hashSecret(deviceCode), func(d *Device) (*Token, error) {
		// A store may run this again.
		answer = nil
		at := now()
		tooSoon := at.Sub(d.Polled) < d.Interval
		d.Polled = at
		switch {
		case d.State == DeviceDenied:
			answer = ErrDeviceDenied
		case d.State == DeviceTaken || !at.Before(d.Expires):
			answer = ErrDeviceExpired
		case tooSoon:
			d.Interval = min(d.Interval+slowDown, time.Minute)
			answer = ErrDeviceSlowDown
		case d.State == DevicePending:
			answer = ErrDevicePending
		default:
			var err error
			if t, secret, err = s.newToken(d.User, NewToken{Name: d.Client, Scopes: d.Scopes}); err != nil {
				return nil, err
			}
			t.From = d.From
			d.State = DeviceTaken
			return &t, nil
		}
		return nil, nil
	})
	if fault.Is(err, fault.NotFound) {
		err = ErrDeviceExpired
	}
	if err == nil {
		err = answer
	}
	if err != nil {
		return Token{}, "", err
	}
	note := NoteOf(ctx)
	note.By(Actor{User: t.User, Token: t.ID})
	note.On(TokenThing, t.ID, "sign-in of "+t.Name)
	return t, secret, nil
}
