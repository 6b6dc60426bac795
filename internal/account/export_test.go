package account

// HashWork is how much hashing the service has done: KiB times passes.
func (s *Service) HashWork() int64 { return s.hashes.work.Load() }
