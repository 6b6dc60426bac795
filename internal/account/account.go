package account

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"assay/internal/fault"
)

// Config are the settings of a Service. A zero field has the default named.
type Config struct {
	// SessionIdle ends a session that is not used (12 h), SessionLife any (14 days).
	SessionIdle, SessionLife time.Duration
	// TokenLife is how long a token works for which nobody chose (90 days), and
	// a sign-in of the command line.
	TokenLife time.Duration
	// LinkLife is how long a one-time link works (24 h).
	LinkLife time.Duration
	// DeviceLife is how long a sign-in waits for its approval (10 min).
	DeviceLife time.Duration
	// DevicePoll is how often the waiting program may ask (5 s).
	DevicePoll time.Duration
	// Hash is the cost of passwords: DefaultHash.
	Hash HashCost
	// OIDC is nil if nobody signs in with a provider.
	OIDC OIDCConfig
}

// OIDCConfig says who may come from an OIDC provider.
type OIDCConfig struct {
	// Provider is nil for none.
	Provider Provider
	// Name is what the sign-in page calls it ("single sign-on").
	Name string
	// Domains are those of the e-mail addresses that are let in; none is any.
	Domains []string
	// Role is that of who comes for the first time (Member).
	Role Role
}

func (c Config) withDefaults() Config {
	c.SessionIdle = cmp.Or(c.SessionIdle, 12*time.Hour)
	c.SessionLife = cmp.Or(c.SessionLife, 14*24*time.Hour)
	c.TokenLife = cmp.Or(c.TokenLife, 90*24*time.Hour)
	c.LinkLife = cmp.Or(c.LinkLife, 24*time.Hour)
	c.DeviceLife = cmp.Or(c.DeviceLife, 10*time.Minute)
	c.DevicePoll = cmp.Or(c.DevicePoll, 5*time.Second)
	c.Hash = cmp.Or(c.Hash, DefaultHash)
	c.OIDC.Name = cmp.Or(c.OIDC.Name, "single sign-on")
	c.OIDC.Role = cmp.Or(c.OIDC.Role, Member)
	return c
}

// Service signs people and programs in and keeps their accounts. It asks May
// itself, with the actor of the context. Its methods may be called from many
// goroutines.
type Service struct {
	store     Store
	cfg       Config
	log       *slog.Logger
	hashes    *hasher
	addresses *addressLimits
	entries   auditGroup
}

// New makes a Service over a store. It takes as long as one password check.
func New(store Store, cfg Config, log *slog.Logger) (*Service, error) {
	cfg = cfg.withDefaults()
	if err := cfg.OIDC.Role.check(); err != nil {
		return nil, err
	}
	hashes, err := newHasher(cfg.Hash)
	if err != nil {
		return nil, err
	}
	return &Service{store: store, cfg: cfg, log: log, hashes: hashes, addresses: newAddressLimits(), entries: auditGroup{write: store.AddAudit}}, nil
}

// sweepEvery is how often what has expired is removed.
const sweepEvery = 10 * time.Minute

// Run removes what has expired, now and then, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		// Whatever has expired is refused all the same, so the next turn will do.
		if err := s.store.Sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "sweep accounts", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// now is the present as stores keep it.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// tooMany refuses for some time only.
func tooMany(after time.Duration, format string, args ...any) error {
	after = max(after, time.Second)
	return fault.Errorf(fault.Limited, format, args...).WithHint("wait %s and try again", after.Round(time.Second)).TryAfter(after)
}
