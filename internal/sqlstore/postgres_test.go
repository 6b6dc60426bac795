package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"assay/internal/course/class"
	"assay/internal/fault"
	"assay/internal/sqlstore/sqltest"
)

func TestManyOpenPostgresAtOnce(t *testing.T) {
	t.Parallel()
	d := sqltest.Postgres(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			db, err := OpenURL(t.Context(), d.URL)
			if err != nil {
				t.Error(err)
				return
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestTextsAreInTheOrderOfBytes holds on a server whose own order is that of a
// language.
func TestTextsAreInTheOrderOfBytes(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func(t *testing.T) *DB) {
		s := open(t).Courses()
		want := []string{"B", "Z", "a", "a-b", "aa", "ä"}
		for i := range want {
			if err := s.CreateCourse(t.Context(), class.Course{ID: want[(i+3)%len(want)]}); err != nil {
				t.Fatal(err)
			}
		}
		courses, err := s.Courses(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range courses {
			got = append(got, c.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("courses (-want +got):\n%s", diff)
		}
	})
}

func TestWritersOfOtherCoursesDoNotWait(t *testing.T) {
	t.Parallel()
	s := openPostgres(t, sqltest.Postgres(t)).Courses()
	for _, id := range []string{"a", "b"} {
		if err := s.CreateCourse(t.Context(), class.Course{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	err := s.Write(t.Context(), "a", func(class.Records) error {
		// If they shared a lock, this would fail after busyTimeout.
		return s.Write(t.Context(), "b", func(r class.Records) error { return r.PutPerson(t.Context(), class.Person{ID: "p"}) })
	})
	if err != nil {
		t.Error(err)
	}
}

// TestCollisionsAreTriedAgain has transactions take the same two rows in another
// order, so that PostgreSQL undoes one of each two.
func TestCollisionsAreTriedAgain(t *testing.T) {
	t.Parallel()
	db := openPostgres(t, sqltest.Postgres(t))
	ids := []string{"a", "b"}
	for _, id := range ids {
		if err := db.Courses().CreateCourse(t.Context(), class.Course{ID: id, Title: "0"}); err != nil {
			t.Fatal(err)
		}
	}
	const each = 5
	var wg sync.WaitGroup
	var mu sync.Mutex
	tries := 0
	// The first ones wait for each other between the two rows.
	meet := make(chan struct{})
	var first sync.WaitGroup
	first.Add(2)
	go func() { first.Wait(); close(meet) }()
	for worker := range 2 {
		order := slices.Clone(ids)
		if worker == 1 {
			slices.Reverse(order)
		}
		wg.Go(func() {
			once := sync.OnceFunc(first.Done)
			for range each {
				err := db.write(t.Context(), "count", func(tx *sql.Tx) error {
					mu.Lock()
					tries++
					mu.Unlock()
					for _, id := range order {
						if _, err := tx.ExecContext(t.Context(), `UPDATE courses SET title = CAST(CAST(title AS BIGINT) + 1 AS TEXT) WHERE id = $1`, id); err != nil {
							return err
						}
						once()
						<-meet
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	courses, err := db.Courses().Courses(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range courses {
		if c.Title != fmt.Sprint(2*each) {
			t.Errorf("%s was counted to %s, want %d", c.ID, c.Title, 2*each)
		}
	}
	if tries <= 2*each {
		t.Errorf("%d tries: no two transactions have collided", tries)
	}
}

func TestCollisionsAreBounded(t *testing.T) {
	t.Parallel()
	db := &DB{name: "postgres://x/y", postgres: true}
	tries := 0
	err := db.explain("count", db.again(t.Context(), func() error {
		tries++
		return &pgconn.PgError{Code: pgSerialization}
	}))
	if !fault.Is(err, fault.Unavailable) || tries != transactTries {
		t.Errorf("%d tries, then %v", tries, err)
	}
}

func TestLostConnections(t *testing.T) {
	t.Parallel()
	d := sqltest.Postgres(t)
	db := openPostgres(t, d)
	s := db.Courses()
	if err := s.CreateCourse(t.Context(), class.Course{ID: "c"}); err != nil {
		t.Fatal(err)
	}
	err := s.Write(t.Context(), "c", func(r class.Records) error {
		if err := r.PutPerson(t.Context(), class.Person{ID: "lost"}); err != nil {
			return err
		}
		if n := d.CutConnections(t); n == 0 {
			t.Error("there was no connection to cut")
		}
		return r.PutPerson(t.Context(), class.Person{ID: "p"})
	})
	if !fault.Is(err, fault.Unavailable) || fault.HintOf(err) == "" {
		t.Errorf("cut in the middle: %v (%s), want it to be unavailable", err, fault.KindOf(err))
	}
	// The pool replaces what is broken by itself.
	err = s.Read(t.Context(), "c", func(r class.Records) error {
		st, err := r.State(t.Context(), "")
		if len(st.People) != 0 {
			t.Errorf("people are %v, want none", st.People)
		}
		return err
	})
	if err != nil {
		t.Errorf("after that: %v", err)
	}
	if err := db.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLostWhileItCommits(t *testing.T) {
	t.Parallel()
	d := sqltest.Postgres(t)
	s := openPostgres(t, d).Courses()
	if err := s.CreateCourse(t.Context(), class.Course{ID: "c"}); err != nil {
		t.Fatal(err)
	}
	err := s.Write(t.Context(), "c", func(r class.Records) error {
		defer d.CutConnections(t)
		return r.PutPerson(t.Context(), class.Person{ID: "p"})
	})
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v (%s), want it to be unavailable", err, fault.KindOf(err))
	}
}

func TestPostgresKinds(t *testing.T) {
	t.Parallel()
	db := openPostgres(t, sqltest.Postgres(t))
	raise := func(code string) error {
		_, err := db.writer.ExecContext(t.Context(), `DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '`+code+`'; END $$`)
		return db.explain("try", err)
	}
	for code, want := range map[string]fault.Kind{
		"53100": fault.Exhausted, "53200": fault.Unavailable, "53300": fault.Unavailable, "40P01": fault.Unavailable,
		"57P01": fault.Unavailable, "08006": fault.Unavailable, "55P03": fault.Unavailable, "42501": fault.Unavailable,
		"23505": fault.Internal, "P0001": fault.Internal,
	} {
		if err := raise(code); fault.KindOf(err) != want {
			t.Errorf("%s: %v (%s), want %s", code, err, fault.KindOf(err), want)
		}
	}
	if err := db.Courses().CreateCourse(t.Context(), class.Course{ID: "a\x00b"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a zero byte: %v (%s)", err, fault.KindOf(err))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := db.exec(ctx, "sleep", `SELECT pg_sleep(20)`); !fault.Is(err, fault.Unavailable) {
		t.Errorf("too slow: %v (%s)", err, fault.KindOf(err))
	}
}

func TestPostgresThatIsNotThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, err = OpenURL(t.Context(), "postgres://me:hush@"+l.Addr().String()+"/assay?sslmode=disable")
	if !fault.Is(err, fault.Unavailable) || fault.HintOf(err) == "" {
		t.Errorf("nobody listens: %v (%s)", err, fault.KindOf(err))
	}
	if err != nil && strings.Contains(err.Error(), "hush") {
		t.Errorf("the password is in %q", err)
	}
	u, err := url.Parse(sqltest.Postgres(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/none"
	_, err = OpenURL(t.Context(), u.String())
	if !fault.Is(err, fault.Unavailable) || fault.HintOf(err) == "" {
		t.Errorf("no such database: %v (%s)", err, fault.KindOf(err))
	}
}

func TestBadURLsShowNoPassword(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "mysql://me:hush@h/db", "postgres://me:hush@h:port/db", "postgres://me:hush@[h/db", "postgres://me:hush%zz@h/db", "postgres://me:hu sh@h/db",
		"postgres://me@h/db?password=hush&sslmode=none", "postgres://me:hush@h/db?sslmode=hush", "postgres://me:hush@h/db?connect_timeout=hush", "host=h password=hush",
	} {
		_, err := OpenURL(t.Context(), text)
		if !fault.Is(err, fault.Invalid) || fault.HintOf(err) == "" {
			t.Errorf("%s: %v (%s)", text, err, fault.KindOf(err))
			continue
		}
		if shown := err.Error() + fault.HintOf(err); strings.Contains(shown, "hush") || strings.Contains(shown, "hu sh") {
			t.Errorf("the password is in %q", shown)
		}
	}
}
