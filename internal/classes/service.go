package classes

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"

	"assay/internal/course/class"
	"assay/internal/fault"
)

// Service offers courses to actors, who travel in the context. It may be used
// from many goroutines.
type Service struct {
	store    Store
	book     *class.Book
	blobs    Blobs
	queue    Queue
	events   Events
	accounts Accounts
	folders  *folders
	dir      string

	perMinute int
}

// Options are what a Service stands on; all are required.
type Options struct {
	Store    Store
	Blobs    Blobs
	Queue    Queue
	Events   Events
	Accounts Accounts
	// CacheDir is where uploads lie while they are read. It may be emptied while
	// no process uses it.
	CacheDir string
	// PerMinute is how many attempts somebody who does not run the course may
	// hand in within a minute, to all courses; zero is any number. What is refused
	// does not count.
	PerMinute int
}

// New makes a Service.
func New(o Options) (*Service, error) {
	if err := os.MkdirAll(o.CacheDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for uploads: %w", err)
	}
	return &Service{
		store: o.Store, book: class.NewBook(o.Store), blobs: o.Blobs, queue: o.Queue, events: o.Events, accounts: o.Accounts,
		folders: newFolders(o.Blobs, o.CacheDir), dir: o.CacheDir, perMinute: o.PerMinute,
	}, nil
}

// newID makes an ID that nobody can guess.
func newID() string { return strings.ToLower(rand.Text()) }

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// pageKey is where the page after something begins.
func pageKey(t time.Time, id string) string { return fmt.Sprintf("%d %s", t.UnixMicro(), id) }

// ParsePage reads a Page; "" is the beginning, which is after all.
func ParsePage(page string) (t time.Time, id string, err error) {
	if page == "" {
		return time.UnixMicro(1 << 62), "", nil
	}
	var micros int64
	if n, err := fmt.Sscanf(page, "%d %s", &micros, &id); err != nil || n != 2 {
		return t, "", fault.Errorf(fault.Invalid, "cursor: not one that this server gave")
	}
	return time.UnixMicro(micros), id, nil
}
