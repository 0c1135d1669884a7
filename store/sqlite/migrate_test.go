package sqlite

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// schema1 is the schema of version 1, whose revisions were numbers.
const schema1 = `
CREATE TABLE regent_lease (
	name   TEXT    NOT NULL PRIMARY KEY,
	rev    INTEGER NOT NULL,
	moved  INTEGER NOT NULL,
	writer TEXT    NOT NULL,
	record TEXT    NOT NULL
);
CREATE INDEX regent_lease_moved ON regent_lease (moved);
CREATE TRIGGER regent_lease_stays BEFORE DELETE ON regent_lease BEGIN
	SELECT raise(ABORT, 'regent: a register is never deleted, or its epoch would begin again');
END;
CREATE TRIGGER regent_lease_grows BEFORE UPDATE ON regent_lease WHEN new.rev <= old.rev BEGIN
	SELECT raise(ABORT, 'regent: a change must be seen: set rev = rev + 1 as well');
END;
INSERT INTO regent_lease VALUES
	('a', 1700000000000001, 1, '', '{"epoch":3,"nonce":"a","duration":"6s","holder":"h","incarnation":"h-1"}'),
	('b', 1700000000000002, 2, '', '{"epoch":4,"nonce":"b","duration":"6s"}');
PRAGMA user_version = 1;`

// version1 makes a database of version 1, with the registers a and b, and tables of its user's beside them.
func version1(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "regent.db")
	db := raw(t, path)
	run(t, db, `CREATE TABLE orders (id INTEGER); INSERT INTO orders VALUES (1)`)
	run(t, db, schema1)
	run(t, db, `CREATE VIEW leaders AS SELECT name, record->>'holder' AS holder FROM regent_lease`)
	return path
}

func TestADatabaseOfVersion1(t *testing.T) {
	t.Run("is_opened_with_all_that_is_in_it", func(t *testing.T) {
		path := version1(t)
		s := open(t, path)
		l, err := s.Get(t.Context(), "a")
		if err != nil || l.Rev != "1700000000000001" || l.Epoch != 3 || l.Holder.ID != "h" {
			t.Errorf("register a shows %+v, %v", l, err)
		}

		l.Nonce++
		l = storetest.Swap(t, s, l)
		if got, err := open(t, path).Get(t.Context(), "a"); err != nil || got.Rev != l.Rev || got.Nonce != l.Nonce {
			t.Errorf("register a shows %+v, %v", got, err)
		}

		var orders, leaders, version int
		var kind string
		row := raw(t, path).QueryRow(`
			SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM leaders), user_version,
			(SELECT typeof(rev) FROM regent_lease WHERE name = 'b') FROM pragma_user_version`)

		err = row.Scan(&orders, &leaders, &version, &kind)
		if err != nil || orders != 1 || leaders != 2 || version != schemaVersion || kind != "text" {
			t.Errorf("%d orders, %d leaders, version %d, revisions are %s: %v", orders, leaders, version, kind, err)
		}
	})

	t.Run("is_opened_by_many_at_once", func(t *testing.T) {
		path := version1(t)
		errs := make(chan error)
		for range 8 {
			go func() {
				s, err := Open(t.Context(), path, Options{})
				if err == nil {
					_, err = s.Get(t.Context(), "b")
					err = errors.Join(err, s.Close())
				}
				errs <- err
			}()
		}

		for range 8 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})

	t.Run("may_be_restored_into_a_live_one", func(t *testing.T) {
		copied := version1(t)
		a := fresh(t)
		b := open(t, a.path)
		storetest.Swap(t, a, held("a", "h", 1))
		restore(t, a, copied)

		failed := 0
		for i := range 20 {
			s := []*Store{a, b}[i%2]
			l, err := s.Get(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}

			for _, o := range s.Refresh(t.Context(), []driver.Record{l}) {
				if o.Err != nil || o.Record.Rev != l.Rev {
					t.Fatalf("refresh shows %+v, %v", o.Record, o.Err)
				}
			}

			l.Nonce++
			switch got, err := s.Swap(t.Context(), l); {
			case errors.Is(err, driver.ErrConflict):
				t.Fatal(err)
			case err != nil:
				failed++
			case got.Rev == l.Rev:
				t.Fatalf("revision %q twice", l.Rev)
			}
		}

		if failed > 2 {
			t.Errorf("%d of 20 swaps failed, want at most one by each store", failed)
		}
	})
}

func TestRevisionsNeverComeTwice(t *testing.T) {
	now := time.Now()
	seen := map[string]bool{}
	give := func(t *testing.T, r *revisions, at time.Time) {
		t.Helper()
		rev, _ := r.next(at)
		if seen[rev] {
			t.Fatalf("revision %q came before", rev)
		}
		seen[rev] = true
	}

	t.Run("in_stores_that_write_at_one_time", func(t *testing.T) {
		a, b := newRevisions(), newRevisions()
		for range 3 {
			give(t, &a, now)
			give(t, &b, now)
		}
	})

	t.Run("while_the_clock_is_set_back", func(t *testing.T) {
		r := newRevisions()
		for i := range 10 {
			give(t, &r, now.Add(-time.Duration(i)*time.Microsecond))
		}
	})

	t.Run("in_a_process_that_was_frozen_and_restored_as_it_was", func(t *testing.T) {
		r := newRevisions()
		give(t, &r, now)
		image := r
		give(t, &r, now)
		give(t, &image, now.Add(time.Second))
	})
}
