package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	database := func(name, query string) string {
		db := raw(t, filepath.Join(dir, name))
		run(t, db, query)
		db.Close()
		return filepath.Join(dir, name)
	}

	text := filepath.Join(dir, "notes.txt")
	long := filepath.Join(dir, "long.txt")
	for path, body := range map[string]string{text: "my notes", long: strings.Repeat("no database\n", 4096)} {
		if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	nowhere := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "gone", "x.db"), nowhere); err != nil {
		t.Fatal(err)
	}

	newer := filepath.Join(dir, "newer.db")
	open(t, newer).Close()
	database("newer.db", "PRAGMA user_version = 3")
	for _, c := range []struct{ fact, path, says string }{
		{"a_directory", dir, "directory"},
		{"a_missing_directory", filepath.Join(dir, "no", "regent.db"), "directory must exist"},
		{"a_short_text_file", text, "not a SQLite database"},
		{"a_long_text_file", long, "not a SQLite database"},
		{"a_link_that_leads_nowhere", nowhere, "broken symbolic link"},
		{"memory", ":memory:", "memstore"},
		{"nothing", "", "name of a file"},
		{"a_newer_schema", newer, "newer version"},
		{"another_programs_database", database("other.db", "CREATE TABLE t (x); PRAGMA user_version = 7"),
			"belongs to another program"},
		{"utf16", database("utf16.db", "PRAGMA encoding = 'UTF-16'; CREATE TABLE t (x)"), "UTF-16"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			before, _ := os.ReadFile(c.path)
			s, err := Open(t.Context(), c.path, Options{})
			if err == nil {
				s.Close()
				t.Fatal("was opened")
			}

			t.Log(err)
			if !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), fmt.Sprintf("%q", c.path)) {
				t.Errorf("the error does not name the path and %q", c.says)
			}

			if after, _ := os.ReadFile(c.path); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestOpenTakes(t *testing.T) {
	t.Run("odd_characters_in_a_path", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a b?c#d%41&mode=memory ü.db")
		s := open(t, path)
		storetest.Swap(t, s, held("x", "a", 1))
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}

		if got := storetest.Names(t, open(t, path), ""); !slices.Equal(got, []string{"x"}) {
			t.Errorf("a second store sees %q", got)
		}
	})

	t.Run("a_link_to_the_same_file", func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, filepath.Join(dir, "regent.db"))
		link := filepath.Join(t.TempDir(), "link.db")
		if err := os.Symlink(s.path, link); err != nil {
			t.Fatal(err)
		}

		if l := open(t, link); l.path != s.path {
			t.Errorf("%s leads to %s", link, l.path)
		}
	})

	t.Run("a_database_with_tables_of_its_user", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "app.db")
		db := raw(t, path)
		run(t, db, "CREATE TABLE orders (id INTEGER); INSERT INTO orders VALUES (1)")
		storetest.Swap(t, open(t, path), held("x", "a", 1))
		var n int
		if err := db.QueryRow("SELECT count(*) FROM orders").Scan(&n); err != nil || n != 1 {
			t.Errorf("orders: %d, %v", n, err)
		}
	})

	t.Run("many_openers_at_once", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "regent.db")
		errs := make(chan error)
		for range 8 {
			go func() {
				s, err := Open(t.Context(), path, Options{})
				if err == nil {
					err = s.Close()
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
}

func TestTheDatabaseGuardsItself(t *testing.T) {
	s := fresh(t)
	l := storetest.Swap(t, s, held("x", "a", 1))
	db := raw(t, s.path)
	for fact, query := range map[string]string{
		"a_register_is_never_deleted":        "DELETE FROM regent_lease",
		"an_edit_without_a_revision_refused": "UPDATE regent_lease SET record = '{}'",
	} {
		t.Run(fact, func(t *testing.T) {
			if _, err := db.Exec(query); err == nil || !strings.Contains(err.Error(), "regent:") {
				t.Error(err)
			}
		})
	}

	t.Run("a_record_that_cannot_be_read_spares_the_others", func(t *testing.T) {
		run(t, db, "UPDATE regent_lease SET rev = hex(randomblob(16)), record = 'oops'")
		if _, err := s.Get(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), s.path) {
			t.Error(err)
		}
		out := s.SwapAll(t.Context(), []driver.Record{l, held("y", "b", 1)})
		if !errors.Is(out[0].Err, driver.ErrConflict) || out[1].Err != nil {
			t.Error(out)
		}
	})
}

func TestAReplacedFileIsNoticed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be removed")
	}

	s := fresh(t)
	l := storetest.Swap(t, s, held("x", "a", 1))
	if err := os.Remove(s.path); err != nil {
		t.Fatal(err)
	}

	_, got := s.Get(t.Context(), "x")
	_, swapped := s.Swap(t.Context(), l)
	for _, err := range []error{got, swapped} {
		if err == nil || !strings.Contains(err.Error(), "removed or replaced") || strings.Contains(err.Error(), "\n") {
			t.Error(err)
		}
	}
}
