package sandboxes

import "context"

// What Run does now and then, for tests that do not wait.
func (s *Service) Repair(ctx context.Context) error { return s.repair(ctx) }
func (s *Service) Count(ctx context.Context) error  { return s.count(ctx) }
