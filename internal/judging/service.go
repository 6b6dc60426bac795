package judging

import (
	"fmt"
	"os"

	"assay/internal/judge"
)

// Service offers the judge to actors, who travel in the context. It may be used
// from many goroutines.
type Service struct {
	store     Store
	blobs     Blobs
	queue     Queue
	events    Events
	packages  *packages
	languages *judge.Languages
	perMinute int
}

// Options are what a Service stands on; all are required.
type Options struct {
	Store  Store
	Blobs  Blobs
	Queue  Queue
	Events Events
	// CacheDir is where packages that are in use lie. It may be emptied while no
	// process uses it.
	CacheDir string
	// PerMinute is how many submissions somebody who runs no contests may send in a
	// minute; zero is no bound.
	PerMinute int
}

// New makes a Service.
func New(o Options) (*Service, error) {
	languages, err := judge.DefaultLanguages()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.CacheDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for problem packages: %w", err)
	}
	p := &packages{blobs: o.Blobs, dir: o.CacheDir, held: map[string]*held{}}
	if err := p.tidy(); err != nil {
		return nil, fmt.Errorf("tidy the folder for problem packages: %w", err)
	}
	return &Service{store: o.Store, blobs: o.Blobs, queue: o.Queue, events: o.Events, languages: languages, perMinute: o.PerMinute, packages: p}, nil
}

// Close lets go of the packages that are kept open. No call is under way.
func (s *Service) Close() error { return s.packages.close() }

// Languages are all that can be submitted, by ID.
func (s *Service) Languages() []judge.Language {
	var list []judge.Language
	for _, id := range s.languages.IDs() {
		l, err := s.languages.ByID(id)
		if err != nil {
			// IDs are those that ByID knows.
			panic(err)
		}
		list = append(list, l)
	}
	return list
}
