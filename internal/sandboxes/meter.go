package sandboxes

import (
	"context"
	"time"
)

// used is what a sandbox used since it was last asked.
func (l *live) used(now time.Time) []Used {
	l.mu.Lock()
	defer l.mu.Unlock()
	cpu := l.sb.Usage().CPU
	u := Used{Sandbox: l.rec.ID, Owner: l.rec.Owner, Token: l.rec.Token, Day: dayOf(now), CPU: cpu - l.counted}
	u.ByteSeconds = float64(l.rec.Shape.Memory) * max(0, now.Sub(l.at).Seconds())
	l.counted, l.at = cpu, now
	return []Used{u}
}

// putBack takes back what used gave, when the store did not take it.
func (l *live) putBack(u Used) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counted -= u.CPU
	l.at = l.at.Add(-time.Duration(u.ByteSeconds / float64(l.rec.Shape.Memory) * float64(time.Second)))
}

// count writes what all live sandboxes used, and ends those of owners whose
// processor time of the day is used up.
func (s *Service) count(ctx context.Context) error {
	s.mu.Lock()
	var all []*live
	for _, l := range s.live {
		all = append(all, l)
	}
	s.mu.Unlock()
	now := time.Now()
	var sum []Used
	for _, l := range all {
		sum = append(sum, l.used(now)...)
	}
	if len(sum) == 0 {
		return nil
	}
	if err := s.o.Store.AddUsage(ctx, sum); err != nil {
		for i, l := range all {
			l.putBack(sum[i])
		}
		return err
	}
	return s.endSpent(ctx, all, dayOf(now))
}

// endSpent ends the sandboxes of those whose processor time of the day is used
// up.
func (s *Service) endSpent(ctx context.Context, all []*live, day time.Time) error {
	held := map[[2]string]time.Duration{}
	for _, l := range all {
		for _, sh := range s.shares(l.by) {
			if sh.CPUPerDay == 0 {
				continue
			}
			key := [2]string{sh.owner, sh.token}
			used, known := held[key]
			if !known {
				have, err := s.o.Store.Held(ctx, sh.owner, sh.token, day)
				if err != nil {
					return err
				}
				used = have.CPU
				held[key] = used
			}
			if used < sh.CPUPerDay {
				continue
			}
			s.o.Log.Warn("end a sandbox: the processor time of the day is used up", "sandbox", l.rec.ID, "owner", sh.owner, "token", sh.token)
			if err := l.destroy("the processor time of the day is used up"); err != nil {
				s.o.Log.Error("end a sandbox", "sandbox", l.rec.ID, "err", err)
			}
		}
	}
	return nil
}
