package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
	modernc "modernc.org/sqlite"
)

// backup copies the database of a store as an operator does, and returns the copy.
func backup(t testing.TB, s *Store) string {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "backup.db")
	run(t, raw(t, s.path), "VACUUM INTO '"+copied+"'")
	return copied
}

// restore writes a copy back into the live file.
func restore(t testing.TB, s *Store, copied string) {
	t.Helper()
	if err := restoreInto(s.path, copied); err != nil {
		t.Fatal(err)
	}
}

// restoreInto writes a copy into a database through SQLite's backup API, as ".restore" of its shell does.
func restoreInto(path, copied string) error {
	db, err := sql.Open("sqlite", dsn(path, "mode=rw"))
	if err != nil {
		return err
	}
	defer db.Close()

	conn, err := db.Conn(background)
	if err != nil {
		return err
	}
	defer conn.Close()

	return conn.Raw(func(c any) error {
		b, err := c.(interface {
			NewRestore(string) (*modernc.Backup, error)
		}).NewRestore(dsn(copied, "mode=ro"))
		if err != nil {
			return err
		}

		for more := true; more && err == nil; {
			more, err = b.Step(-1)
		}
		return errors.Join(err, b.Finish())
	})
}

func TestARestoreInPlace(t *testing.T) {
	t.Run("uses_no_revision_twice", func(t *testing.T) {
		a := fresh(t)
		b := open(t, a.path)
		seen := map[string]uint64{} // the nonce that each revision showed
		l := storetest.Swap(t, a, held("x", "h", 1))
		seen[l.Rev] = l.Nonce
		copied := backup(t, a)

		kept := l
		for round := range uint64(5) {
			for i, s := range []*Store{a, b, a, b} {
				l.Nonce = 100*round + uint64(i) + 2
				l = storetest.Swap(t, s, l)
				if nonce, twice := seen[l.Rev]; twice {
					t.Fatalf("revision %q, of nonce %d, was given to nonce %d after a restore", l.Rev, nonce, l.Nonce)
				}
				seen[l.Rev] = l.Nonce
			}

			restore(t, a, copied)
			got, err := b.Get(t.Context(), "x")
			if err != nil || got.Nonce != kept.Nonce || got.Rev != kept.Rev {
				t.Fatalf("the restored register shows nonce %d at revision %q, %v", got.Nonce, got.Rev, err)
			}

			l = got
		}
	})

	t.Run("leaves_no_swap_prepared_before_it_that_fits", func(t *testing.T) {
		s := fresh(t)
		l := storetest.Swap(t, s, held("x", "h", 1))
		copied := backup(t, s)
		before := storetest.Swap(t, s, rewritten(l, 2))
		restore(t, s, copied)
		storetest.Swap(t, s, rewritten(l, 3))
		if got, err := s.Swap(t.Context(), rewritten(before, 4)); err == nil {
			t.Errorf("a swap of a record that the restore undid was applied: %+v", got)
		}
	})

	t.Run("does_not_hide_what_moves_after_it", func(t *testing.T) {
		s := fresh(t)
		l := storetest.Swap(t, s, held("x", "h", 1))
		copied := backup(t, s)
		for range 10 {
			l.Epoch++
			l = storetest.Swap(t, s, l)
		}

		claims := make([]driver.Record, 20) // more than the restore undoes
		wakes := make([]<-chan driver.Record, len(claims))
		for i := range claims {
			claims[i] = held(fmt.Sprint("seat/", i), "h", 1)
			wakes[i] = s.Subscribe(t.Context(), driver.Prefix(claims[i].Name))
		}

		restore(t, s, copied)
		s.SwapAll(t.Context(), claims)
		for i, wake := range wakes {
			select {
			case <-wake:
			case <-time.After(20 * time.Second):
				t.Fatalf("no notice of the claim of %q", claims[i].Name)
			}
		}
	})
}

// rewritten returns l as its holder writes it with another nonce.
func rewritten(l driver.Record, nonce uint64) driver.Record {
	l.Nonce = nonce
	return l
}
