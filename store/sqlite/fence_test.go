package sqlite

import (
	"database/sql"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regentd/regent"
	"github.com/regentd/regent/storetest"
)

// guarded is an application's database with a table of orders, each written under a fence.
type guarded struct {
	t  *testing.T
	db *sql.DB
}

func newGuarded(t *testing.T) guarded {
	t.Helper()
	g := guarded{t, raw(t, filepath.Join(t.TempDir(), "app.db"))}
	run(t, g.db, "CREATE TABLE orders (id INTEGER)")
	return g
}

// order writes one order in a term's transaction.
func (g guarded) order(term regent.Term) error {
	g.t.Helper()
	tx, err := g.db.Begin()
	if err != nil {
		g.t.Fatal(err)
	}
	defer tx.Rollback()

	if err := Fence(g.t.Context(), tx, term); err != nil {
		return err
	}

	if _, err := tx.Exec("INSERT INTO orders VALUES (?)", int64(term.Epoch)); err != nil {
		g.t.Fatal(err)
	}
	return tx.Commit()
}

// taken fails unless the terms' orders are written.
func (g guarded) taken(terms ...regent.Term) {
	g.t.Helper()
	for _, term := range terms {
		if err := g.order(term); err != nil {
			g.t.Errorf("%v: %v", term.Token(), err)
		}
	}
}

// refused fails unless a term's order is refused for another one.
func (g guarded) refused(term regent.Term, newest regent.Token) {
	g.t.Helper()
	err := g.order(term)
	want := regent.StaleError{Epoch: term.Epoch, Term: term.Incarnation, Newest: newest.Epoch, NewestTerm: newest.Term}
	stale, ok := errors.AsType[*regent.StaleError](err)
	if !ok || *stale != want {
		g.t.Errorf("%v: got %v, want %v", term.Token(), err, &want)
	}
}

// orders fails unless there are so many.
func (g guarded) orders(want int) {
	g.t.Helper()
	var n int
	if err := g.db.QueryRow("SELECT count(*) FROM orders").Scan(&n); err != nil || n != want {
		g.t.Errorf("%d orders, %v; want %d", n, err, want)
	}
}

func TestFence(t *testing.T) {
	// of is a term of the election a.
	of := func(incarnation string, epoch uint64) regent.Term {
		return regent.Term{Election: "a", Epoch: epoch, Incarnation: incarnation}
	}

	t.Run("an_older_epoch_is_refused_and_elections_have_fences_of_their_own", func(t *testing.T) {
		g := newGuarded(t)
		g.taken(of("", 5), of("", 5))
		g.refused(of("", 4), regent.Token{Epoch: 5})
		g.taken(regent.Term{Election: "b", Epoch: 1}, of("", 9))
		g.refused(of("", 5), regent.Token{Epoch: 9})
		g.taken(regent.Term{Election: "A", Epoch: 2}, of("", 1<<62-1))
		g.refused(of("", 10), regent.Token{Epoch: 1<<62 - 1})
		g.orders(6)
	})

	t.Run("another_term_with_the_newest_epoch_is_refused", func(t *testing.T) {
		g := newGuarded(t)
		g.taken(of("x", 5), of("x", 5))
		g.refused(of("y", 5), regent.Token{Epoch: 5, Term: "x"})
		g.refused(of("", 5), regent.Token{Epoch: 5, Term: "x"})
		g.taken(of("x", 5), of("y", 6))
		g.refused(of("x", 5), regent.Token{Epoch: 6, Term: "y"})
		g.orders(4)
	})

	t.Run("the_first_term_that_is_named_has_an_open_epoch", func(t *testing.T) {
		g := newGuarded(t)
		g.taken(of("", 5), of("x", 5))
		g.refused(of("y", 5), regent.Token{Epoch: 5, Term: "x"})
	})

	t.Run("what_no_term_can_have_is_refused", func(t *testing.T) {
		g := newGuarded(t)
		for _, term := range []regent.Term{of("", 0), of("", 1<<62), of("", math.MaxUint64), of("x y", 1)} {
			if err := g.order(term); !errors.Is(err, regent.ErrInvalidToken) {
				t.Errorf("%v: %v", term.Token(), err)
			}
		}
		g.orders(0)
	})

	t.Run("a_table_of_the_version_before_is_migrated_where_it_is", func(t *testing.T) {
		g := newGuarded(t)
		run(t, g.db, `CREATE TABLE regent_fence
				(election TEXT NOT NULL PRIMARY KEY, epoch INTEGER NOT NULL) WITHOUT ROWID;
			INSERT INTO regent_fence VALUES ('a', 5), ('b', 7)`)
		g.refused(of("x", 4), regent.Token{Epoch: 5})
		g.taken(of("", 5), of("x", 5))
		g.refused(of("y", 5), regent.Token{Epoch: 5, Term: "x"})
		g.refused(regent.Term{Election: "b", Epoch: 6}, regent.Token{Epoch: 7})
		g.orders(2)
	})

	t.Run("a_row_that_no_fence_has_written_stops_everybody_and_says_which_table", func(t *testing.T) {
		g := newGuarded(t)
		g.taken(of("x", 5))
		run(t, g.db, `UPDATE regent_fence SET epoch = 4611686018427387904`)
		if err := g.order(of("x", 6)); !errors.Is(err, regent.ErrInvalidToken) ||
			!strings.Contains(err.Error(), "regent_fence") {
			t.Errorf("got %v", err)
		}
	})

	t.Run("one_of_two_terms_with_one_epoch_writes", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "regent.db")
		s, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}

		t.Cleanup(func() { _ = s.Close() })
		first, second := storetest.TwoTerms(t, s, "seat", func() func() {
			return func() { // there was nothing before
				run(t, raw(t, path), "DROP TRIGGER IF EXISTS regent_lease_stays; DELETE FROM regent_lease WHERE "+
					"name = 'seat'")
			}
		})

		g := newGuarded(t)
		g.taken(first)
		g.refused(second, first.Token())
		g.taken(first)
		g.orders(2)
	})
}
