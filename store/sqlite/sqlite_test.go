package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

func open(t testing.TB, path string) *Store {
	t.Helper()
	return storetest.Opened[*Store](t)(Open(t.Context(), path, Options{}))
}

func fresh(t testing.TB) *Store { return open(t, filepath.Join(t.TempDir(), "regent.db")) }

func held(name, holder string, nonce uint64) driver.Record {
	return driver.Record{
		Name: name, Holder: driver.Identity{ID: holder, Incarnation: holder + "-1"}, Epoch: 1, Nonce: nonce,
		Duration: 6 * time.Second,
	}
}

// raw opens the file as an operator would.
func raw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, "mode=rwc"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func run(t testing.TB, db *sql.DB, query string) {
	t.Helper()
	if _, err := db.Exec(query); err != nil {
		t.Fatal(err)
	}
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Open {
		path := filepath.Join(t.TempDir(), "regent.db")
		return func() (driver.Store, error) { return Open(t.Context(), path, Options{}) }
	})
}

func TestNamesAreExact(t *testing.T) {
	s := fresh(t)
	all := []string{"a", "A", "a%", "a_", "ab", "a/b", "é", "è", "日本", "日", "'; DROP TABLE regent_lease; --",
		"a\U0010FFFF"}
	for i, name := range all {
		storetest.Swap(t, s, held(name, "h", uint64(i+1)))
	}

	for _, prefix := range append([]string{"", "a%", "\xc3", "日", "\U0010FFFF", "x", "\xff"}, all...) {
		var want []string
		for _, name := range all {
			if strings.HasPrefix(name, prefix) {
				want = append(want, name)
			}
		}

		slices.Sort(want)
		if got := storetest.Names(t, s, prefix); !slices.Equal(got, want) {
			t.Errorf("prefix %q: %q, not %q", prefix, got, want)
		}
	}
}

func TestListLeavesTheStoreFree(t *testing.T) {
	s := fresh(t)
	var ls []driver.Record
	for i := range 3*listPage + 1 {
		ls = append(ls, held(fmt.Sprintf("e/%05d", i), "a", 1))
	}

	for _, o := range s.SwapAll(t.Context(), ls) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
	}

	n := 0
	for l, err := range s.List(t.Context(), "e/") {
		if err != nil {
			t.Fatal(err)
		}
		l.Nonce++
		storetest.Swap(t, s, l)
		n++
	}

	if n != len(ls) {
		t.Errorf("%d of %d", n, len(ls))
	}
}

func TestSwapOutcomes(t *testing.T) {
	s := fresh(t)
	l := storetest.Swap(t, s, held("x", "a", 1))
	for fact, rev := range map[string]string{"created_twice": "", "older": "1", "no_number": "v1",
		"another_spelling": "0" + l.Rev} {
		t.Run(fact, func(t *testing.T) {
			c := l
			c.Rev = rev
			if _, err := s.Swap(t.Context(), c); !errors.Is(err, driver.ErrConflict) {
				t.Error(err)
			}
		})
	}

	t.Run("a_batch_has_an_outcome_for_each", func(t *testing.T) {
		stale := l
		stale.Rev = "1"
		out := s.SwapAll(t.Context(), []driver.Record{l, l, stale, held("y", "b", 1), held("y", "c", 1)})
		for i, applied := range []bool{true, false, false, true, false} {
			if applied != (out[i].Err == nil) || !applied && !errors.Is(out[i].Err, driver.ErrConflict) {
				t.Errorf("%d: %v", i, out[i].Err)
			}
		}

		got, err := s.Get(t.Context(), "y")
		if err != nil || got.Holder.ID != "b" || got.Rev != out[3].Record.Rev {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestTenThousandInOneCall(t *testing.T) {
	s := fresh(t)
	ls := make([]driver.Record, 10_000)
	for i := range ls {
		ls[i] = held(fmt.Sprintf("e/%05d", i), "a", 1)
	}

	for _, what := range []string{"created", "renewed", "released"} {
		began := time.Now()
		out := s.SwapAll(t.Context(), ls)
		t.Logf("%s in %v", what, time.Since(began))
		for i, o := range out {
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			ls[i] = o.Record
			ls[i].Nonce++
			if what == "renewed" {
				ls[i].Holder = driver.Identity{}
			}
		}
	}
}

func TestAWriterElsewhere(t *testing.T) {
	s := fresh(t)
	l := storetest.Swap(t, s, held("x", "a", 1))
	db := raw(t, s.path)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}

	t.Run("does_not_keep_readers_waiting", func(t *testing.T) {
		if got, err := s.Get(t.Context(), "x"); err != nil || got.Rev != l.Rev {
			t.Error(got, err)
		}
	})

	t.Run("does_not_hold_up_a_context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()

		go func() {
			for !s.blocked.Load() && ctx.Err() == nil { // until it has tried
				<-time.After(time.Millisecond)
			}
			cancel()
		}()

		_, err := s.Swap(ctx, l)
		if !errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrConflict) {
			t.Error(err)
		}
		if !strings.Contains(err.Error(), "held the write lock of "+s.path) {
			t.Error("the error does not say why")
		}

		if out := s.SwapAll(ctx, []driver.Record{l, l}); len(out) != 2 || !errors.Is(out[1].Err, context.Canceled) {
			t.Error(out)
		}
	})

	t.Run("is_waited_for", func(t *testing.T) {
		done := make(chan error)
		// Another register: the swap that nobody waited for may yet be applied.
		go func() { _, err := s.Swap(t.Context(), held("y", "a", 1)); done <- err }()
		if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}

		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestClose(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "regent.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}

	l := storetest.Swap(t, s, held("x", "a", 1))
	for range 20 {
		s.Subscribe(t.Context(), driver.Prefix("x"))
	}

	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}

	_, got := s.Get(t.Context(), "x")
	_, swapped := s.Swap(t.Context(), l)
	for _, err := range []error{got, swapped} {
		if !errors.Is(err, driver.ErrClosed) {
			t.Error(err)
		}
	}

	for _, err := range s.List(t.Context(), "") {
		if !errors.Is(err, driver.ErrClosed) {
			t.Error(err)
		}
	}

	if out := s.SwapAll(t.Context(), []driver.Record{l}); !errors.Is(out[0].Err, driver.ErrClosed) {
		t.Error(out)
	}

	if c := s.Subscribe(t.Context(), driver.Prefix("x")); c == nil || s.Gone(t.Context(), l) {
		t.Error("a closed store wakes or witnesses")
	}

	noGoroutines(t)
}

// noGoroutines waits until nothing of this package, or of a database, runs besides the test.
func noGoroutines(t *testing.T) {
	t.Helper()
	buf := make([]byte, 1<<20)
	for end := time.Now().Add(10 * time.Second); ; <-time.After(time.Millisecond) {
		left := 0
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if (strings.Contains(g, "store/sqlite.(") || strings.Contains(g, "database/sql")) &&
				!strings.Contains(g, "testing.tRunner") {
				left++
			}
		}

		if left == 0 {
			return
		}

		if time.Now().After(end) {
			t.Fatalf("goroutines left:\n%s", buf[:runtime.Stack(buf, true)])
		}
	}
}
